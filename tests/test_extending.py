"""docs/extending.md, executed: what a reader adds by its examples works like what the library has."""

import base64
import json
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stepping

import everystep as es
from everystep import agents, problems
from everystep.agents import model_syntax
from everystep.cli import main as command
from everystep.lsvi import loop
from everystep.web import charts

PAGE = Path(__file__).resolve().parent.parent / "docs" / "extending.md"


def example(heading):
    """The code of a section of the page."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return "\n".join(re.findall(r"```python\n(.*?)```", section, re.DOTALL))


def executed(heading, name):
    """A module made from the code of a section."""
    module = ModuleType(name)
    exec(compile(example(heading), str(PAGE), "exec"), module.__dict__)
    return module


@contextmanager
def restored(registry):
    """Forgets what an example has registered."""
    before = dict(registry)
    yield
    registry.clear()
    registry.update(before)


@pytest.fixture(scope="module")
def pond():
    return es.run(es.problems.from_map(("SFF", "FHF", "FFG"), horizon=6), ["lsvi-ae", "lsvi"], episodes=30, seeds=2)


@pytest.fixture
def lsvi_doubling():
    with restored(agents.REGISTERED):
        yield executed("An agent", "my_agents").lsvi_doubling


@pytest.mark.usefixtures("sketched")
def test_a_new_agent_is_listed_runs_is_compared_and_reported(lsvi_doubling, capsys, tmp_path):
    assert command.main(["list"]) == 0
    assert "LSVI-AE with a price that doubles after every violation" in capsys.readouterr().out
    small = ["--episodes", "40", "--seeds", "2", "--out"]
    both = ["--agents", "lsvi-ae,lsvi-doubling"]
    (tmp_path / "pond.txt").write_text("SFF\nFHF\nFFG\n", encoding="utf-8")
    run = ["run", "--problem", str(tmp_path / "pond.txt"), "--horizon", "6", *both, *small, str(tmp_path / "run")]
    assert command.main(run) == 0
    assert command.main(["report", str(tmp_path / "run"), "--no-player"]) == 0
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "lsvi-doubling" in page
    assert "#7A5195" in page
    capsys.readouterr()
    assert command.main(["compare", "--problems", "streaming", *both, *small, str(tmp_path / "compare")]) == 0
    assert "lsvi-doubling" in capsys.readouterr().out


def test_the_price_of_the_new_agent_doubles_after_a_violation(lsvi_doubling):
    problem = es.problems.from_map(("SFF", "FHF", "FFG"), horizon=6)
    built = lsvi_doubling().resolve(problem, 30).build()
    carry = loop.start(built.agent, problem.sizes, built.share_values, built.share_costs)
    world = jax.tree.map(jnp.asarray, problem.world)
    price = np.ones((1, 6))
    for after, _, episode in stepping.episodes(built.agent, world, problem.sizes, carry, 0, 30):
        price = np.where(np.asarray(episode.cost).T > 0, 2 * price, price)
        np.testing.assert_array_equal(after.agent.price, price)
    assert price.max() > 1


@pytest.fixture
def worst_costs():
    with restored(model_syntax.COST_MODELS):
        yield executed("A cost model", "my_costs")


@pytest.mark.usefixtures("sketched", "worst_costs")
def test_a_new_cost_model_runs_is_compared_and_reported(capsys, tmp_path):
    (tmp_path / "pond.txt").write_text("SFF\nFHF\nFFG\n", encoding="utf-8")
    where = ["--problem", str(tmp_path / "pond.txt"), "--horizon", "6", "--agents", "lsvi-ae"]
    small = ["--set", "cost=worst", "--certify", "--episodes", "40", "--seeds", "2", "--out", str(tmp_path / "run")]
    assert command.main(["run", *where, *small]) == 0
    assert command.main(["certify", str(tmp_path / "run")]) == 0
    assert command.main(["report", str(tmp_path / "run"), "--no-player"]) == 0
    assert "<code>cost</code> worst" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    spec = json.loads((tmp_path / "run" / "spec.json").read_text(encoding="utf-8"))
    assert spec["agents"][0]["settings"]["cost"] == "worst"


@pytest.mark.usefixtures("worst_costs")
def test_the_new_cost_model_avoids_what_was_unsafe_once():
    problem = es.problems.from_map(("SFF", "FHF", "FFG"), horizon=6)
    result = es.run(
        problem,
        es.agents.lsvi_ae(cost="worst", radius_cost="coordinate", react=True).called("worst"),
        episodes=60,
        seeds=3,
    )
    unsafe = int((problem.g[0, 0] > 0).sum())
    assert (result.columns["worst"]["violation"].sum(1) <= unsafe).all()
    assert result.certified["worst"]["p"] == 0.05  # the intervals are valid: costs of the pond have no noise
    assert result.certified["worst"]["false"] == 0


@pytest.fixture
def pump():
    with restored(problems.REGISTERED):
        yield executed("A problem", "my_problems").pump


@pytest.mark.usefixtures("sketched")
def test_a_new_problem_is_listed_runs_is_compared_and_reported(pump, capsys, tmp_path):
    assert command.main(["list"]) == 0
    assert "A tank that a pump may fill or drain" in capsys.readouterr().out
    small = ["--episodes", "20", "--seeds", "2", "--out"]
    assert command.main(["run", "--problem", "pump", "--agents", "lsvi-ae", *small, str(tmp_path / "run")]) == 0
    assert command.main(["report", str(tmp_path / "run"), "--no-player"]) == 0
    assert "pump" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    capsys.readouterr()
    agents = ["--problems", "pump", "--agents", "lsvi-ae,uniform"]
    assert command.main(["compare", *agents, *small, str(tmp_path / "compare")]) == 0
    table = capsys.readouterr().out
    assert "pump: H = 8" in table
    assert f"safe optimum {es.planner.solve(pump()).value:.4f}" in table


def test_a_new_problem_is_an_environment(pump):
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("mine/Pump-v0", levels=7)
    assert env.observation_space.n == 7
    env.reset(seed=0)
    assert env.step(0)[4]["constraint"].tolist() == [-0.5]


@pytest.mark.quick
def test_a_new_command_is_listed_and_runs(monkeypatch, capsys, pond, tmp_path):
    monkeypatch.setitem(sys.modules, "everystep.cli.worst", executed("A command", "everystep.cli.worst"))
    monkeypatch.setattr(command, "COMMANDS", (*command.COMMANDS, "worst"))
    with pytest.raises(SystemExit):
        command.main(["--help"])
    assert "the episodes of a run with the most violations" in capsys.readouterr().out
    assert command.main(["worst", str(pond.save(tmp_path / "pond", figures=False)), "--count", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    most = sorted((row["violation"] for row in pond.episodes.to_pylist()), reverse=True)
    assert [float(line.split(": ")[1]) for line in lines] == most[:2]
    assert most[0] > 0


def test_a_new_chart_is_on_the_page_of_the_report(monkeypatch, pond, tmp_path):
    monkeypatch.setattr(charts, "CHARTS", charts.CHARTS)  # restored afterwards
    executed("A chart of the report", "added_chart")
    folder = pond.save(tmp_path / "pond", figures=False)
    assert command.main(["report", str(folder), "--no-player"]) == 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Share of episodes with a violation" in page
    content = json.loads(re.search(r'<script type="application/json" id="content">(.*?)</script>', page, re.DOTALL)[1])
    (chart,) = [chart for chart in content["charts"] if chart["name"] == "share-violated"]
    for label, curves in pond.columns.items():
        mean = np.frombuffer(base64.b64decode(chart["bands"][label]["mean"]), "<f8")
        assert mean[-1] == pytest.approx((curves["violation"] > 0).mean())
