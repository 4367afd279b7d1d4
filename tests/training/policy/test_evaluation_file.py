"""Evaluations that are kept in the folder of a training: one with its own environment, others beside it."""

import json
from dataclasses import replace

import numpy as np
import pytest

from everystep import files
from everystep.errors import EverystepError
from everystep.training.policy import evaluation_file
from everystep.training.policy.evaluation_file import Saved

pytestmark = pytest.mark.quick
COLUMNS = {
    "return": np.array([1.0, 3.0]),
    "length": np.array([5.0, 5.0]),
    "violation": np.array([0.5, 0.0]),
    "unsafe_steps": np.array([2.0, 0.0]),
}
SAVED = Saved("lake", "limits:edge", 2, {0: 6, 4: 7}, {0: COLUMNS, 4: COLUMNS}, 7, {"everystep": "1"})
ELSEWHERE = replace(SAVED, env="sea", own=False)


@pytest.fixture
def folder(tmp_path):
    SAVED.write(tmp_path)
    ELSEWHERE.write(tmp_path)
    return tmp_path


def test_an_evaluation_is_read_as_it_was_written_and_others_are_kept_beside_it(folder):
    found, (other,) = evaluation_file.read(folder), evaluation_file.read_others(folder)
    for read, written in ((found, SAVED), (other, ELSEWHERE)):
        assert read.to_bytes() == written.to_bytes()
        assert (read.env, read.own, read.name) == (written.env, written.own, written.name)
    assert SAVED.name == "evaluation.json" != ELSEWHERE.name
    assert evaluation_file.read(folder / "..") is None


def test_episodes_are_those_of_the_policy_as_it_is_now():
    assert SAVED.of(0, 6).columns is COLUMNS
    assert SAVED.of(0, 7) is None  # trained on since
    assert SAVED.of(1, 6) is None
    assert "seeds 7 to 8" in SAVED.seeds_in_words


@pytest.mark.parametrize(
    "changed",
    [{"format": 1}, {"episodes": 3}, {"env": 5}, {"env": "sea"}, {"seeds": [{"seed": 0}]}, {"first_seed": -1}],
    ids=str,
)
def test_content_of_another_form_is_refused(folder, changed):
    for name in (SAVED.name, ELSEWHERE.name):
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changed), encoding="utf-8")
    with pytest.raises(EverystepError, match="evaluation"):
        evaluation_file.read(folder), evaluation_file.read_others(folder)


def test_a_file_that_was_altered_is_refused(folder):
    path = folder / SAVED.name
    path.write_bytes(path.read_bytes().replace(b"1.0", b"9.0"))
    assert (folder / files.RECORD).is_file()
    with pytest.raises(EverystepError, match=r"evaluation\.json"):
        evaluation_file.read(folder)


def test_the_evaluation_of_a_training_has_its_names(folder):
    evaluation_file.check_own(folder, SAVED, "lake", "limits:edge")
    with pytest.raises(EverystepError, match="lake, constraint limits:edge"):
        evaluation_file.check_own(folder, SAVED, "lake", None)


def test_the_text_has_means_by_seed_and_over_seeds():
    rows = {line.split()[0]: line for line in evaluation_file.text(SAVED).splitlines() if line}
    assert "2.000 [" in rows["0"] and "2.000 [" in rows["mean"]  # noqa: PT018
    assert rows["4"].split()[-1] == "1"  # episodes with a violation
    assert "not the environment" in evaluation_file.text(ELSEWHERE)
    line = evaluation_file.line(ELSEWHERE, {0: 6, 4: 8})
    assert "return 2.000" in line
    assert "2 of 10 steps" in line
    assert evaluation_file.line(ELSEWHERE, {0: 9}) is None
