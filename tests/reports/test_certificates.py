"""`everystep certify`: what it reports, and which folders it refuses."""

import json
import re

import pytest

import everystep as es
from everystep.cli import main
from everystep.mdp.arrays import save_problem
from everystep.mdp.cmdp import FiniteCMDP


@pytest.fixture(scope="module")
def pond():
    return es.problems.from_map(("SFF", "FHF", "FFG"), horizon=6)


@pytest.fixture(scope="module")
def folder(pond, tmp_path_factory):
    """A run of three agents: a heuristic, one with valid intervals, and one that has no cost model."""
    agents = [es.agents.lsvi_ae(cost="gp"), es.agents.lsvi_ae(radius_cost="coordinate"), "lsvi"]
    result = es.run(pond, agents, episodes=80, seeds=3, certify=True)
    return result.save(tmp_path_factory.mktemp("runs") / "pond", figures=False)


def test_labels_are_recorded_for_every_episode_when_asked(folder):
    import pyarrow.parquet as pq

    table = pq.read_table(folder / "episodes.parquet")
    assert {"safe_labels", "unsafe_labels", "false_labels"} <= set(table.column_names)
    safe = table["safe_labels"].to_numpy()
    assert safe[0] == 0
    assert safe[79] > 5


@pytest.mark.quick
def test_certify_prints_a_table_and_draws_arrows_on_the_map(folder, capsys):
    assert main.main(["certify", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "heuristic" in printed
    assert "p = 0.05" in printed
    for name in ("certificates.png", "certificates.svg"):
        assert (folder / "figures" / name).stat().st_size > 1000
    certified = json.loads((folder / "certificates.json").read_text(encoding="utf-8"))
    assert list(certified) == ["lsvi-ae(cost=gp)", "lsvi-ae(radius_cost=coordinate)"]
    for each in certified.values():
        assert each["safe"] + each["unsafe"] + each["unknown"] == pytest.approx(each["actions"])
    assert certified == {
        name: {key: value for key, value in each.items() if "any_time" not in key}
        for name, each in json.loads((folder / "summary.json").read_text(encoding="utf-8"))["certificates"].items()
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--agent", "lsvi-e"], "no agent 'lsvi-e'"),
        (["--agent", "lsvi"], "no agent 'lsvi'"),
        (["--seed", "7"], "seed is 7; the run has 0 to 2"),
        (["--seed", "x"], "seed is x; give a whole number"),
        (["--step", "7"], "step is 7; give a whole number from 1 to 6"),
    ],
)
def test_certify_says_what_it_cannot_show(folder, capsys, options, message):
    assert main.main(["certify", str(folder), *options]) == 2
    assert message in capsys.readouterr().err


def test_certify_refuses_folders_that_hold_no_certificates(pond, tmp_path, capsys):
    assert main.main(["certify", str(tmp_path / "nowhere")]) == 2
    assert "holds no run" in capsys.readouterr().err
    brief = lambda agent: es.run(pond, agent, episodes=2, seeds=3, certify=True)  # compiled for `folder`
    brief("lsvi").save(tmp_path / "blind", figures=False)
    assert main.main(["certify", str(tmp_path / "blind")]) == 2
    assert "no agent in it has a cost model" in capsys.readouterr().err
    seeing = brief(es.agents.lsvi_ae(cost="gp"))
    seeing.save(tmp_path / "damaged", figures=False)
    (tmp_path / "damaged" / "certificates.npz").write_bytes(b"PK\x03\x04 not an archive")
    assert main.main(["certify", str(tmp_path / "damaged")]) == 2
    assert "certificates.npz' was altered since it was written" in capsys.readouterr().err
    other = es.problems.from_map(("SF", "FG"), horizon=3)
    for name, spoil in {
        "empty": lambda run: (run / "spec.json").write_text("{}", encoding="utf-8"),
        "no agents": lambda run: (run / "spec.json").write_text('{"agents": [], "seeds": []}', encoding="utf-8"),
        "no text": lambda run: (run / "spec.json").write_text("{", encoding="utf-8"),
        "other": lambda run: save_problem(other, run / "problem.npz"),
    }.items():
        run = seeing.save(tmp_path / name, figures=False)
        spoil(run)
        assert main.main(["certify", str(run)]) == 2
        assert "was altered since it was written" in capsys.readouterr().err
        (run / ".everystep.sha256").unlink()
        assert main.main(["certify", str(run)]) == 2
        assert re.search("is not in the list of what was written", capsys.readouterr().err)


def test_a_problem_without_a_map_is_certified_without_a_picture(pond, tmp_path, capsys):
    problem = FiniteCMDP(pond.P, pond.r[0], pond.g[:, 0], horizon=6, noise=pond.noise)
    agent = es.agents.lsvi_ae(radius_cost="coordinate")
    es.run(problem, agent, episodes=5, seeds=3, certify=True).save(tmp_path / "run", figures=False)
    assert main.main(["certify", str(tmp_path / "run")]) == 0
    assert "Drawn" not in capsys.readouterr().out
    assert not (tmp_path / "run" / "figures").exists()
