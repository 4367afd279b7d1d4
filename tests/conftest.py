"""Strict everywhere: shapes checked at run time, no silent promotion of types or ranks, 64-bit numbers.

With EVERYSTEP_TESTS_AS_SHIPPED=1 the code runs as users run it: compiled with XLA's own flags, arrays made by JAX,
shapes and promotions not checked. Only what isolates a test session stays: 64-bit numbers, no cache, a key of its own.
"""

import atexit
import gc
import os
import re
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

if os.environ.get("EVERYSTEP_TESTS_AS_SHIPPED") in (None, "", "0"):
    # Tests compile hundreds of small programs and run each for a moment: that is quicker without LLVM's optimisations,
    # and without the newer emitters of fused loops, which prepare a whole compiler for each loop (0.11 has no others),
    # and in one piece: a program cut into 32 for as many threads takes a quarter more to compile, and more memory maps.
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_backend_optimization_level=0"
    os.environ["XLA_FLAGS"] += " --xla_cpu_parallel_codegen_split_count=1"
    if version("jaxlib").startswith("0.10."):
        os.environ["XLA_FLAGS"] += " --xla_cpu_use_fusion_emitters=false"
    # Matrices are small: threads that wait for a share of them cost more than they do.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Compiled programs are kept where a test wants them, never in the cache of the person who runs the tests.
os.environ["EVERYSTEP_CACHE"] = "off"
# The key that signs trainings, likewise: this run has one of its own.
os.environ["EVERYSTEP_STATE"] = tempfile.mkdtemp(prefix="everystep-state-")

import hypothesis
import jax
import numpy as np
import pytest
import seeds
from jax.extend.core.primitives import broadcast_in_dim_p
from jaxtyping import install_import_hook

# `make test-as-shipped` runs the code as users do: without the changes that make the suite quicker or stricter.
AS_SHIPPED = os.environ.get("EVERYSTEP_TESTS_AS_SHIPPED") not in (None, "", "0")
# Where arrays are annotated with shapes. Functions that validate what a user passes are not checked: they get anything.
FEATURES = ("automatic", "joint", "layout", "maps")
CHECKED = [
    "everystep.lsvi", "everystep.kernels", "everystep.training.agent.models",
    *(f"everystep.features.{name}" for name in FEATURES),
]  # fmt: skip
if not AS_SHIPPED:
    install_import_hook(CHECKED, "beartype.beartype")

# Tracing makes many objects that stay: looking through all of them as often as Python does by itself is a waste.
gc.set_threshold(50_000, 20, 50)
atexit.register(shutil.rmtree, os.environ["EVERYSTEP_STATE"], ignore_errors=True)


def made_in_numpy(primitive, make):
    """Outside of compiled code NumPy makes arrays where `make` can: JAX would compile a program for every shape."""
    compiled = primitive.impl

    def impl(operand, **how):
        made = make(operand, **how)
        return compiled(operand, **how) if made is None else jax.device_put(made)

    primitive.def_impl(impl)


def filled(operand, *, shape, broadcast_dimensions, sharding):
    """`jnp.zeros` and the like."""
    plain = isinstance(operand, jax.Array) and isinstance(operand.dtype, np.dtype) and not operand.weak_type
    return np.full(shape, operand) if plain and operand.ndim == 0 and sharding is None else None


def copied(operand):
    """`jnp.asarray` of an array of NumPy."""
    return operand.copy() if isinstance(operand, np.ndarray) else None


if not AS_SHIPPED:
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    jax.config.update("jax_numpy_rank_promotion", "raise")
    made_in_numpy(broadcast_in_dim_p, filled)
    if hasattr(jax.lax, "stage_p"):
        made_in_numpy(jax.lax.stage_p, copied)


# No folder of examples: the checkout may be read-only.
hypothesis.settings.register_profile("repeatable", print_blob=True, database=None)
hypothesis.settings.load_profile("repeatable")


@pytest.hookimpl(tryfirst=True)  # before Hypothesis's plugin reads its option
def pytest_configure(config):
    if config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(seeds.SEED)


# The files that take longest begin first, so that none of them is left at the end; those that wait for other processes
# or for a browser stand between those that compute.
FIRST = [
    "test_fuzz", "test_oracle", "test_ray", "test_loop", "test_checkpoints", "test_reachable", "test_play", "test_gp",
    "test_gym", "test_stored_agent", "test_diagnosis", "test_cli", "test_train", "test_safe_agents", "test_lsvi_new",
    "test_cone_program", "test_gpu_kernel", "test_switching", "test_certificates", "test_units", "test_report",
    "test_interrupts", "test_training_folder", "test_shielded_env", "test_frames", "test_local", "test_contract",
]  # fmt: skip


def pytest_collection_modifyitems(items):
    place = {name: number for number, name in enumerate(FIRST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(place)))


def pytest_terminal_summary(terminalreporter):
    """The seed of the random tests, and a line for everything that is missing here, so that no skip is overlooked."""
    terminalreporter.write_line(seeds.HOW)
    if AS_SHIPPED:
        terminalreporter.write_line("the code ran as shipped: compiled with XLA's own flags, shapes not checked")
    reasons = {str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", []) if report.longrepr}
    missing = re.compile("no browser|not installed|could not import", re.IGNORECASE)
    for reason in sorted(filter(missing.search, reasons)):
        terminalreporter.write_sep("!", f"TESTS DID NOT RUN: {reason.removeprefix('Skipped: ')}", red=True, bold=True)


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


@pytest.fixture(autouse=True, scope="session")
def _patience():
    """A machine that runs many tests is slow: no notes about what takes long, and no chunks in pieces because of it."""
    from everystep.experiments.engines import local
    from everystep.runtime import progress

    progress.PATIENCE, local.PIECE, local.FIRST = 600.0, 1e9, 10**9


@pytest.fixture(autouse=True, scope="module")
def _room_for_programs():
    """Compiled programs are dropped after a file of tests that has used half of the memory maps of a process.

    Linux limits their number and every program takes some: with all files in one process the compiler would crash.
    """
    yield
    limit = Path("/proc/sys/vm/max_map_count")
    if limit.is_file() and len(Path("/proc/self/maps").read_bytes().splitlines()) > int(limit.read_bytes()) // 2:
        jax.clear_caches()
        gc.collect()


@pytest.fixture(scope="session")
def lake():
    from everystep.problems import frozen_lake

    return frozen_lake()


@pytest.fixture
def sketched(monkeypatch):
    """Figures are made but neither laid out nor painted, which takes longer than a small run: for other tests."""
    from matplotlib.figure import Figure

    from everystep.experiments import figures

    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **how: file.write(f"{figure} {how}".encode()))
    monkeypatch.setattr(figures, "_lay_out", lambda figure: None)


@pytest.fixture
def registry():
    """The registered problems, to which a test may add: what it adds is removed again, its gymnasium ids too."""
    from everystep.problems import REGISTERED

    before = dict(REGISTERED)
    yield REGISTERED
    added = [problem.gym_id for problem in REGISTERED.values() if problem not in before.values()]
    REGISTERED.clear()
    REGISTERED.update(before)
    if gymnasium := sys.modules.get("gymnasium"):
        for gym_id in added:
            gymnasium.registry.pop(gym_id, None)
