"""Data sets of Minari."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import everystep as es
from everystep.errors import EverystepError

TILT = lambda obs, action, obs_next, info: abs(obs_next[2]) / 0.2 - 0.5


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A folder with Minari data sets of two episodes each."""
    pytest.importorskip("minari", reason="minari is not installed: its data sets are not tested")
    folder = tmp_path_factory.mktemp("minari")
    program = Path(__file__).with_name("record_minari.py")
    done = subprocess.run(
        [sys.executable, program],
        env=os.environ | {"MINARI_DATASETS_PATH": str(folder)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def minari(recorded, monkeypatch):
    import minari

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(recorded))
    return minari


@pytest.mark.quick
def test_a_minari_data_set_becomes_a_batch(minari):
    batch = es.logged.from_minari("cartpole/left-v0", constraint=TILT)
    episodes = list(minari.load_dataset("cartpole/left-v0").iterate_episodes())
    assert len(batch) == sum(len(episode) for episode in episodes)
    for part, episode in zip(batch.episodes(), episodes, strict=True):
        assert np.array_equal(batch.observations[part], episode.observations[:-1])
        assert np.array_equal(batch.next_observations[part], episode.observations[1:])
        assert batch.rewards[part].tolist() == episode.rewards.tolist()
        assert batch.terminated[part].tolist() == [False] * (len(episode) - 1) + [True]
        assert batch.steps[part].tolist() == [*range(len(episode))]
        assert batch.costs[part, 0].tolist() == [TILT(0, 0, obs, 0) for obs in episode.observations[1:]]


def test_recorded_constraints_need_no_function(minari, lake):
    """Minari keeps the info of reset before that of the steps: costs must not be shifted by one."""
    batch = es.logged.from_minari(minari.load_dataset("lake/walk-v0"))
    assert batch.observations.dtype == np.int64
    assert len(batch) == 30
    assert batch.violation > 0
    assert batch.costs[:, 0].tolist() == lake.g[0, 0, batch.observations, batch.actions].tolist()
    means = lambda obs, action, obs_next, info: info["mean_constraint"]
    assert np.array_equal(es.logged.from_minari("lake/walk-v0", constraint=means).costs, batch.costs)


@pytest.mark.parametrize(
    ("data", "constraint", "message"),
    [
        (
            "cartpole/left-v0",
            None,
            "^episode 1, step 1: info has neither 'constraint' nor 'cost' .*",
        ),
        ("cart/none-v0", TILT, "^no Minari data set 'cart/none-v0' here"),
        ("no/such name", TILT, r"^no Minari data set 'no/such name' here"),
        (3, TILT, r"^data is int; give a Minari data set or its id\.$"),
        ("pendulum/push-v0", TILT, r"^the action space is Box.*; give actions=es.actions"),
        ("cartpole/named-v0", TILT, "^observations of cartpole/named-v0 are dict"),
    ],
)
def test_a_data_set_that_cannot_be_used_is_refused_in_a_sentence(minari, data, constraint, message):
    with pytest.raises(EverystepError, match=message):
        es.logged.from_minari(data, constraint=constraint)


def test_without_minari_a_sentence_names_the_extra():
    code = "import sys\nsys.modules['minari'] = None\nimport everystep\n"
    code += "try: everystep.logged.from_minari('x')\nexcept ValueError as e: print(e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("pip install 'everystep[minari]'.")
