"""`everystep theory`: the table, and what keeps a folder from it."""

import json
import shutil

import numpy as np
import pytest

import everystep as es
from everystep import files
from everystep.cli import main
from everystep.experiments.folder import rerun
from everystep.reports.theory import diagnosis


@pytest.fixture(scope="module")
def pond():
    return es.problems.from_map(("SFF", "FHF", "FFG"), horizon=5)


@pytest.fixture(scope="module")
def folder(pond, tmp_path_factory):
    """A run of many kinds of agents, one with features from Python."""
    phi = np.random.default_rng(0).dirichlet(np.ones(4), (9, 4))
    agents = [
        es.agents.lsvi_ae(cost="gp(categorical(on=landing))", beta=0.4).called("process"),
        es.agents.lsvi_ae(radius="paper", share_values=False, share_costs=False).called("printed"),
        es.agents.lsvi_ae(features=phi, switch=2).called("rare"),
        "lsvi",
    ]
    return es.run(pond, agents, episodes=30, seeds="5:8").save(tmp_path_factory.mktemp("runs") / "pond", False)


@pytest.fixture(scope="module")
def watched(folder):
    return diagnosis.diagnose(rerun.read(folder).again(2))


@pytest.mark.quick
def test_a_folder_run_again_with_the_probe_gives_the_same_numbers_bit_for_bit(folder, watched):
    kept = rerun.read(folder)
    assert kept.again(2).spec["seeds"] == [5, 6]
    for label, each in watched.items():
        np.testing.assert_array_equal(each.metrics.value, kept.curves[label]["value"][:2])
        np.testing.assert_array_equal(each.metrics.violation.sum(-1), kept.curves[label]["violation"][:2])
        kept.check(label, each.metrics.value, each.metrics.violation.sum(-1))
    with pytest.raises(es.EverystepError, match="different value of lsvi"):
        kept.check("lsvi", kept.curves["lsvi"]["value"] + 1e-6, kept.curves["lsvi"]["violation"])


def test_an_agent_that_plans_rarely_is_judged_by_its_last_plan(watched):
    rare = watched["rare"]
    planned = np.asarray(rare.metrics.planned)[0]
    assert 0 < planned.sum() < len(planned)
    held = rare.optimism_held[0]
    last = None
    for k in range(len(planned)):
        last = rare.measured.optimism[0, k] >= -diagnosis.SLACK if planned[k] else last
        assert held[k] == last


def test_the_command_compares_a_run_with_its_theory(folder, capsys):
    assert main.main(["theory", str(folder), "--seeds", "2"]) == 0
    shown = capsys.readouterr().out
    for word in (
        "3 seeds, 2 of them run again",
        "below K H from K",
        "Condition 1 held in all episodes of",
        "Q >= Q* held",
        "information gain, costs",
        "Theorem 1 does not cover this run: beta is tuned",
        "it is about lsvi-ae, and this is lsvi",
    ):
        assert word in shown
    theory = json.loads((folder / "theory.json").read_text(encoding="utf-8"))["agents"]
    assert theory["printed"]["condition_1"] == {"seeds": 2, "in_all_episodes_of": 2, "share_of_episodes": 1.0}
    for label in ("process", "printed", "rare"):
        assert theory[label]["errors"]["measured"]["mean"] <= theory[label]["errors"]["printed"]["bound"]
        assert theory[label]["violation"]["printed"]["bound"] < theory[label]["violation"]["repaired"]["bound"]
        for quantity in ("cost_potential", "cost_information"):
            (model,) = theory[label][quantity]
            assert model["measured"]["high"] <= model["printed"]["bound"]
    assert "errors" not in theory["lsvi"]
    assert theory["printed"]["regret"]["repaired"]["first_informative_K"] > 1e4
    assert {path.name for path in (folder / "figures").glob("[!.]*")} == {"theory.png", "theory.svg"}


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda spec, folder: (folder / "spec.json").unlink(), "holds no run"),
        (lambda spec, folder: (folder / "problem.npz").write_bytes(b"no"), "problem.npz that cannot be read"),
        (lambda spec, folder: spec["agents"][0]["settings"].update(known_safe="9x4:abc"), "passed from Python"),
        (lambda spec, folder: spec["agents"][0]["settings"].update(cost="gp(custom) #12"), "passed from Python"),
        (lambda spec, folder: spec["problem"].update(digest="other"), "holds another problem than the one it ran"),
        (lambda spec, folder: spec["agents"][3]["settings"].update(beta=0.3), "a different value of lsvi"),
        (lambda spec, folder: (folder / "features.npz").unlink(), "features.npz"),
    ],
)
def test_what_keeps_a_folder_from_its_theory_is_one_sentence(folder, tmp_path, capsys, spoil, sentence):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    spec = json.loads((copy / "spec.json").read_text(encoding="utf-8"))
    kept = json.dumps(spec)
    spoil(spec, copy)
    if json.dumps(spec) != kept:
        (copy / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
    found = [path for path in copy.iterdir() if path.is_file() and path.name != files.RECORD]
    sums = "".join(f"{files.seal(path).sha256}  {path.name}\n" for path in found)
    (copy / files.RECORD).write_text(sums, encoding="utf-8")  # otherwise every change is recognised as one
    assert main.main(["theory", str(copy), "--seeds", "1", "--force"]) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert sentence in error
    assert error.startswith("everystep: ")


@pytest.mark.parametrize("seeds", ["0", "many", "-3"])
def test_a_wrong_number_of_seeds_is_refused(folder, capsys, seeds):
    assert main.main(["theory", str(folder), "--seeds", seeds]) == 2
    assert "seeds is" in capsys.readouterr().err
