"""Actions that are vectors: candidates of a space, agents that choose among them, and everything that keeps them."""

import gymnasium
import numpy as np
import pytest
from environments_for_tests.walks import UNIT, PushedPoint
from gymnasium import spaces

import everystep as es
from everystep.environments.play import action_sets
from everystep.environments.play.action_sets import candidates
from everystep.errors import EverystepError
from everystep.training.arguments import most_states
from everystep.training.seeds.request import TrainingRequest

BOX = spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 4.0], np.float32))
FEATURES = es.features.fourier(4)  # d = 8
THREE = es.actions.listed([[-1.0], [0.0], [1.0]])
SHORT = {"features": FEATURES, "horizon": 3, "length": 9}


def test_a_grid_has_its_points_along_each_coordinate_and_the_last_varies_fastest():
    found = candidates(BOX, es.actions.grid((3, 2)))
    assert found.values.dtype == np.float32
    assert found.values.tolist() == [[-1, 0], [-1, 4], [0, 0], [0, 4], [1, 0], [1, 4]]
    assert found.points.tolist() == [[-1, -1], [-1, 1], [0, -1], [0, 1], [1, -1], [1, 1]]
    assert candidates(UNIT, es.actions.grid(1)).values.tolist() == [[0]]


def test_a_sobol_set_is_spread_over_the_box_and_repeats_by_its_seed():
    one, same, other = (candidates(BOX, es.actions.sobol(16, seed)).values for seed in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).any()
    assert (one >= BOX.low).all()
    assert (one <= BOX.high).all()
    quarter = (one[:, 0] > 0) * 2 + (one[:, 1] > 2)
    assert np.bincount(quarter).tolist() == [4, 4, 4, 4]


def test_without_a_choice_a_box_has_a_grid_or_a_sobol_set_and_a_remark_says_so():
    assert len(candidates(UNIT)) == 5
    assert "5 actions, grid(5)" in candidates(UNIT).remark
    assert len(candidates(spaces.Box(0, 1, (3,)))) == 125
    assert "64 actions, sobol(64)" in candidates(spaces.Box(0, 1, (2, 2))).remark
    assert candidates(spaces.Box(0, 1, (2, 2))).values.shape == (64, 2, 2)
    assert candidates(UNIT, es.actions.grid(5)).remark is None


def test_finite_spaces_are_enumerated_in_order():
    found = candidates(spaces.MultiDiscrete([2, 3], start=[0, 4]))
    assert found.values.tolist() == [[0, 4], [0, 5], [0, 6], [1, 4], [1, 5], [1, 6]]
    assert candidates(spaces.MultiBinary(2)).values.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert len(candidates(spaces.MultiDiscrete([9] * 9), es.actions.listed(np.eye(9)))) == 9


def test_a_box_of_integers_has_each_integer_once():
    box = spaces.Box(0, 2, (1,), np.int64)
    assert candidates(box).values.tolist() == [[0], [1], [2]]
    assert candidates(box).values.dtype == np.int64


def test_a_list_may_lie_in_a_box_without_bounds():
    found = candidates(spaces.Box(-np.inf, np.inf, (1,)), es.actions.listed([3.0, 5.0, 4.0]))
    assert found.points.tolist() == [[-1], [1], [0]]


def test_the_nearest_candidate_is_that_in_the_scale_of_the_bounds():
    found = candidates(BOX, es.actions.listed([[0, 0], [1, 0], [0, 4]]))
    assert found.nearest([[0.4, 0], [0.6, 1.0], [0, 2.1]]).tolist() == [0, 1, 2]
    assert found.number_of(np.array([0.9, 0.2], np.float32)) == 1
    with pytest.raises(EverystepError, match=r"give finite numbers, \(n, 2\)"):
        found.nearest([[np.nan, 0]])


WRONG = {
    "without finite bounds": (spaces.Box(-np.inf, 1, (1,)), None),
    "agents choose among a list of arrays: wrap the environment": (spaces.Tuple([UNIT, UNIT]), None),
    "whose actions are a list already; leave actions out": (spaces.Discrete(3), es.actions.grid(3)),
    "with 2048 actions, and at most 1024 are enumerated": (
        spaces.MultiBinary(11),
        None,
    ),
    "grid.3., which is for a Box": (spaces.MultiBinary(2), es.actions.grid(3)),
    r"have shape \(1, 3\), and an action has 2 coordinates": (BOX, es.actions.listed([[0, 0, 0]])),
    "action 1 of listed holds 5, which is not in the action space": (BOX, es.actions.listed([[0, 0], [0, 5]])),
    "holds 0.5, which is not in the action space": (spaces.MultiBinary(1), es.actions.listed([0.5])),
    "not all different; give each action once": (BOX, es.actions.listed([[0, 0], [0, 0]])),
    "grid.100. makes 1e.04 actions of 2 coordinates, more than 4096": (BOX, es.actions.grid(100)),
    "points of grid have 3 numbers for 2 coordinates": (BOX, es.actions.grid((1, 2, 3))),
    "actions is 7; give es.actions.grid": (BOX, 7),
    "without valid bounds": (spaces.Box(0, 1, (0,)), None),
}


