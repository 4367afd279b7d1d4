# make paper   reproduce the paper's experiment into out/paper
# make test    lint, types and all tests
# make quick   lint, types and the tests marked `quick`: a few of every file (a minute on two cores, once installed)
# make test-as-shipped  the tests of all compiled code without the flags and checks of tests/conftest.py
# make fuzz    15,000 hostile inputs of the command, the Python API, and folders and environments of others (JOBS at a time; about an hour on two cores)
# make soak    500 kills of a run, each resumed and compared byte for byte (JOBS at a time), 60 of a training, and 200 of `everystep train`
# make bench   the timed comparisons (minutes)
# make examples the pictures of docs/cost-models.md, docs/logged-data.md and docs/examples.md (minutes on a GPU, about an hour on two cores)
# make studies  docs/comparison.md and the studies of docs/paper.md (about an hour on two cores)
# make apps    docs/applications and docs/leaderboard.md, from runs on four simulators of others (many hours on two cores)
# make apps-quick  the same with two seeds and few steps, into out/apps-quick (minutes)
# make figures the pictures of the README and docs, from a fresh run of the paper's experiment
# make docs    the documentation site, docs/_build/html, in an environment of its own; every warning is an error
# make blocks  the commands and the Python of the README and of "Start", run as printed (minutes)
# make blocks-all  those of all pages
# make check-site  the site, a report and the playground in a browser: accessibility, and no page scrolls sideways
# make dist    the sdist and the wheel in dist/, checked, installed and used as a stranger would (minutes)
# Everything runs in .venv, made on first use from nothing but Python (3.11 or newer) and pip.

PYTHON ?= python3
BIN := .venv/bin
TYPESCRIPT := 7.0.2
# Tests wait for child processes, disks and a browser a quarter of the time: three workers for two cores. Each takes one
# file after another, in the order of tests/conftest.py.
WORKERS ?= 3
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# Parts of packages that are not compiled in advance: nothing here imports them, or little of them.
UNUSED := /tests?/|/ray/(rllib|serve|data|tune|train|llm|dashboard)/|/plotly/(graph_objs|validators|matplotlylib)/|/pip/|/pygments/lexers/

# In a checkout that cannot be written, nothing is cached from one check to the next.
ifeq ($(shell test -w . && echo writable),)
export RUFF_NO_CACHE := true
export MYPY_CACHE_DIR := /dev/null
endif

# Processes of `make fuzz` and `make soak`.
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

