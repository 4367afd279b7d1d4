"""A problem as arrays: the shapes it accepts."""

import re

import numpy as np
import pytest
from problems_for_tests.three_states import A, H, P, S, every_step, g, problem, r

from everystep.errors import EverystepError
from everystep.mdp.cmdp import FiniteCMDP, Noise
from everystep.mdp.world import start_state, step

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("name", "array"), [("P", P), ("r", np.arange(6.0).reshape(S, A))], ids=["transitions", "rewards"]
)
def test_an_array_may_or_may_not_depend_on_the_step(name, array):
    kept = {"P": "dense_P"}.get(name, name)
    np.testing.assert_array_equal(getattr(problem(**{name: array}), kept), array[None])
    np.testing.assert_array_equal(getattr(problem(**{name: every_step(array)}), kept), every_step(array))


@pytest.mark.parametrize("name", ["P", "r"])
def test_a_step_axis_must_be_as_long_as_the_horizon(name):
    array = every_step({"P": P, "r": r}[name])[:-1]
    with pytest.raises(EverystepError, match=f"^{name} has shape {re.escape(str(array.shape))}; give"):
        problem(**{name: array})


@pytest.mark.parametrize("shape", [(S, A), (S, A, S + 1), (S, S, A), (2, H, S, A, S), (0, A, 0), (S, 0, S)])
def test_transitions_of_any_other_shape_are_refused(shape):
    with pytest.raises(EverystepError, match=f"^P has shape {re.escape(str(shape))}; give"):
        problem(P=np.zeros(shape))


def test_constraints_with_two_axes_are_one_constraint_at_every_step():
    assert problem(g=g).g.shape == (1, 1, S, A)


def test_three_axes_of_constraints_are_several_constraints_when_transitions_have_no_step():
    given = np.stack([g, -np.abs(g), 0.5 * g, 0.25 * g])
    made = problem(g=given)
    assert made.constraints == H  # as many as steps: only the rule distinguishes them
    np.testing.assert_array_equal(made.g, given[:, None])
    assert made.stationary


def test_three_axes_of_constraints_are_steps_when_transitions_have_steps():
    given = np.stack([g, -np.abs(g), 0.5 * g, 0.25 * g])
    made = problem(P=every_step(P), g=given)
    assert made.constraints == 1
    np.testing.assert_array_equal(made.g, given[None])


def test_four_axes_of_constraints_are_constraints_and_then_steps():
    given = np.linspace(-1, 0, 2 * H * S * A).reshape(2, H, S, A)
    for transitions in (P, every_step(P)):
        made = problem(P=transitions, g=given)
        np.testing.assert_array_equal(made.g, given)
        assert made.constraints == 2
        assert not made.stationary


def test_constraints_with_a_step_axis_of_another_length_are_refused():
    with pytest.raises(EverystepError, match=r"^g has 3 steps; the horizon is 4: give as many\.$"):
        problem(g=np.zeros((2, 3, S, A)))
    with pytest.raises(EverystepError, match=r"^g has 2 steps; the horizon is 4: give as many\.$"):
        problem(P=every_step(P), g=np.zeros((2, S, A)))


@pytest.mark.parametrize("shape", [(A, S), (S,), (S, A, 1), (1, 1, 1, S, A)])
def test_constraints_of_any_other_shape_are_refused(shape):
    with pytest.raises(EverystepError, match=f"^g has shape {re.escape(str(shape))}; its last axes must be"):
        problem(g=np.zeros(shape))


@pytest.mark.parametrize("name", ["P", "r", "g"])
def test_a_problem_is_stationary_until_one_array_depends_on_the_step(name):
    assert problem().stationary
    array = every_step({"P": P, "r": r, "g": g}[name])
    assert not problem(**{name: array[None] if name == "g" else array}).stationary


@pytest.mark.parametrize("name", ["P", "r", "g", "features", "start"])
def test_text_is_not_an_array_of_numbers(name):
    with pytest.raises(EverystepError, match=f"^{name} is not an array of numbers; give one"):
        problem(**{name: "many"})


@pytest.mark.parametrize("horizon", [0, -1, 2.5, "long", None])
def test_a_horizon_is_a_whole_number_of_at_least_one(horizon):
    with pytest.raises(EverystepError, match=rf"^horizon is {horizon}; give a whole number of at least 1\.$"):
        problem(horizon=horizon)


def test_features_are_a_vector_for_every_state_and_action():
    assert problem(features=np.zeros((S, A, 7))).features.shape == (S, A, 7)
    for shape in ((S, A), (A, S, 7), (H, S, A, 7)):
        with pytest.raises(EverystepError, match=rf"^features have shape {re.escape(str(shape))}; give \(3, 2, d\)"):
            problem(features=np.zeros(shape))


