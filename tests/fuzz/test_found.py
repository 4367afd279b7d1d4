"""What the fuzz found, one case of each kind: refused in a sentence that names the argument.

Arguments of `kernels` and `features` have checked types in a test session, so wrong ones are left to the fuzz itself.
"""

import os
import sys
import warnings

import numpy as np
import pytest

import everystep as es
from everystep import errors, files, kernels
from everystep.cli import shared
from everystep.cli.main import main
from everystep.environments.play import constraints
from everystep.errors import EverystepError
from everystep.features import table

pytestmark = pytest.mark.quick
POND = es.problems.from_map(("SF", "FG"), horizon=2)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: es.planner.solve(np.zeros(3)), "problem is .*; give an es.FiniteCMDP"),
        (lambda: es.planner.solve(POND, safe=np.zeros(2)), "safe is .*; give True or False"),
        (lambda: es.planner.evaluate(3, None), "problem is 3; give an es.FiniteCMDP"),
        (lambda: es.planner.evaluate(POND, [[0], [0, 1]]), r"policy has shape \(\)"),
        (lambda: es.planner.most_likely_states(POND, "x"), "solution is x; give what es.planner.solve returns"),
        (lambda: kernels.read("rbf("), r"kernel is 'rbf\('; write a kernel"),
        (lambda: es.agents.register_cost_model(3, dict), "cost model '3' cannot be registered"),
        (lambda: es.agents.register_cost_model("mine", 3), "make is 3; give a function"),
        (lambda: es.agents.register([], settings=(), summary=""), "name is .*; give the name of the agent"),
        (lambda: es.agents.register("mine", settings=3, summary=""), "settings is 3; give the names"),
        (lambda: es.problems.register(3), "name is '3'; use lower-case"),
        (lambda: es.problems.register("mine", gym_id=1j), "gym_id is '1j'; write it as"),
        (lambda: es.problems.register("mine", compared="x"), "compared is x; give True or False"),
        (lambda: es.problems.load((1, 2)), "problem is .*; give a path"),
        (lambda: es.problems.from_arrays(3), "path is 3; give a path"),
        (lambda: es.logged.read([]), r"path is \[\]; give a path"),
        (lambda: es.logged.write({}, "x.csv"), r"batch is \{\}; give an es.Batch"),
        (lambda: table(np.ones((2, 2), complex)), "phi of table is not an array of numbers"),
        (lambda: es.gym.make_env(POND, np.zeros(2)), "render_mode is .*; choose"),
        (lambda: es.gym.SixValueStep(3), "env is 3; give a gymnasium environment"),
        (lambda: es.gym.FromSixValueStep(es.gym.make_env(POND), limit="x"), "limit is x; give a finite number"),
    ],
    ids=range(21),
)
def test_a_wrong_argument_is_refused_in_a_sentence(call, sentence):
    with pytest.raises(EverystepError, match=sentence):
        call()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes have no names here")
@pytest.mark.parametrize(
    "words", [["run", "--problem", "pipe.txt"], ["run", "--problem", "pipe.npy"], ["run", "pipe.toml"]]
)
def test_a_pipe_is_not_read_for_ever(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    os.mkfifo(words[-1])
    assert main([*words, "--out", "out"]) == 2
    assert "it is a pipe, a socket or a device" in capsys.readouterr().err


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="devices have no names here")
def test_a_link_to_a_device_has_no_checksum(tmp_path):
    (tmp_path / "policy.npz").symlink_to("/dev/null")  # /dev/zero would be read for ever
    with pytest.raises(OSError, match="no regular file"):
        files.seal(tmp_path / "policy.npz")


def test_a_masked_entry_of_a_list_makes_no_warning():
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with pytest.raises(EverystepError, match="a part is masked"):
            constraints.signed([0.1, np.ma.masked], lambda: "g is x")
    assert not heard


def test_nothing_is_printed_into_a_file_that_took_the_number_of_a_closed_stream(tmp_path, monkeypatch):
    with (tmp_path / "said.txt").open("w", encoding="utf-8") as said, (tmp_path / "data").open("wb") as data:
        monkeypatch.setattr(sys, "stdout", said)
        with shared.printable():
            os.dup2(data.fileno(), said.fileno())  # as if an environment had closed it, and a file been opened
            shared.reopen()
            print("words")
    assert (tmp_path / "said.txt").read_text(encoding="utf-8") == "words\n"
    assert not (tmp_path / "data").read_bytes()


def test_a_text_file_has_a_largest_size(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("e.toml", "map.txt", "heights.csv"):
        with open(name, "wb") as file:
            file.truncate(errors.LARGEST_TEXT + 1)  # a hole: nothing is written
        words = [name] if name == "e.toml" else ["--problem", name]
        assert main(["run", *words, "--out", "out"]) == 2
        assert f"the file has {errors.LARGEST_TEXT + 1} bytes. Give one of at most" in capsys.readouterr().err


def test_a_home_without_minari_stays_without(tmp_path, monkeypatch):
    pytest.importorskip("minari")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MINARI_DATASETS_PATH", raising=False)
    with pytest.raises(EverystepError, match="no Minari data set 'nothing/here-v0' here"):
        es.logged.from_minari("nothing/here-v0")
    assert not list(tmp_path.iterdir())


def test_a_logged_observation_that_fails_while_it_is_converted_is_refused():
    class Failing:
        def __array__(self, *_, **__):
            raise RuntimeError("on purpose")

    env = es.gym.make_env(POND)
    env.reset = lambda **_: (Failing(), {})
    with pytest.raises(EverystepError, match=r"step 1: .*observation"):
        es.logged.from_env(env, None, episodes=1)
