"""A problem as arrays: the shapes it accepts, the errors that name a place, its compressed form, and one step."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from everystep.errors import EverystepError
from everystep.mdp import planner
from everystep.mdp.cmdp import FiniteCMDP, Noise
from everystep.mdp.world import at_step, expected, start_state, step

pytestmark = pytest.mark.quick

S, A, H = 3, 2, 4
repeatable = settings(derandomize=True, deadline=None, database=None, max_examples=60)


def problem(**changes):
    """Three states, two actions, four steps; the second action is unsafe in state 0."""
    g = np.full((S, A), -1.0)
    g[0, 1] = 1.0
    arrays = {"P": np.full((S, A, S), 1 / S), "r": np.zeros((S, A)), "g": g, "horizon": H}
    return FiniteCMDP(**(arrays | changes))


def every_step(array):
    return np.broadcast_to(array, (H, *array.shape)).copy()


def altered(array, where, value):
    array = np.array(array, float)
    array[where] = value
    return array


P, r, g = problem().dense_P[0], problem().r[0], problem().g[0, 0]


# --- shapes -----------------------------------------------------------------------------------------------------
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


# --- starts -----------------------------------------------------------------------------------------------------
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
    with pytest.raises(EverystepError, match="give a state, a sequence of states, or 3 probabilities that sum to 1"):
        problem(start=start)


def test_a_start_that_is_not_a_number_is_refused():
    with pytest.raises(EverystepError, match=r"^start"):
        problem(start=[np.nan, 0.5, 0.5])


def test_a_start_far_beyond_the_states_is_refused():
    with pytest.raises(EverystepError, match=r"^start"):
        problem(start=2**32)


# --- what check() says ------------------------------------------------------------------------------------------
def test_nothing_is_wrong_with_a_sound_problem():
    assert problem().check() == ()
    assert problem(remarks=("the ice is thin.",)).check(cap=H) == ("the ice is thin.",)


SCALE_IT = "set scale to true, which divides each constraint by its largest |g| (its sign decides safety)."
WRONG = [
    (
        {"P": altered(P, (1, 0, 2), 0.5)},
        "P sums to 1.16666667 over the next states at state 1, action 0; make it sum to 1.",
    ),
    (
        {"P": altered(every_step(P), (2, 1, 1), 0.0)},
        "P sums to 0 over the next states at state 1, action 1, step 3; make it sum to 1.",
    ),
    (
        {"P": altered(P, (2, 1), [-0.25, 0.25, 1.0])},
        "P is -0.25 at state 2, action 1; probabilities cannot be negative.",
    ),
    ({"P": altered(P, (0, 1, 0), np.nan)}, "P is nan at state 0, action 1; every entry must be finite."),
    ({"r": altered(r, (2, 0), -np.inf)}, "r is -inf at state 2, action 0; every entry must be finite."),
    (
        {"r": altered(every_step(r), (3, 2, 0), np.nan)},
        "r is nan at state 2, action 0, step 4; every entry must be finite.",
    ),
    ({"g": altered(g, (1, 1), np.inf)}, "g is inf at state 1, action 1; every entry must be finite."),
    (
        {"g": altered(g, (1, 1), -1.5)},
        "g is -1.5 at state 1, action 1, outside [-1, 1]; " + SCALE_IT,
    ),
    (
        {"g": altered(np.stack([g, g]), (1, 0, 1), 2.0)},
        "g is 2 at state 0, action 1, constraint 2, outside [-1, 1]; " + SCALE_IT,
    ),
    (
        {"g": altered(np.stack([every_step(g)] * 2), (0, 1, 2, 0), 1.25)},
        "g is 1.25 at state 2, action 0, step 2, constraint 1, outside [-1, 1]; " + SCALE_IT,
    ),
    (
        {"noise": Noise(reward_on_arrival=altered(np.zeros((S, A, S)), (1, 0, 2), 0.3))},
        "reward_on_arrival has a mean that differs from r by 0.1; make them agree.",
    ),
    (
        {"noise": Noise(cost_on_arrival=altered(np.broadcast_to(g[..., None], (S, A, S)), (0, 0, 0), 0.5))},
        "cost_on_arrival has a mean that differs from g by 0.5; make them agree.",
    ),
    (
        {"noise": Noise(reward_sigma=-0.5)},
        "reward_sigma is -0.5; give a standard deviation of at least 0.",
    ),
    (
        {"noise": Noise(cost_sigma=[np.nan])},
        "cost_sigma is [nan]; give a standard deviation of at least 0.",
    ),
    (
        {"noise": Noise(cost_sigma=[0.1, 0.2])},
        "cost_sigma has shape (2,); give one number, or 1.",
    ),
]


NO_SAFE_ACTION = [
    ({"g": altered(g, 0, 0.5)}, "1 state has no safe action (state 0): "),
    ({"g": altered(every_step(g)[None], (0, 2, 1), 0.5)}, "1 state has no safe action (state 1 at step 3): "),
    ({"g": np.stack([altered(g, (2, 0), 0.5), altered(g, (2, 1), 0.5)])}, "1 state has no safe action (state 2): "),
    ({"g": np.full((S, A), 0.5)}, "3 states have no safe action (such as state 0): "),
]


@pytest.mark.parametrize(("changes", "remark"), NO_SAFE_ACTION, ids=[remark for _, remark in NO_SAFE_ACTION])
def test_states_without_a_safe_action_are_allowed_and_remarked(changes, remark):
    (found,) = problem(**changes).check()
    assert found.startswith(remark)


def test_where_every_state_has_a_safe_action_there_is_no_remark():
    assert problem().check() == ()
    assert problem(g=altered(g, (2, 0), 0.0)).check() == ()


def test_states_without_a_safe_action_are_listed():
    ends = problem(g=altered(altered(g, 0, 0.5), 2, 0.5)).dead_ends
    assert np.flatnonzero(ends.without_safe_action.any(0)).tolist() == [0, 2]


@pytest.mark.parametrize(("changes", "sentence"), WRONG, ids=[sentence.split(";")[0] for _, sentence in WRONG])
def test_what_is_wrong_is_said_in_one_sentence_with_its_place(changes, sentence):
    with pytest.raises(EverystepError) as error:
        problem(**changes).check()
    assert str(error.value) == sentence


def test_states_and_actions_are_called_by_the_names_they_have():
    made = problem(
        P=altered(P, (1, 0, 2), 0.5), state_names=("the shore", "the ice", "the hole"), action_names=("wait", "go")
    )
    with pytest.raises(EverystepError, match="at the ice, wait; make it sum to 1"):
        made.check()
    made = problem(g=altered(g, 2, 0.5), state_names=("the shore", "the ice", "the hole"))
    assert "(the hole)" in made.check()[0]


def test_a_row_that_misses_one_by_rounding_alone_is_fine():
    row = np.full(S, 1 / S)
    row[0] += 4e-10
    problem(P=altered(P, (0, 0), row)).check()
    row[0] += 4e-9
    with pytest.raises(EverystepError, match=r"^P sums to 1"):
        problem(P=altered(P, (0, 0), row)).check()


def test_exempt_states_need_no_safe_action():
    unsafe = altered(g, 2, 0.5)
    assert problem(g=unsafe, exempt=[False, False, True]).check() == ()
    (remark,) = problem(g=unsafe, exempt=[True, True, False]).check()
    assert remark.startswith("1 state has no safe action (state 2): ")


def test_exemptions_are_one_for_each_state():
    with pytest.raises(EverystepError, match=r"^exempt"):
        problem(g=altered(g, 2, 0.5), exempt=[True]).check()


def test_features_must_be_finite():
    with pytest.raises(EverystepError, match=r"^features"):
        problem(features=np.full((S, A, 2), np.nan)).check()


def test_a_cap_below_the_unconstrained_optimum_is_refused():
    rich = problem(r=altered(r, (0, 1), 1.0), P=np.broadcast_to(np.eye(S)[:, None, :], (S, A, S)))
    assert planner.solve(rich).value == 0  # the reward is unsafe to take, and still counts
    rich.check(cap=4.0)
    with pytest.raises(EverystepError, match=r"^cap is 3\.9, below the unconstrained optimum 4; set cap to at least"):
        rich.check(cap=3.9)


def test_a_cap_must_hold_the_optimum_of_every_start():
    stay = np.broadcast_to(np.eye(S)[:, None, :], (S, A, S))
    rich = problem(r=altered(r, (1,), 1.0), P=stay, start=[0, 1])
    rich.check(cap=4.0)
    with pytest.raises(EverystepError, match=r"^cap is 2, below"):
        rich.check(cap=2.0)


def test_a_cap_must_hold_the_optimum_of_every_state_that_luck_may_lead_to():
    luck = altered(np.broadcast_to(np.eye(S)[:, None, :], (S, A, S)), 0, [0.0, 0.5, 0.5])
    rich = problem(r=altered(r, (1,), 1.0), P=luck, start=0)
    assert planner.solve(rich, safe=False).value == 1.5
    rich.check(cap=3.0)
    with pytest.raises(EverystepError, match=r"^cap is 2, below"):
        rich.check(cap=2.0)


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


# --- one step ---------------------------------------------------------------------------------------------------
@st.composite
def worlds_and_rewards(draw, crowded=(True, False)):
    """Problems with and without a step axis, in which all states may follow a state (`crowded`) or a few may; and what
    is seen on arrival, (T, S, A, S)."""
    states, actions, horizon = draw(st.integers(1, 6)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    T = (horizon,) if draw(st.booleans()) else ()
    follows = (
        np.ones((states, 1, states), bool) if draw(st.sampled_from(crowded)) else rng.random((states, 1, states)) < 0.4
    )
    follows[np.arange(states), 0, rng.integers(states, size=states)] = True
    # A successor of some action may still be impossible under another one, or at another step.
    weights = rng.random((*T, states, actions, states)) * rng.integers(2, size=(*T, states, actions, states)) * follows
    weights += np.where(weights.sum(-1, keepdims=True) > 0, 0, follows)
    seen = rng.normal(size=weights.shape)
    probabilities = weights / weights.sum(-1, keepdims=True)
    made = FiniteCMDP(
        probabilities,
        (probabilities * seen).sum(-1),
        np.zeros((1, 1, states, actions)),
        horizon=horizon,
        noise=Noise(reward_on_arrival=seen),
    )
    return made, seen if T else seen[None]


def worlds(**options):
    return worlds_and_rewards(**options).map(lambda both: both[0])


@repeatable
@given(worlds(), st.integers(0, 10**6))
def test_an_expectation_over_successors_is_the_expectation_over_all_states(made, seed):
    V = np.random.default_rng(seed).normal(size=made.states)
    world = made.world
    for h in range(made.horizon):
        compressed = expected(at_step(world.P, h), world.successors, V)
        np.testing.assert_allclose(compressed.T, at_step(made.dense_P, h) @ V, rtol=0, atol=1e-12)


@repeatable
@given(worlds(crowded=(False,)))
def test_successors_are_listed_in_increasing_order_and_none_is_missing(made):
    successors = made.world.successors
    assume(successors is not None)
    for x in range(made.states):
        possible = np.flatnonzero((made.dense_P[:, x] > 0).any((0, 1)))
        np.testing.assert_array_equal(successors[: len(possible), x], possible)
        assert len(set(successors[:, x].tolist())) == made.sizes.successors < made.states


def test_where_a_state_can_be_followed_by_all_others_no_list_is_kept():
    one = altered(np.broadcast_to(np.eye(S)[:, None, :], (S, A, S)), (1, 1), 1 / S)
    assert problem(P=one).world.successors is None
    assert problem(P=np.broadcast_to(np.eye(S)[:, None, :], (S, A, S))).sizes.successors == 1


@repeatable
@given(worlds())
def test_next_states_come_as_often_as_they_should_and_impossible_ones_never(made):
    n = 100
    u = np.concatenate([[0.0], (np.arange(n) + 0.5) / n, [np.nextafter(1, 0)]])
    for h in range(made.horizon):
        for x in range(made.states):
            for a in range(made.actions):
                arrived = [int(step(made.world, h, x, a, each, 0.0, 0.0).x_next) for each in u]
                probabilities = at_step(made.dense_P, h)[x, a]
                assert all(probabilities[y] > 0 for y in arrived)
                often = np.bincount(arrived[1:-1], minlength=made.states) / n
                np.testing.assert_allclose(often, probabilities, rtol=0, atol=1.01 / n)


@repeatable
@given(worlds_and_rewards())
def test_the_reward_seen_is_that_of_the_state_arrived_in(made):
    made, seen = made
    for h in range(made.horizon):
        for x in range(made.states):
            for u in (0.0, 0.3, 0.8, 0.999):
                outcome = step(made.world, h, x, 0, u, 0.0, 0.0)
                assert outcome.reward == at_step(seen, h)[x, 0, int(outcome.x_next)]


def test_rows_that_sum_to_a_little_less_than_one_never_lead_to_an_impossible_state():
    row = [0.1] * 10 + [0.0]  # its running sum ends just below 1
    assert np.cumsum(row)[-1] < 1
    made = FiniteCMDP(np.broadcast_to(row, (11, 1, 11)), np.zeros((11, 1)), np.zeros((11, 1)), horizon=1)
    made.check()
    assert int(step(made.world, 0, 3, 0, np.nextafter(1, 0), 0.0, 0.0).x_next) == 9
    made = FiniteCMDP(made.dense_P[0], made.r[0], made.g[0, 0], start=row, horizon=1)
    assert int(start_state(made.world, 1, np.nextafter(1, 0))) == 9


def test_without_noise_the_means_themselves_are_seen():
    outcome = step(problem(r=altered(r, (0, 1), 0.75)).world, 0, 0, 1, 0.5, 3.0, 3.0)
    assert outcome.reward == 0.75
    np.testing.assert_array_equal(outcome.cost, [1.0])


def test_normal_noise_is_added_to_what_is_seen_and_not_to_the_truth():
    made = problem(g=np.stack([g, -np.abs(g)]), noise=Noise(reward_sigma=0.5, cost_sigma=[0.1, 0.0]))
    outcome = step(made.world, 0, 0, 1, 0.5, 3.0, np.array([2.0, 2.0]))
    assert outcome.reward == 1.5
    np.testing.assert_allclose(outcome.cost, [1.2, -1.0], rtol=0, atol=1e-15)
    np.testing.assert_array_equal(outcome.g, [1.0, -1.0])


def test_one_number_of_cost_noise_is_meant_for_every_constraint():
    made = problem(g=np.stack([g, g]), noise=Noise(cost_sigma=0.25))
    np.testing.assert_array_equal(made.world.cost_sigma, [0.25, 0.25])


def test_costs_seen_on_arrival_are_those_of_the_constraint_step_and_state_arrived_in():
    m = 2
    rng = np.random.default_rng(3)
    transitions = rng.dirichlet(np.ones(S), (H, S, A))
    seen = rng.uniform(-1, 0, (m, H, S, A, S))
    mean = (transitions * seen).sum(-1)
    made = problem(P=transitions, g=mean, noise=Noise(cost_on_arrival=seen))
    made.check()
    for h in range(H):
        outcome = step(made.world, h, 1, 0, 0.4, 0.0, 0.0)
        np.testing.assert_array_equal(outcome.cost, seen[:, h, 1, 0, int(outcome.x_next)])
        np.testing.assert_array_equal(outcome.g, mean[:, h, 1, 0])


def test_costs_on_arrival_of_several_constraints_need_no_step_axis():
    seen = np.random.default_rng(4).uniform(-1, 0, (2, S, A, S))
    made = problem(g=(P * seen).sum(-1), noise=Noise(cost_on_arrival=seen))
    made.check()
    outcome = step(made.world, 2, 1, 0, 0.4, 0.0, 0.0)
    np.testing.assert_array_equal(outcome.cost, seen[:, 1, 0, int(outcome.x_next)])


def test_a_step_is_the_same_in_numpy_and_in_jax():
    rng = np.random.default_rng(5)
    transitions = np.where(np.eye(4)[:, None, :] > 0, 0, rng.dirichlet(np.ones(4), (4, 2)))
    transitions /= transitions.sum(-1, keepdims=True)
    made = FiniteCMDP(transitions, rng.random((4, 2)), -rng.random((2, 1, 4, 2)), start=[0.3, 0, 0.7, 0], horizon=2)
    world = jax.tree.map(jnp.asarray, made.world)
    x, a, u = rng.integers(4, size=200), rng.integers(2, size=200), rng.random(200)
    zero = jnp.zeros(())
    steps = jax.jit(jax.vmap(lambda x, a, u: step(world, jnp.int32(1), x, a, u, zero, zero)))(x, a, u)
    starts = jax.jit(jax.vmap(lambda u: start_state(world, jnp.int32(1), u)))(u)
    for i in range(200):
        outcome = step(made.world, 1, x[i], a[i], u[i], 0.0, 0.0)
        assert int(outcome.x_next) == int(steps.x_next[i])
        assert outcome.reward == steps.reward[i]
        np.testing.assert_array_equal(outcome.cost, steps.cost[i])
        assert int(start_state(made.world, 1, u[i])) == int(starts[i])
