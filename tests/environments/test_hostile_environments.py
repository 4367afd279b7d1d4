"""Environments and files that do what they should not: one sentence, status 2, and everything before is kept."""

import json
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from environments_for_tests.broken import Naughty

import everystep as es
from everystep import EverystepError, files
from everystep.cli.main import main
from everystep.environments.play import film
from everystep.files.store import checksum
from everystep.runtime.program_cache import SEAL, ProgramCache
from everystep.training.seeds import run as training_seeds
from everystep.training.seeds.request import TrainingRequest

MASKED = np.ma.array([0.1, -0.5], mask=[True, False])


def leaving():
    return Naughty(sys.exit)


def wandering():
    return Naughty(lambda: os.chdir("/"))


def closing():
    return Naughty(lambda: sys.stdout.close())


class GoneError(BaseException):
    pass


def gone():
    raise GoneError("far away")


TRAINED = {"features": es.features.polynomial(1), "horizon": 1, "episodes": 4}
STEP = (np.zeros(2), 0.0, True, False, {"constraint": -1.0})


@pytest.mark.quick
@pytest.mark.parametrize(
    ("misdeed", "words"),
    [
        (sys.exit, r"episode 3, step 1: .*raised SystemExit: it called sys\.exit\(\)"),
        (gone, "raised GoneError: far away"),
        (lambda: (*STEP[:4], {"constraint": MASKED}), "a part is masked"),
        (lambda: (MASKED, *STEP[1:]), "has masked entries"),
        (lambda: (STEP[0], np.ma.masked, *STEP[2:]), "the reward is --; return one number"),
        (lambda: (STEP[0], np.ma.array(3, mask=True), *STEP[2:]), "return one number"),
    ],
)
def test_whatever_an_environment_does_is_a_sentence_and_loses_nothing(misdeed, words):
    with pytest.raises(EverystepError, match=words) as raised:
        es.train(Naughty(misdeed), "lsvi-ae", **TRAINED)
    assert len(raised.value.result.columns["return"]) == 2


@pytest.mark.quick
def test_sys_exit_in_a_constraint_a_callback_or_a_factory_is_a_sentence(tmp_path, monkeypatch, capsys):
    leave = lambda *_: sys.exit(0)
    for changed in ({"constraint": leave}, {"on_episode": leave}, {"progress": leave}):
        with pytest.raises(EverystepError, match="SystemExit"):
            es.train(Naughty(), "lsvi-ae", **TRAINED | changed)
    (tmp_path / "leaving_at_once.py").write_text("raise SystemExit\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--env", "leaving_at_once:make", "--episodes", "1", "--out", "out"]) == 2
    assert "the module raised SystemExit (it called sys.exit())" in capsys.readouterr().err


def words_of(name, *more):
    own = ["train", "--env", f"{__name__}:{name}", "--episodes", "4", "--features", "polynomial(1)", "--horizon", "1"]
    return [*own, "--evaluate", "1", "--out", "out", "--jobs", "1", *more]


def test_sys_exit_while_several_seeds_train_is_status_2_and_names_every_seed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(words_of("leaving", "--seeds", "2")) == 2
    said = capsys.readouterr().err
    assert said.count("it called sys.exit()") == 2
    assert "seed 1: episode 3" in said
    assert sorted(each.name for each in (tmp_path / "out").glob("seed-*")) == ["seed-0", "seed-1"]


def test_an_environment_that_changes_the_folder_moves_no_output(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(words_of("wandering")) == 0
    assert "Written to out" in capsys.readouterr().out
    assert (tmp_path / "out" / "seed-0" / "spec.json").is_file()
    es.train(wandering(), "lsvi-ae", **TRAINED, out="mine")
    assert (tmp_path / "mine" / "spec.json").is_file()


def test_an_environment_that_closes_standard_output_loses_no_result(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdout", (tmp_path / "said.txt").open("w", encoding="utf-8"))
    assert main(words_of("closing")) == 0
    assert "Written to out" in (tmp_path / "said.txt").read_text(encoding="utf-8")
    assert "Traceback" not in capsys.readouterr().err
    assert (tmp_path / "out" / "evaluation.json").is_file()


@pytest.mark.quick
def test_masked_logged_data_and_problems_are_refused():
    rows = {
        "observations": [0, 1],
        "actions": [0, 0],
        "next_observations": [1, 0],
        "terminated": [0, 0],
        "steps": [0, 1],
    }
    for name in ("rewards", "costs"):
        with pytest.raises(EverystepError, match=f"{name} have masked entries"):
            es.Batch.of(**rows, **{"rewards": [0.0, 1.0], "costs": [0.0, 1.0]} | {name: MASKED})
    with pytest.raises(EverystepError, match="masked"):
        es.features.flatten([MASKED])


# --- files ------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    return es.train(Naughty(), "lsvi-ae", **TRAINED).policy.save(tmp_path_factory.mktemp("policy") / "policy")


@pytest.mark.parametrize(
    "change",
    [{"horizon": "1"}, {"horizon": 10**400}, {"length": None}, {"versions": ["0.1"]}, {"guarantee": 1}, {"length": ""}],
)
def test_a_policy_whose_spec_has_another_form_is_refused_when_it_is_read(change, policy):
    content = json.loads((policy / "policy.json").read_text(encoding="utf-8"))
    before = (policy / "policy.json").read_bytes()
    content["spec"].update(change)
    content["spec"] = {key: value for key, value in content["spec"].items() if value is not None}
    content.pop("checksum")
    (policy / "policy.json").write_text(json.dumps({**content, "checksum": checksum(content)}), encoding="utf-8")
    try:
        with pytest.raises(EverystepError, match="cannot be read"):
            es.Policy.load(policy)
    finally:
        (policy / "policy.json").write_bytes(before)


@pytest.mark.quick
def test_a_number_that_no_float_can_hold_is_a_wrong_request(tmp_path):
    request = TrainingRequest(env="CartPole-v1", episodes=1).to_json() | {"stop_at_return": 10**400}
    content = {"kind": "training", "format": training_seeds.FORMAT, "request": request, "signature": None}
    with files.replacing(tmp_path) as partial:
        files.write_json(partial / "training.json", content)
    with pytest.raises(EverystepError, match=r"training\.json' holds no request of this version"):
        training_seeds.read_begun(tmp_path)


@pytest.mark.quick
def test_copies_of_an_environment_and_systems_of_a_board_have_bounds(tmp_path):
    with pytest.raises(EverystepError, match="envs is 1000000; give a whole number from 1 to 1024"):
        es.train("CartPole-v1", "lsvi-ae", envs=10**6)
    with pytest.raises(EverystepError, match="from 1 to 1024"):
        TrainingRequest(env="CartPole-v1", envs=10**6)


@pytest.mark.quick
def test_a_damaged_program_that_cannot_be_removed_is_a_missing_one(tmp_path, monkeypatch):
    (tmp_path / "key").write_bytes(b"\0" * SEAL + b"damaged")
    monkeypatch.setattr("pathlib.Path.unlink", lambda path: (_ for _ in ()).throw(PermissionError()))
    assert ProgramCache(tmp_path).get("key") is None


@pytest.mark.quick
@pytest.mark.parametrize("shape", [(1, 100_000, 3), (0, 4, 3)])
def test_pictures_that_no_file_can_hold_are_refused(shape):
    env = SimpleNamespace(render=lambda: np.zeros(shape, np.uint8))
    with pytest.raises(EverystepError, match=r"rendered a picture of \d+ x \d+ pixels"):
        film.picture(env)