@pytest.mark.quick
@pytest.mark.parametrize("words", WRONG)
def test_what_does_not_fit_the_space_is_refused(words):
    with pytest.raises(EverystepError, match=words):
        candidates(*WRONG[words])


NOT_MADE = {
    "hold nan; give finite numbers": lambda: es.actions.listed([[np.nan]]),
    "give at least one action": lambda: es.actions.listed(np.zeros((0, 2))),
    "give an array of numbers": lambda: es.actions.listed("many"),
    "count of sobol is 0": lambda: es.actions.sobol(0),
    "count of sobol is 5000; give at most 4096": lambda: es.actions.sobol(5000),
    "points of grid": lambda: es.actions.grid([[2]]),
    "no actions 'grids'. Did you mean grid": lambda: action_sets.read("grids(3)"),
    "write grid.5.": lambda: action_sets.read("grid(open('x'))"),
}


@pytest.mark.parametrize("words", NOT_MADE)
def test_a_set_that_is_none_is_refused(words):
    with pytest.raises(EverystepError, match=words):
        NOT_MADE[words]()


def test_sets_are_read_from_text():
    assert action_sets.read(" grid([5, 3]) ") == es.actions.grid((5, 3))
    assert action_sets.read("sobol(8, seed=2)") == es.actions.sobol(8, 2)
    assert candidates(UNIT, action_sets.read("listed([[-1], [0.5]])")).values.tolist() == [[-1], [0.5]]
    request = TrainingRequest("Pendulum-v1", constraint="math:hypot", actions="grid(3)", episodes=1)
    learner = request.learner(0)
    assert learner.actions.values.tolist() == [[-2], [0], [2]]
    before = {name: value for name, value in request.to_json().items() if name != "actions"}
    assert TrainingRequest.from_json(before).actions is None


def test_listed_states_are_learnt_in_the_same_way_whatever_the_actions_are():
    numbers, vectors = PushedPoint(spaces.Discrete(3), listed=True), PushedPoint(listed=True)
    one = es.train(numbers, "lsvi-ae", horizon=3, episodes=8)
    other = es.train(vectors, "lsvi-ae", actions=THREE, horizon=3, episodes=8)
    assert all((column == other.columns[name]).all() for name, column in one.columns.items())
    assert [int(a) - 1 for a in numbers.actions] == [float(a[0]) for a in vectors.actions]
    assert one.policy(2) - 1 == other.policy(2)[0]


@pytest.fixture(scope="module")
def learner():
    made = es.Learner(PushedPoint(), "lsvi-ae", actions=es.actions.grid(4), **SHORT)
    made.play(4)
    return made


def test_environment_and_constraint_get_the_action_itself():
    given = []

    def constraint(obs, action, obs_next, info):
        given.append(action)
        return -1.0

    env = PushedPoint()
    made = es.Learner(env, "lsvi-ae", constraint=constraint, actions=es.actions.grid(4), **SHORT)
    made.play(2)
    assert all(a.shape == (1,) and a.dtype == np.float32 for a in given)
    assert [a.tolist() for a in given] == [a.tolist() for a in env.actions]
    np.testing.assert_allclose(made.actions.values[:, 0], [-1, -1 / 3, 1 / 3, 1], atol=1e-6)


def test_copies_get_one_vector_each():
    vector = gymnasium.vector.SyncVectorEnv([PushedPoint, PushedPoint])
    made = es.Learner(vector, "lsvi-ae", actions=es.actions.grid(4), **SHORT)
    made.play(2)
    assert [each.actions[0].shape for each in vector.envs] == [(1,), (1,)]