.PHONY: apps apps-quick paper docs blocks blocks-all check-site dist examples studies figures browser test test-as-shipped quick lint types stub fuzz soak bench clean

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("everystep needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[dev]'
	$(BIN)/python -m compileall -qq -j 2 -x '$(UNUSED)' .venv/lib || true
	touch $@

paper: .venv/installed
	$(BIN)/everystep reproduce --out out/paper

.venv-docs/installed: pyproject.toml constraints.txt
	test -x .venv-docs/bin/python || $(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@

# Everything is read again (-E): pages contain parts of the README, docstrings and the commands, which Sphinx does not watch.
docs: .venv-docs/installed
	JAX_PLATFORMS=cpu .venv-docs/bin/sphinx-build -b html -W --keep-going -n -E -q docs docs/_build/html
	@echo "the site: docs/_build/html/index.html"

blocks: .venv/installed
	$(BIN)/python docs/run_blocks.py

blocks-all: .venv/installed
	$(BIN)/python docs/run_blocks.py --all

AXE := 4.14.0
check-site: .venv/installed browser docs
	test -e .venv/node/node_modules/axe-core/axe.min.js || \
	    npm install --silent --no-fund --no-audit --cache .venv/node/cache --prefix .venv/node axe-core@$(AXE)
	$(BIN)/python docs/check_site.py

.venv-dist/installed: constraints.txt
	test -x .venv-dist/bin/python || $(PYTHON) -m venv .venv-dist
	.venv-dist/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt build hatchling twine
	touch $@

# TAG=v0.2.0 also checks that this is the tag of the version.
dist: .venv-dist/installed
	.venv-dist/bin/python release/check.py $(if $(TAG),--tag $(TAG))

# Pages are tested in a real browser: Debian's Chromium, installed if it can be. Without it these tests say that they did not run.
browser:
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; } || \
	    echo "NO BROWSER: chromium is not here and cannot be installed (that takes root and apt-get); its tests will be skipped"

# Style and types are checked beside the tests, which leave a core idle now and then; what they say is printed after them.
test: .venv/installed browser
	@said=$$(mktemp) && { $(MAKE) --no-print-directory lint types >"$$said" 2>&1 & checking=$$!; \
	    $(PYTEST); tests=$$?; wait $$checking; checks=$$?; \
	    echo "style and types:"; cat "$$said"; rm -f "$$said"; \
	    test $$checks = 0 || echo "FAILED: the style or the types above"; \
	    test $$tests = 0 || echo "FAILED: the tests above"; test $$tests = 0 && test $$checks = 0; }

# The rest of the suite runs no compiled code, or does not look at its numbers.
COMPILED := mdp lsvi agents features experiments environments training reports
test-as-shipped: .venv/installed
	EVERYSTEP_TESTS_AS_SHIPPED=1 $(PYTEST) $(COMPILED:%=tests/%)

quick: .venv/installed
	$(MAKE) -j 2 lint types
	$(PYTEST) -m quick

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@if command -v node >/dev/null && { test -x .venv/node/node_modules/.bin/tsc || { command -v npm >/dev/null && \
	    npm install --silent --no-fund --no-audit --cache .venv/node/cache --prefix .venv/node typescript@$(TYPESCRIPT); }; }; \
	then .venv/node/node_modules/.bin/tsc -p . && echo "scripts of the pages: types checked"; \
	else echo "SCRIPTS OF THE PAGES NOT CHECKED: node or npm is not here, or TypeScript could not be installed"; fi

types: .venv/installed
	$(BIN)/mypy

stub: .venv/installed
	$(BIN)/python release/stub.py

fuzz: .venv/installed
	$(BIN)/python tests/fuzz --jobs $(JOBS)

soak: .venv/installed
	$(BIN)/python tests/soak/run_soak.py --jobs $(JOBS)
	$(BIN)/python tests/soak/training_soak.py --kills 60
	$(BIN)/python tests/soak/command_soak.py --kills 200 --jobs $(JOBS)

.venv-peers/installed: benchmarks/peers.txt
	test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers.txt
	touch $@

.venv/benched: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	touch $@

bench: .venv/benched .venv-peers/installed
	$(BIN)/python benchmarks/lake.py
	$(BIN)/python benchmarks/dense.py
	$(BIN)/python benchmarks/large.py
	$(BIN)/python benchmarks/stored.py --figure docs/figures/stored.png
	$(BIN)/python benchmarks/gp.py
	$(BIN)/python benchmarks/switching.py
	$(BIN)/python benchmarks/command.py
	$(BIN)/python benchmarks/rows.py
	$(BIN)/python benchmarks/cores.py
	$(BIN)/python benchmarks/many_seeds.py
	$(BIN)/python benchmarks/ray_overhead.py
	$(BIN)/python benchmarks/play.py

studies: .venv/installed
	$(BIN)/everystep compare
	$(BIN)/everystep compare --ablation
	$(BIN)/everystep run --problem frozen-lake --agents lsvi-ae,lsvi --seeds 16 --out out/lake
	$(BIN)/everystep theory out/lake
	cp out/lake/figures/theory.png docs/figures/
	$(BIN)/python studies/coverage.py --figure docs/figures/coverage.png
	$(BIN)/python studies/error_sum.py --figure docs/figures/error-sum.png
	$(BIN)/python studies/known_safe_agents.py --seeds 8
	$(BIN)/python studies/bandit_floors.py
	$(BIN)/python studies/hard_instance.py --workers 2 --figure docs/figures/hard-instance.png

figures: paper browser
	mkdir -p docs/figures
	cp out/paper/figures/learning.png out/paper/figures/heatmap.png out/paper/figures/map.png docs/figures/
	cp out/paper/figures/regret.png out/paper/figures/literal.png docs/figures/
	$(BIN)/python docs/film.py out/paper/report.html docs/figures/player.webp

.venv/with-rivals: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[sim,rivals]'
	touch $@

examples: .venv/installed .venv/with-rivals
	$(BIN)/python examples/landing.py
	$(BIN)/python examples/linear.py
	$(BIN)/python examples/terrain.py
	$(BIN)/python examples/dial.py
	$(BIN)/python examples/two_limits.py
	$(BIN)/python examples/racetrack.py
	$(BIN)/python examples/environments.py
	$(BIN)/python examples/cartpole.py --seeds 3
	$(BIN)/python examples/highway.py --seeds 3
	$(BIN)/python examples/lake_holes.py --seeds 3
	$(BIN)/python examples/warm_start.py
	cp out/examples/landing/figures/certificates.png docs/figures/landing.png
	cp out/examples/two-limits/figures/certificates.png docs/figures/two-limits.png
	cp out/examples/environments/environments.png docs/figures/environments.png
	cp out/examples/cartpole/cartpole.png out/examples/highway/highway.png docs/figures/
	cp out/examples/lake-holes/lake-holes.png out/examples/warm-start/warm-start.png docs/figures/
	cp out/examples/terrain/terrain.png out/examples/dial/dial.png out/examples/racetrack/racetrack.png docs/figures/

# Simulators and rivals have an environment of their own, with pins of their own. What is in the results is not run again.
.venv-apps/installed: pyproject.toml examples/applications/requirements.txt
	test -x .venv-apps/bin/python || $(PYTHON) -m venv .venv-apps
	.venv-apps/bin/python -m pip install --quiet --disable-pip-version-check -e . -r examples/applications/requirements.txt
	touch $@

APPS := electric_motor power_grid oil_pump cruise_control driving
apps: .venv-apps/installed
	for app in $(APPS); do .venv-apps/bin/python examples/applications/$$app.py --jobs $(JOBS) \
	    --out examples/applications/results || exit; done
	.venv-apps/bin/python examples/applications/pages.py
	.venv-apps/bin/everystep leaderboard examples/applications/results --out out/leaderboard --page docs/leaderboard.md --force

apps-quick: .venv-apps/installed
	for app in $(APPS); do .venv-apps/bin/python examples/applications/$$app.py --jobs $(JOBS) --seeds 0:2 --steps 500 \
	    --systems 'lsvi-ahead;lsvi-ae;PPO, price 10;PPO-Lagrangian;random' --out out/apps-quick || exit; done
	.venv-apps/bin/everystep leaderboard out/apps-quick --out out/apps-quick/leaderboard

clean:
	rm -rf .venv .venv-apps .venv-peers .venv-docs .venv-dist dist docs/_build out .pytest_cache .mypy_cache .ruff_cache
