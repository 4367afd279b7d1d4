"""Environments and saved policies that break their contract: the error names it and keeps what was learnt."""

import json

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import everystep as es
from everystep.errors import EverystepError
from everystep.files import seal
from everystep.files.store import checksum
from everystep.training.policy.policy import Policy
from everystep.training.result import BrokenError

pytestmark = pytest.mark.quick

EPISODES_BEFORE = 2
LENGTH = 3


class Corridor(gymnasium.Env):
    """Five cells in a row. From episode 3 on, `broken` replaces parts of what a step returns."""

    observation_space, action_space = spaces.Discrete(5), spaces.Discrete(2)

    def __init__(self, **broken):
        self.broken, self.episode = broken, 0

    def see(self):
        return self.x

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.t = 0
        self.episode += 1
        return self.see(), {}

    def step(self, action):
        self.x, self.t = min(self.x + int(action), 4), self.t + 1
        parts = {
            "observation": self.see(),
            "reward": float(action),
            "terminated": False,
            "truncated": self.t >= LENGTH,
            "info": {"cost": -1.0},
        }
        return tuple((parts | (self.broken if self.episode > EPISODES_BEFORE else {})).values())


class OpenCorridor(Corridor):
    """The same, with a vector as observation."""

    observation_space = spaces.Box(0, 1, (1,), np.float64)

    def see(self):
        return np.array([self.x / 4])


def train(env, **more):
    return es.train(env, "lsvi-ae", horizon=LENGTH, episodes=EPISODES_BEFORE + 2, **more)


BROKEN = {
    "reward is an array": ({"reward": np.array([1.0, 2.0])}, r"the reward is \[1\. 2\.\]; return one number"),
    "reward is a list": ({"reward": [1.0]}, r"the reward is \[1\.0\]; return one number"),
    "reward is a text": ({"reward": "1"}, r"the reward is 1; return one number"),
    "reward is none": ({"reward": None}, r"the reward is None; return one number"),
    "reward is complex": ({"reward": 1j}, r"the reward is 1j; return one number"),
    "reward is nan": ({"reward": float("nan")}, r"the reward is nan; it must be a finite number"),
    "reward is huge": ({"reward": 1e308}, r"the reward is 1e\+308; scale it"),
    "reward is beyond floats": ({"reward": 10**400}, r"the reward is inf; it must be a finite number"),
    "terminated is an array": ({"terminated": np.array([True, False])}, r"terminated is \[ True False\]; return True"),
    "terminated is a text": ({"terminated": "no"}, r"terminated is no; return True or False"),
    "truncated is none": ({"truncated": None}, r"truncated is None; return True or False"),
    "truncated is a fraction": ({"truncated": 0.5}, r"truncated is 0\.5; return True or False"),
    "info is none": ({"info": None}, r"info is None; return a dictionary"),
    "cost is huge": ({"info": {"cost": 1e308}}, r"info\['cost'\] is 1e\+308; scale it"),
    "cost is complex": ({"info": {"cost": 1j}}, r"info\['cost'\] is 1j; give one finite number"),
    "cost has a thousand parts": ({"info": {"cost": np.zeros(1000)}}, r"1000 constraints; give at most 100"),
    "mean of costs is none": ({"info": {"cost": 1.0, "mean_constraint": None}}, r"info\['mean_constraint'\] is None"),
    "observation is outside": ({"observation": 7}, r"is 7 at coordinate 0, outside of its space Discrete\(5\)"),
    "observation is far outside": ({"observation": 10**9}, r"is 1e\+09 at coordinate 0, outside of its space"),
    "observation is none": ({"observation": None}, r"observation None is not made of numbers"),
    "observation is a generator": ({"observation": (x for x in ())}, r"is not made of numbers"),
}


@pytest.mark.parametrize(("parts", "sentence"), BROKEN.values(), ids=BROKEN)
def test_a_step_that_returns_something_else_is_named_and_earlier_episodes_are_kept(parts, sentence):
    with pytest.raises(
        BrokenError, match=rf"^episode 3, step 1: .*{sentence}.*Everything before it is kept\.$"
    ) as error:
        train(Corridor(**parts))
    kept = error.value.result
    assert len(kept.columns["return"]) == EPISODES_BEFORE
    assert kept.policy(0) in (0, 1)


@pytest.mark.parametrize("value", [1e6, -300.0, 1e200])
def test_a_coordinate_far_outside_of_its_box_is_named(value):
    env = OpenCorridor(observation=np.array([value]))
    with pytest.raises(BrokenError, match=r"^episode 3, step 1: an observation is ") as error:
        train(env, features=es.features.polynomial(1))
    assert len(error.value.result.columns["return"]) == EPISODES_BEFORE


def test_a_coordinate_a_little_outside_of_its_box_is_clipped():
    result = train(OpenCorridor(observation=np.array([1.5])), features=es.features.polynomial(1))
    assert len(result.columns["return"]) == EPISODES_BEFORE + 2


