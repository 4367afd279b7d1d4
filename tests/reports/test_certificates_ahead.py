"""`everystep certify` of an agent that looks ahead."""

import json

import pytest
from problems_for_tests.brink import brink

import everystep as es
from everystep.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A map with a current in its middle, for one agent that looks ahead and one that does not."""
    pond = es.problems.from_map(("SFF", "FHF", "FFG"), horizon=6)
    agents = [es.agents.lsvi_ahead(radius_cost="coordinate"), es.agents.lsvi_ae(radius_cost="coordinate")]
    return es.run(pond, agents, episodes=60, seeds=2).save(tmp_path_factory.mktemp("runs") / "pond", figures=False)


@pytest.mark.quick
def test_certify_reports_labels_ahead_beside_those_of_this_step(folder, capsys):
    assert main.main(["certify", str(folder), "--tolerance", "2.5"]) == 0
    printed = capsys.readouterr().out
    assert "safe ahead" in printed
    assert "2.5" in printed
    certified = json.loads((folder / "certificates.json").read_text(encoding="utf-8"))
    ahead = certified["lsvi-ahead"]["ahead"]
    assert (ahead["tolerance"], ahead["p"], ahead["actions"]) == (2.5, 0.1, 6 * 9 * 4)
    assert ahead["safe"] > 20
    assert "ahead" not in certified["lsvi-ae"]
    for name in ("certificates.png", "certificates-ahead.png", "certificates-ahead.svg"):
        assert (folder / "figures" / name).stat().st_size > 1000
    assert main.main(["certify", str(folder)]) == 0
    assert (
        json.loads((folder / "certificates.json").read_text(encoding="utf-8"))
        == json.loads((folder / "summary.json").read_text(encoding="utf-8"))["certificates"]
    )


def test_certify_refuses_a_tolerance_that_means_nothing(folder, tmp_path, capsys):
    assert main.main(["certify", str(folder), "--tolerance", "-1"]) == 2
    assert "tolerance is" in capsys.readouterr().err
    es.run(brink(), "lsvi-ae", episodes=2, seeds=1).save(tmp_path / "run", figures=False)
    assert main.main(["certify", str(tmp_path / "run"), "--tolerance", "1"]) == 2
    assert "the run has none" in capsys.readouterr().err
