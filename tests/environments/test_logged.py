"""Logged transitions: what a batch refuses, files and back, Minari data sets, playing a policy."""

import os
import pickle
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed: logged data is not tested")

import everystep as es  # noqa: E402
from everystep.environments.logged import Batch  # noqa: E402
from everystep.errors import EverystepError  # noqa: E402

CAUTIOUS = lambda obs: 1 if obs[2] > 0 else 0
TILT = lambda obs, action, obs_next, info: abs(obs_next[2]) / 0.2 - 0.5


def table(n=6, **more):
    """Two episodes of three steps with vectors for observations and two constraints."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2))
    columns = {
        "observations": x,
        "actions": [0, 1, 2, 1, 0, 2],
        "rewards": rng.random(n),
        "costs": rng.uniform(-1, 1, (n, 2)),
        "next_observations": x + 1,
        "terminated": [False, False, True, False, False, False],
        "steps": [0, 1, 2, 0, 1, 2],
        "episode": [4, 4, 4, 9, 9, 9],
    }
    return columns | more


def the_same(one, other):
    return all(
        getattr(one, field.name).dtype == getattr(other, field.name).dtype
        and np.array_equal(getattr(one, field.name), getattr(other, field.name))
        for field in fields(Batch)
    )


# --- a batch ----------------------------------------------------------------------------------------------------
@pytest.mark.quick
def test_a_batch_has_sizes_episodes_and_a_total_violation():
    batch = Batch.of(**table())
    assert (len(batch), batch.constraints) == (6, 2)
    assert list(batch.episodes()) == [slice(0, 3), slice(3, 6)]
    assert batch.violation == np.maximum(batch.costs, 0).sum() > 0
    assert {field.name: getattr(batch, field.name).dtype.kind for field in fields(Batch)} == {
        "observations": "f",
        "actions": "i",
        "rewards": "f",
        "costs": "f",
        "next_observations": "f",
        "terminated": "b",
        "steps": "i",
        "episode": "i",
    }


def test_states_that_are_numbers_stay_numbers():
    batch = Batch.of(**table(observations=[0, 1, 2, 0, 1, 2], next_observations=[1, 2, 3, 1, 2, 3], costs=-np.ones(6)))
    assert batch.observations.dtype == np.int64
    assert batch.costs.shape == (6, 1)
    mixed = Batch.of(**table(observations=[0, 1, 2, 0, 1, 2], next_observations=np.arange(6) / 2))
    assert mixed.observations.dtype == mixed.next_observations.dtype == np.float64


def test_missing_steps_or_episodes_are_derived_from_the_other():
    whole = Batch.of(**table())
    assert Batch.of(**table(steps=None)).steps.tolist() == whole.steps.tolist()
    assert Batch.of(**table(episode=None)).episode.tolist() == [0, 0, 0, 1, 1, 1]
    assert Batch.of(**table(episode=None, steps=[5, 6, 9, 2, 3, 4])).episode.tolist() == [0, 0, 0, 1, 1, 1]


def test_one_row_is_an_episode():
    one = {name: column[:1] for name, column in table().items()}
    assert list(Batch.of(**one).episodes()) == [slice(0, 1)]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rewards": np.zeros(5)}, r"^rewards have shape \(5,\); give one for each of the 6 observations\.$"),
        ({"rewards": np.zeros((6, 1))}, r"^rewards have shape \(6, 1\); give one for each"),
        ({"rewards": [0, 0, np.nan, 0, 0, 0]}, r"^rewards are nan in row 2; every entry must be finite\.$"),
        ({"rewards": list("abcdef")}, r"^rewards are not an array of numbers"),
        ({"rewards": 3.0}, r"^rewards are not an array of numbers"),
        ({"observations": [[1], [1, 2], [1], [1], [1], [1]]}, r"^observations are not an array of numbers"),
        ({"observations": np.full((6, 2), np.inf)}, r"^observations are inf in row 0; every entry must be finite\.$"),
        ({"observations": np.zeros((0, 2))}, r"^observations have shape \(0, 2\); give at least one step\.$"),
        ({"next_observations": np.zeros((6, 3))}, r"^next_observations have shape \(6, 3\), observations \(6, 2\)"),
        ({"actions": [0, 1, 2, 3, 0, 0]}, r"^action is 3 in row 3; actions are numbered from 0 to 2\.$"),
        ({"actions": [0, -1, 2, 0, 0, 0]}, r"^action is -1 in row 1"),
        ({"actions": [0, 0.5, 2, 0, 0, 0]}, r"^actions are 0\.5 in row 1; give whole numbers\.$"),
        ({"costs": np.zeros((6, 2, 2))}, r"^costs have shape \(6, 2, 2\); give \(6,\), or \(6, m\)"),
        ({"costs": np.zeros((6, 0))}, r"^costs have shape \(6, 0\)"),
        ({"costs": np.zeros((6, 101))}, r"^costs have shape \(6, 101\); give at most 100 constraints"),
        ({"costs": np.zeros(7)}, r"^costs have shape \(7, 1\); give one for each of the 6"),
        ({"terminated": [0, 0, 2, 0, 0, 0]}, r"^terminated are 2 in row 2; give true or false, 1 or 0\.$"),
        ({"terminated": [0, 1, 1, 0, 0, 0]}, r"^episode 4 continues after it terminated at step 1"),
        ({"steps": [0, 1, 1, 0, 1, 2]}, r"^step 1 follows step 1 in episode 4; sort the rows by episode and step\.$"),
        ({"steps": [-1, 1, 2, 0, 1, 2]}, r"^steps are -1 in row 0; count them from 0\.$"),
        ({"steps": [0, 1, 2, 0]}, r"^steps have shape \(4,\)"),
        ({"episode": [4, 9, 4, 9, 4, 9]}, r"^episode 4 is in 3 places; sort the rows by episode and step\.$"),
        ({"steps": None, "episode": None}, r"^there are neither steps nor episode; give one"),
    ],
)
def test_wrong_columns_are_refused_in_a_sentence(wrong, message):
    with pytest.raises(EverystepError, match=message):
        Batch.of(**table(**wrong), action_count=3)


# --- files ------------------------------------------------------------------------------------------------------
@pytest.mark.quick
@pytest.mark.parametrize("ending", [".parquet", ".csv", ".npz"])
@pytest.mark.parametrize("vectors", [True, False])
def test_what_is_written_is_read_again_to_the_last_bit(tmp_path, ending, vectors):
    numbers = {"observations": np.arange(6), "next_observations": np.arange(6) + 1, "costs": np.full(6, 1 / 3)}
    batch = Batch.of(**table(**({} if vectors else numbers)))
    path = es.logged.write(batch, tmp_path / f"log{ending}")
    assert the_same(es.logged.read(path), batch)
    assert sorted(os.listdir(tmp_path)) == [".everystep.sha256", f"log{ending}"]


@settings(derandomize=True, deadline=None, database=None, max_examples=25)
@given(st.lists(st.floats(-1e300, 1e300), min_size=6, max_size=6))
def test_no_number_changes_in_a_text_file(tmp_path_factory, rewards):
    path = tmp_path_factory.mktemp("logs") / "log.csv"
    es.logged.write(Batch.of(**table(rewards=rewards)), path)
    assert es.logged.read(path).rewards.tolist() == rewards


def test_a_table_by_hand_needs_no_more_than_its_columns(tmp_path):
    path = tmp_path / "hand.csv"
    path.write_text(
        "time,observation,action,reward,cost,next_observation,terminated,episode\n"
        "9:15,0,1,0.5,-1,3,false,1\n9:16,3,0,0,1,4,true,1\n9:17,0,0,0,-1,1,false,2\n",
        encoding="utf-8",
    )
    batch = es.logged.read(path)
    assert batch.observations.tolist() == [0, 3, 0]
    assert batch.observations.dtype == np.int64
    assert batch.costs.tolist() == [[-1], [1], [-1]]
    assert batch.terminated.tolist() == [False, True, False]
    assert batch.steps.tolist() == [0, 1, 0]


def test_pictures_go_into_npz_files_only(tmp_path):
    pictures = np.zeros((6, 3, 4))
    batch = Batch.of(**table(observations=pictures, next_observations=pictures))
    assert the_same(es.logged.read(es.logged.write(batch, tmp_path / "log.npz")), batch)
    with pytest.raises(EverystepError, match=r"observations have shape \(6, 3, 4\), which a table cannot hold; write"):
        es.logged.write(batch, tmp_path / "log.csv")


COLUMNS = "observation,action,reward,cost,next_observation,terminated,step\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("log.txt", "", r"it ends in '\.txt'; give \.parquet, \.csv, \.npz\.$"),
        ("log.csv", "", r"it cannot be read as \.csv"),
        ("log.parquet", "no parquet", r"it cannot be read as \.parquet"),
        ("log.npz", "no zip", r"it cannot be read as \.npz"),
        ("log.csv", "observation,reward\n1,2\n", r"it has no column next_observation \(it has observation, reward\)"),
        ("log.csv", COLUMNS.replace(",step", "") + "0,0,0,0,0,0\n", r"it has no column step"),
        ("log.csv", COLUMNS.replace("action", "act") + "0,0,0,0,0,0,0\n", r"it has no column action"),
        ("log.csv", COLUMNS + "0,0,,0,0,0,0\n", r"reward is empty in 1 rows; fill them or leave them out\.$"),
        ("log.csv", COLUMNS + "0,0,x,0,0,0,0\n", r"rewards are not an array of numbers"),
        ("log.csv", COLUMNS + "0,7,1,0,0,0,0\n", r"action is 7 in row 0; actions are numbered from 0 to 2\.$"),
        ("log.csv", COLUMNS.replace("cost", "cost_0") + "0,0,0,0,0,0,0\n", r"it has no column cost_1 among cost_0"),
        ("log.csv", COLUMNS.replace("cost", "reward") + "0,0,0,0,0,0,0\n", r"it has 2 columns reward; keep one\.$"),
    ],
)
def test_a_wrong_file_is_refused_in_a_sentence(tmp_path, name, content, message):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(EverystepError, match=r"^log '.*': .*" + message):
        es.logged.read(tmp_path / name, action_count=3)


def test_a_missing_file_and_a_missing_folder_are_refused(tmp_path):
    with pytest.raises(EverystepError, match="cannot be opened"):
        es.logged.read(tmp_path / "none.csv")
    for ending in (".csv", ".parquet", ".npz"):
        with pytest.raises(EverystepError, match="cannot be written"):
            es.logged.write(Batch.of(**table()), tmp_path / "none" / f"log{ending}")
    with pytest.raises(EverystepError, match=r"ends in '\.xls'; choose"):
        es.logged.write(Batch.of(**table()), tmp_path / "log.xls")


class Bomb:
    def __reduce__(self):
        return os._exit, (1,)


def test_a_pickle_in_a_file_is_never_opened(tmp_path):
    np.savez(tmp_path / "bomb.npz", observation=np.array([Bomb()], dtype=object))
    (tmp_path / "plain.npz").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(EverystepError, match="never unpickled"):
        es.logged.read(tmp_path / "bomb.npz")
    with pytest.raises(EverystepError, match="cannot be read"):
        es.logged.read(tmp_path / "plain.npz")


# --- playing a policy -------------------------------------------------------------------------------------------
@pytest.mark.quick
def test_a_policy_that_is_played_leaves_a_batch(lake):
    env = es.gym.make_env(lake)
    best = es.planner.solve(lake).policy
    batch = es.logged.from_env(env, lambda x: best[env.h, x], episodes=3, seed=5)
    assert [part.stop - part.start for part in batch.episodes()] == [15, 15, 15]
    assert batch.violation == 0
    assert not batch.terminated.any()
    assert batch.steps.tolist() == [*range(15)] * 3
    x, _ = env.reset(seed=5)
    for row in range(15):
        assert batch.observations[row] == x
        assert batch.actions[row] == best[row, x]
        x, reward, _, _, info = env.step(best[row, x])
        assert (batch.next_observations[row], batch.rewards[row], batch.costs[row]) == (x, reward, info["constraint"])


def test_a_random_walk_repeats_with_its_seed():
    env = gymnasium.make("CartPole-v1")
    walk = lambda seed: es.logged.from_env(env, None, episodes=4, seed=seed, constraint=TILT)
    assert the_same(walk(1), walk(1))
    assert not np.array_equal(walk(1).observations, walk(2).observations)


def test_episodes_end_when_the_environment_does_or_at_the_horizon():
    env = gymnasium.make("CartPole-v1")
    batch = es.logged.from_env(env, lambda obs: 0, episodes=2, constraint=TILT)
    assert [bool(batch.terminated[part.stop - 1]) for part in batch.episodes()] == [True, True]
    short = es.logged.from_env(env, CAUTIOUS, episodes=2, constraint=TILT, length=4)
    assert short.steps.tolist() == [0, 1, 2, 3] * 2
    assert not short.terminated.any()
    assert short.costs[:, 0].tolist() == [TILT(None, 0, obs, {}) for obs in short.next_observations.astype(np.float32)]


class Quiet(gymnasium.Wrapper):
    def __init__(self, env, change):
        super().__init__(env)
        self.change = change

    def step(self, action):
        return tuple(self.change(list(self.env.step(action))))


class Fragile(gymnasium.Wrapper):
    """Works for five steps, then fails as given."""

    def __init__(self, then):
        super().__init__(gymnasium.make("CartPole-v1"))
        self.then, self.count = then, 0

    def step(self, action):
        self.count += 1
        values = list(self.env.step(action))
        return tuple(self.then(values) if self.count > 5 else values)


def fails(values):
    raise RuntimeError("the motor is hot")


@pytest.mark.parametrize(
    ("then", "message"),
    [
        (
            fails,
            r"^episode 1, step 6: the environment's step raised RuntimeError: the motor is hot\. "
            r"The 5 steps before it are in .*`kept`\.$",
        ),
        (
            lambda values: [values[0], np.nan, *values[2:]],
            r"^episode 1, step 6: the reward is nan; it must be a finite number",
        ),
        (lambda values: [values[0][:2], *values[1:]], r"an observation has shape \(2,\) after \(4,\)"),
        (lambda values: [*values, 1], r"returns 6 values, not five; wrap it in es\.gym\.FromSixValueStep"),
        (
            lambda values: [*values[:4], {"cost": [1, 2]}],
            r"there are 2 constraints, and 1 before; give the same number at every step",
        ),
        (lambda values: [*values[:4], {"cost": None}], r"info\['cost'\] is None; give one finite number or several"),
        (lambda values: [*values[:4], {}], r"info has neither 'constraint' nor 'cost'"),
    ],
)
def test_when_an_environment_breaks_the_steps_before_are_kept(then, message):
    quiet = lambda values: [*values[:4], {"cost": 0.0}]
    env = Fragile(then)
    env.env = Quiet(env.env, quiet)
    with pytest.raises(EverystepError, match=message) as caught:
        es.logged.from_env(env, CAUTIOUS, episodes=3)
    assert len(caught.value.kept) == 5
    assert caught.value.kept.steps.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"policy": lambda obs: 7}, r"^episode 1, step 1: the policy's action is 7; give a whole .* 0 to 1\.$"),
        (
            {"policy": lambda obs: 1 / 0},
            r"^episode 1, step 1: the policy raised ZeroDivisionError: division by zero\.$",
        ),
        (
            {"constraint": lambda *_: "far"},
            r"the constraint function returned far at observation .* action 0; give one",
        ),
        ({"constraint": lambda *_: []}, r"the constraint function returned \[\]"),
        ({"constraint": None}, r"info has neither 'constraint' nor 'cost' \(it has nothing\); give constraint="),
        ({"episodes": 0}, r"^episodes is 0"),
        ({"seed": -1}, r"^seed is -1"),
        ({"length": 0}, r"^length is 0"),
        ({"horizon": 3}, r"^no argument .* 'horizon'; use length=, the most steps of an episode"),
        (
            {"env": gymnasium.make("MountainCarContinuous-v0")},
            r"^the action space is Box.*; give actions=es.actions",
        ),
        ({"env": 3}, r"^env is 3; give a gymnasium environment"),
    ],
)
def test_wrong_arguments_of_play_are_refused_in_a_sentence(more, message):
    usual = {"env": gymnasium.make("CartPole-v1"), "policy": lambda obs: 0, "episodes": 2, "constraint": TILT}
    with pytest.raises(EverystepError, match=message) as caught:
        es.logged.from_env(**(usual | more))
    assert caught.value.kept is None


# --- Minari -----------------------------------------------------------------------------------------------------
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
            r"^episode 1, step 1: info has neither 'constraint' nor 'cost' .*; give constraint=",
        ),
        ("cart/none-v0", TILT, r"^no Minari data set 'cart/none-v0' here; `minari download cart/none-v0` fetches a"),
        ("no/such name", TILT, r"^no Minari data set 'no/such name' here"),
        (3, TILT, r"^data is int; give a Minari data set or its id\.$"),
        ("pendulum/push-v0", TILT, r"^the action space is Box.*; give actions=es.actions"),
        ("cartpole/named-v0", TILT, r"^observations of cartpole/named-v0 are dict; give a data set whose"),
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
