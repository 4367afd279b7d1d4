"""benchmarks/no_hands.py: its limits, its rows, and its table."""

import json
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

before = sys.path[:]
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import no_hands  # noqa: E402  (it adds to the path, too)

sys.path[:] = before  # benchmarks/training.py is not tests/training/

pytestmark = pytest.mark.quick


def scripted(name):
    """A system that always pushes the cart to the left."""

    def learn(app, recorder, steps, seed, settings):
        over = True
        while len(recorder.harm) < steps:
            if over:
                recorder.reset()
            _, _, terminated, truncated, _ = recorder.step(0)
            over = terminated or truncated
        settings["written"] = True
        return lambda x, step: 0

    return no_hands.System(name, "ours" if name == no_hands.OURS else "rival", learn, lambda app: {"given": {}})


def options(path, **changed):
    given = {"tasks": "cartpole", "systems": "DQN, price 1;lsvi-nets", "seeds": "0:2", "steps": 40, "set": [],
             "variant": "", "tune": False, "jobs": 1, "out": path}  # fmt: skip
    return Namespace(**given | changed)


def test_the_limit_of_the_user_is_the_one_that_is_counted():
    told, own = no_hands.Limited("CartPole-v1", "cartpole"), no_hands.ahead.CartPole()
    told.reset(seed=0), own.reset(seed=0)
    for action in (0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0):
        x, *_, info = told.step(action)
        assert info["constraint"] == pytest.approx(own.step(action)[-1]["constraint"])
        assert info["constraint"] == no_hands.LIMITS["cartpole"](x)
    assert info["constraint"] > 0


def test_a_training_of_ours_ends_at_its_last_step():
    recorder = no_hands.Recorder(no_hands.task_of("cartpole"))
    env = no_hands.Until(recorder, 3)
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(3)] == [False, False, True]


def test_rivals_on_applications_are_not_run_and_tuning_runs_the_grid(tmp_path):
    found = list(no_hands.jobs(options(tmp_path, tasks="driving,acrobot", set=["members=5"])))
    assert [(job.task, job.system, job.variant) for job in found[:3]] == [
        ("driving", "lsvi-nets", "members=5"), ("acrobot", "DQN, price 1", ""), ("acrobot", "lsvi-nets", "members=5")
    ]  # fmt: skip
    assert found[0].changed == (("members", 5),)
    tuned = list(no_hands.jobs(options(tmp_path, tasks="acrobot", seeds="1000:1001", tune=True)))
    assert [(job.system, job.variant) for job in tuned] == [("DQN, price 1", name) for name in no_hands.GRID["DQN"]]


def test_a_run_is_one_line_and_is_not_run_again(tmp_path, monkeypatch):
    monkeypatch.setattr(no_hands, "system_of", scripted)
    path = tmp_path / "rows.jsonl"
    found = list(no_hands.jobs(options(path)))
    rows = [no_hands.one(job, path) for job in found]
    assert [no_hands.key_of(row) for row in no_hands.lines(path)] == [job.key for job in found]
    assert [no_hands.one(job, path) for job in found] == [None] * 4
    row = rows[0]
    assert json.loads(row["settings"]) == {"given": {}}
    assert row["harm_at"]["100 %"] == row["harm"] > row["harm_at"]["10 %"] == 0
    assert 8 <= row["last_return"] <= 11
    text = "\n".join(no_hands.tables(path, 40))
    assert f"| cartpole | 2 | {no_hands.show(np.mean([each['harm'] for each in rows]))} | DQN, price 1 |" in text
    assert "all, 1 tasks: normalised violation 1 [" in text
