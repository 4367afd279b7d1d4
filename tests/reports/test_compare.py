"""es.compare: agents on problems, or trainings that are done."""

import pytest
from environments_for_tests.rings import Levers

import everystep as es
from everystep.errors import EverystepError


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Two agents on a small problem, with the folder of the runs and the numbers of finished episodes."""
    out, done = tmp_path_factory.mktemp("compare") / "out", []
    options = {"problems": ["bandit"], "agents": ["lsvi-ae", "uniform"], "episodes": 6, "seeds": 2}
    return es.compare(**options, out=out, progress=done.append), out, done, options


@pytest.mark.quick
def test_there_is_a_row_for_each_agent_and_what_is_printed_is_the_table(compared):
    found, out, done, _ = compared
    assert [(row["problem"], row["agent"]) for row in found.rows] == [("bandit", "lsvi-ae"), ("bandit", "uniform")]
    assert sum(done) == 2 * 2 * 6
    assert "bandit" in str(found)
    assert repr(found) == "<Comparison of 2 rows>"
    assert (out / "bandit" / "spec.json").is_file()


def test_runs_that_are_there_are_not_repeated(compared):
    found, out, _, options = compared
    again = []
    assert str(es.compare(**options, out=out, progress=again.append)) == str(found)
    assert sum(again) == 0


def test_trainings_are_put_side_by_side(tmp_path):
    for name in ("one", "two"):
        es.train(Levers(), "lsvi-ae", episodes=2, length=20, horizon=2, out=tmp_path / name, progress=lambda n: None)
    found = es.compare([tmp_path / "one", tmp_path / "two"])
    assert len(found.rows) == 2
    assert "Levers" in str(found)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"folders": "x", "episodes": 3}, "folders"),
        ({"ablation": True, "agents": ["lsvi"]}, "ablation"),
        ({"ablation": 3}, "ablation is 3"),
        ({"progress": 3}, "progress is 3"),
        ({"agents": 3}, "agents is 3"),
        ({"problems": ["lak"]}, "lak"),
    ],
)
def test_what_does_not_fit_together_is_refused(given, words):
    with pytest.raises(EverystepError, match=words):
        es.compare(**given)