@pytest.mark.parametrize(
    ("space", "sentence"),
    [
        ({"observation_space": spaces.Discrete(10**7)}, r"one_hot makes 10000000 features of a state"),
        ({"action_space": spaces.Discrete(10**7)}, r"the action space has 10000000 actions; give at most 10000"),
    ],
)
def test_spaces_that_are_too_large_are_refused_before_the_first_step(space, sentence):
    env = Corridor()
    vars(env).update(space)
    with pytest.raises(EverystepError, match=sentence):
        train(env)


class Space:
    """Something that resembles a space of gymnasium."""

    def __init__(self, **parts):
        vars(self).update({"shape": ()} | parts)


@pytest.mark.parametrize(
    "space",
    [
        *(Space(n=n) for n in (None, "x", -3, 0, 10**30)),
        *(Space(low=low, high=high) for low, high in (("x", "y"), ([1.0], [0.0]), ([np.nan], [1.0]), ([0, 0], [1]))),
        *(Space(nvec=sizes) for sizes in ("x", np.array([-1, 2]), np.array([10**12, 2]))),
        *(Space(spaces=parts) for parts in (None, [], [3])),
        spaces.Text(5),
        None,
    ],
    ids=range(17),
)
def test_a_space_without_valid_bounds_is_refused_before_the_first_step(space):
    for name in ("observation_space", "action_space"):
        env = Corridor()
        vars(env)[name] = space
        with pytest.raises(EverystepError, match=r"space|one_hot"):
            train(env)


# --- saved policies ---------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def trained():
    return train(OpenCorridor(), features=es.features.polynomial(1)).policy


def saved(policy, folder, arrays=None, **content):
    """A policy saved with other arrays and other content, and with checksums that agree with them."""
    policy.save(folder)
    with np.load(folder / "policy.npz") as file:
        np.savez(folder / "policy.npz", **{**file, **(arrays or {})})
    old = json.loads((folder / "policy.json").read_text(encoding="utf-8"))
    old.pop("checksum")
    new = old | {"arrays": old["arrays"] | {"sha256": seal(folder / "policy.npz").sha256}} | content
    (folder / "policy.json").write_text(json.dumps(new | {"checksum": checksum(new)}), encoding="utf-8")
    return folder


def test_a_policy_is_loaded_as_it_was_saved(trained, tmp_path):
    x = np.array([0.3])
    for folder in (trained.save(tmp_path / "one"), saved(trained, tmp_path / "two")):
        again = Policy.load(folder)
        np.testing.assert_array_equal(again.bounds(x), trained.bounds(x))


@pytest.mark.parametrize("file", ["policy.npz", "policy.json"])
def test_a_changed_byte_of_a_policy_is_noticed(trained, tmp_path, file):
    path = trained.save(tmp_path / "policy") / file
    content = bytearray(path.read_bytes())
    at = content.index(b"optimism") + len(b'optimism": ') if file == "policy.json" else len(content) // 2
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(EverystepError, match=r"has changed since it was saved"):
        Policy.load(path.parent)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"arrays": {"cost_plan_weights": np.full((1, 1, 2, 2), np.nan)}}, "holds entries that are not finite"),
        ({"arrays": {"cost_plan_weights": np.zeros((1, 1, 2, 3))}}, "the arrays of costs do not have the shapes"),
        ({"arrays": {"value_plan_inverse": np.zeros((1, 2, 2))}}, "the arrays of values do not have the shapes"),
        ({"arrays": {"price": np.ones((2, LENGTH))}}, "the arrays of costs do not have the shapes"),
        ({"arrays": {"price": np.array(["x"])}}, "price holds entries that are not finite"),
        ({"arrays": {"price": np.ones(3)}}, "price has shape"),
        ({"arrays": {"value_side_psi.powers": np.ones((2, 0), int)}}, "its features do not fit its arrays"),
        ({"optimism": 7}, "optimism is 7; give a number from -1 to 1"),
        ({"cap": float("nan")}, "cap is nan; give a number"),
        ({"choice": "any"}, "cannot be read"),
        ({"spec": {}}, "cannot be read"),
        ({"value": None}, "cannot be read"),
        ({"value": {"kind": "Crossed"}}, "saved features cannot be read"),
        ({"value": {"kind": "Crossed", "psi": None, "actions": 2}}, "cannot be read"),
        ({"value": {"kind": "Crossed", "psi": {"kind": "Polynomial", "scale": "x"}, "actions": 2}}, "cannot be read"),
        ({"arrays": {"price": np.full((1, LENGTH), 1e150)}}, "price holds entries that are not finite .* or too large"),
    ],
    ids=range(16),
)
def test_a_policy_with_wrong_content_is_refused_even_with_right_checksums(trained, tmp_path, changes, sentence):
    with pytest.raises(EverystepError, match=sentence):
        Policy.load(saved(trained, tmp_path / "policy", **changes))


def test_an_empty_batch_of_observations_has_no_actions(trained):
    actions, _ = trained.predict(np.zeros((0, 1)))
    assert actions.shape == (0,)


@pytest.mark.parametrize("folder", [None, 3, "", "\0", "no/such/folder", b"x", 1j])
def test_what_is_not_the_folder_of_a_policy_is_refused(trained, folder):
    with pytest.raises(EverystepError, match="policy"):
        Policy.load(folder)