def test_a_saved_policy_acts_the_same(learner, tmp_path):
    policy = learner.policy()
    policy.save(tmp_path / "policy")
    again = es.Policy.load(tmp_path / "policy")
    x = np.linspace(-1, 1, 7)[:, None]
    assert (again.batch(x) == policy.batch(x)).all()
    assert again.batch(x).shape == (7, 1)
    assert again(x[0]).dtype == np.float32
    assert (again.certify(x[0]) == policy.certify(x[0])).all()
    found = es.evaluate(again, PushedPoint(), episodes=2)
    assert (found.columns["return"] == es.evaluate(policy, PushedPoint(), episodes=2).columns["return"]).all()
    with pytest.raises(EverystepError, match="does not hold the actions of the policy"):
        es.evaluate(again, PushedPoint(spaces.Box(0, 1, (1,))), episodes=1)
    with pytest.raises(EverystepError):
        es.evaluate(again, PushedPoint(spaces.Discrete(4)), episodes=1)


def test_a_learner_goes_on_bit_for_bit(learner, tmp_path):
    learner.save(tmp_path / "learner")
    again = es.Learner.load(tmp_path / "learner", PushedPoint())
    assert (again.actions.values == learner.actions.values).all()
    learner.play(3)
    again.play(3)
    assert all((column == again.columns[name]).all() for name, column in learner.columns.items())


def test_a_training_goes_on_with_the_same_actions_alone(tmp_path):
    train = lambda actions, episodes: es.train(
        PushedPoint(), "lsvi-ae", actions=actions, episodes=episodes, out=tmp_path / "t", **SHORT
    )
    train(es.actions.grid(4), 2)
    with pytest.raises(EverystepError, match="number of actions 4, not 3"):
        train(es.actions.grid(3), 4)
    with pytest.raises(EverystepError, match="was trained with actions"):
        train(es.actions.sobol(4), 4)
    assert len(train(es.actions.grid(4), 4).columns["return"]) == 4


def test_logged_vectors_become_numbers(learner):
    batch = es.logged.from_env(PushedPoint(), lambda obs: np.array([0.2]), 1, length=3, actions=es.actions.grid(4))
    assert batch.actions.tolist() == [2, 2, 2]
    assert learner.actions.nearest([[0.2], [-0.9]]).tolist() == [2, 0]
    made = es.Learner(PushedPoint(), "lsvi-ae", actions=es.actions.grid(4), **SHORT)
    made.learn(batch)
    assert made.policy()(np.zeros(1)).shape == (1,)
    with pytest.raises(EverystepError, match="already"):
        es.Learner(PushedPoint(spaces.Discrete(3)), "lsvi-ae", **SHORT).actions.nearest([0])


def test_a_shield_judges_a_vector_by_the_nearest_candidate(learner):
    shield = es.shield(learner.policy(), tolerance=np.inf)
    asked = np.array([0.3], np.float32)
    assert shield(np.zeros(1), asked) is asked
    env = es.shield(learner.policy(), tolerance=0.0).wrap(PushedPoint())  # little is known: the least harmful is played
    env.reset(seed=0)
    mask = env.action_masks()
    assert mask.shape == (4,)
    assert not mask.all()
    asked = learner.actions.action(int(np.argmin(mask)))
    info = env.step(asked)[-1]
    assert info["shielded"]
    assert info["asked"] == asked
    assert mask[learner.actions.number_of(info["played"])]
    with pytest.raises(EverystepError, match="does not hold the actions"):
        es.shield(learner).wrap(PushedPoint(spaces.Box(0, 1, (1,))))


def test_a_constraint_is_checked_with_the_candidates():
    found = es.check_constraint(PushedPoint(), episodes=2, actions=THREE)
    assert found.verdict in ("one decision", "look ahead")


def test_features_are_chosen_for_vectors(monkeypatch):
    from everystep.features import automatic

    monkeypatch.setattr(automatic, "FREQUENCIES_OF_BOTH", 3)
    result = es.train(PushedPoint(), "lsvi-ae", horizon=3, episodes=2)
    plan = result.policy.plan
    assert plan.value_encoder.phi.joint
    assert plan.value_encoder.d == 7
    assert any("the agent chooses among 5 actions, grid(5)" in each for each in result.remarks)


def test_many_candidates_have_fewer_states_by_default():
    count = lambda n: action_sets.Candidates(n, 0, np.zeros((n, 1)), np.zeros(1), np.ones(1))
    assert [most_states(4096, count(n)) for n in (8, 32, 64, 256, 2048)] == [4096, 4096, 2048, 512, 512]
    assert most_states(4000, count(512)) == 4000
    assert most_states(None, count(512)) is None
    assert most_states(4096, action_sets.Candidates(512)) == 4096
