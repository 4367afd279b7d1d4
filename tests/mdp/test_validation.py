"""The errors and remarks about a problem, which name a place."""

import numpy as np
import pytest
from problems_for_tests.three_states import A, H, P, S, altered, every_step, g, problem, r

from everystep.errors import EverystepError
from everystep.mdp import planner
from everystep.mdp.cmdp import Noise

pytestmark = pytest.mark.quick


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
    with pytest.raises(EverystepError, match="at the ice, wait"):
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
    with pytest.raises(EverystepError, match=r"^cap is 3\.9, .* 4; "):
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