@pytest.mark.parametrize("start", [2, np.int64(2), [2], (2,), np.array(2), np.array([2], np.uint8)])
def test_a_start_may_be_one_state(start):
    world = problem(start=start).world
    assert [int(start_state(world, k, 0.5)) for k in (1, 2, 9)] == [2, 2, 2]


def test_a_start_may_be_a_sequence_with_one_state_for_each_episode():
    world = problem(start=[2, 0, 1]).world
    assert [int(start_state(world, k, 0.5)) for k in (1, 2, 3, 4)] == [2, 0, 1, 2]


@pytest.mark.parametrize(
    "weights", [(0.25, 0.0, 0.75), (0.0, 1.0, 0.0), (0.5, 0.5, 0.0), (0.1, 0.2, 0.7), (1 / 3, 1 / 3, 1 / 3)]
)
def test_a_start_may_be_a_distribution_and_is_drawn_from_it(weights):
    world = problem(start=list(weights)).world
    u = (np.arange(1000) + 0.5) / 1000
    drawn = np.array([int(start_state(world, 1, each)) for each in (0.0, *u, np.nextafter(1, 0))])
    np.testing.assert_allclose(np.bincount(drawn[1:-1], minlength=S) / 1000, weights, rtol=0, atol=2e-3)
    assert all(weights[x] > 0 for x in drawn)


def test_the_only_state_there_is_may_be_drawn_too():
    made = FiniteCMDP(np.ones((1, 1, 1)), np.zeros((1, 1)), np.zeros((1, 1)), start=[1.0], horizon=1)
    assert int(start_state(made.world, 1, 0.9)) == 0


@pytest.mark.parametrize(("start", "shown"), [(3, "3"), (-1, "-1"), ([0, 7, 1], "7"), (np.array([], int), "empty")])
def test_a_start_that_is_no_state_is_refused(start, shown):
    with pytest.raises(EverystepError, match=rf"^start is {shown}; give states between 0 and 2\.$"):
        problem(start=start)


@pytest.mark.parametrize("start", [[0.5, 0.5], [0.5, 0.5, 0.5], [1.5, -0.5, 0.0], 1.0, []])
def test_a_start_that_is_no_distribution_is_refused(start):
    with pytest.raises(EverystepError, match=r"a state, .* 3 probabilities"):
        problem(start=start)


def test_a_start_that_is_not_a_number_is_refused():
    with pytest.raises(EverystepError, match=r"^start"):
        problem(start=[np.nan, 0.5, 0.5])


def test_a_start_far_beyond_the_states_is_refused():
    with pytest.raises(EverystepError, match=r"^start"):
        problem(start=2**32)


@pytest.mark.parametrize(
    ("changes", "noise"),
    [
        pytest.param({}, np.zeros((S, A)), id="no next state"),
        pytest.param({}, np.zeros((S, A, S + 1)), id="a state too many"),
        pytest.param({"g": np.stack([-np.abs(g)] * 2)}, -np.ones((S, A, S)), id="one of two constraints"),
        pytest.param(
            {"P": every_step(P), "g": np.full((2, H, S, A), -1.0)}, -np.ones((H, S, A, S)), id="steps, one of two"
        ),
        pytest.param({"g": np.full((1, H, S, A), -1.0)}, -np.ones((H, S, A, S)), id="steps where P has none"),
    ],
)
def test_costs_on_arrival_of_a_wrong_shape_are_refused(changes, noise):
    with pytest.raises(EverystepError, match=r"^cost_on_arrival"):
        problem(**changes, noise=Noise(cost_on_arrival=noise)).check()


def test_rewards_on_arrival_of_a_wrong_shape_are_refused():
    with pytest.raises(EverystepError, match=r"^reward_on_arrival has shape \(3, 2\); give \(3, 2, 3\)"):
        problem(noise=Noise(reward_on_arrival=np.zeros((S, A)))).check()


def test_the_noise_of_rewards_is_one_number():
    with pytest.raises(EverystepError, match=r"^reward_sigma"):
        problem(noise=Noise(reward_sigma=np.array([0.1, 0.2]))).check()


def test_costs_on_arrival_of_several_constraints_need_no_step_axis():
    seen = np.random.default_rng(4).uniform(-1, 0, (2, S, A, S))
    made = problem(g=(P * seen).sum(-1), noise=Noise(cost_on_arrival=seen))
    made.check()
    outcome = step(made.world, 2, 1, 0, 0.4, 0.0, 0.0)
    np.testing.assert_array_equal(outcome.cost, seen[:, 1, 0, int(outcome.x_next)])
