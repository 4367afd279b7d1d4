"""Lists of next states: one problem, whichever form its transitions were given in."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import everystep as es
from everystep.errors import EverystepError
from everystep.mdp import planner, successors
from everystep.mdp.arrays import digest, read_problem, save_problem
from everystep.mdp.cmdp import FiniteCMDP, Noise, Successors
from everystep.mdp.world import step

pytestmark = pytest.mark.quick

repeatable = settings(derandomize=True, deadline=None, database=None, max_examples=25)
FORMATS = ("csr", "csc", "coo", "lil", "dok", "bsr")


# --- problems ---------------------------------------------------------------------------------------------------------
@st.composite
def tables(draw, stepped=(True, False)):
    """A table (T, S, A, S) of multiples of 1/8, which add up exactly in any order, and the horizon."""
    S, A, H = draw(st.integers(1, 6)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    T = H if draw(st.sampled_from(stepped)) else 1
    some = min(S, draw(st.integers(1, 6)))
    P = np.zeros((T, S, A, S))
    for row in P.reshape(-1, S):
        np.add.at(row, rng.choice(S, some, replace=False)[rng.integers(some, size=8)], 1 / 8)
    return P, H


def made(P, H, table, seen=None):
    """A problem with these transitions, and the rewards and costs of `table` (T, S, A, S)."""
    rng = np.random.default_rng(7)
    r, g = rng.integers(0, 9, table.shape[1:3]) / 8, -rng.integers(0, 9, (1, 1, *table.shape[1:3])) / 8
    if seen is None:
        return FiniteCMDP(P, r, g, horizon=H)
    expected = (table * seen).sum(-1)
    return FiniteCMDP(P, expected if len(table) > 1 else expected[0], g, horizon=H, noise=Noise(reward_on_arrival=seen))


def as_lists(table, rng, padding=0, twice=False):
    """Lists of each step, (T, S, A, J), in a random order, filled up with states at probability 0."""
    T, S, A, _ = table.shape
    J = S * (2 if twice else 1) + padding
    states, probabilities = rng.integers(0, S, (T, S, A, J)), np.zeros((T, S, A, J))
    for t, x, a in np.ndindex(T, S, A):
        entries = [(y, p) for y, p in enumerate(table[t, x, a]) if p > 0]
        if twice:
            entries = [(y, part) for y, p in entries for part in (1 / 8, p - 1 / 8) if part > 0]
        order = rng.permutation(J)[: len(entries)]
        for j, (y, p) in zip(order, entries, strict=True):
            states[t, x, a, j], probabilities[t, x, a, j] = y, p
    return Successors(states, probabilities)


def assert_same(one, other):
    """Two problems are one: their digest, the arrays that agents run on, the optimum, and an episode."""
    assert digest(one) == digest(other)
    for name, array in one.world._asdict().items():
        np.testing.assert_equal(getattr(other.world, name), array, err_msg=name)
    assert one.sizes == other.sizes
    for safe in (True, False):
        np.testing.assert_array_equal(planner.solve(one, safe).V, planner.solve(other, safe).V)
    for h in range(one.horizon):
        x = h % one.states
        assert step(one.world, h, x, 0, 0.6, 0.0, 0.0).x_next == step(other.world, h, x, 0, 0.6, 0.0, 0.0).x_next


# --- one problem in every form ----------------------------------------------------------------------------------------
@repeatable
@given(tables(), st.integers(0, 3), st.booleans(), st.integers(0, 10**6))
def test_lists_in_any_order_with_padding_and_repeated_states_are_the_table(both, padding, twice, seed):
    (P, H), rng = both, np.random.default_rng(seed)
    whole = made(P if len(P) > 1 else P[0], H, P)
    lists = as_lists(P, rng, padding, twice)
    if len(P) == 1:
        lists = Successors(lists.states[0].astype(rng.choice(["int8", "uint8", "int64"])), lists.probabilities[0])
    assert_same(made(lists, H, P), whole)


@repeatable
@given(tables(stepped=(False,)), st.sampled_from(FORMATS), st.booleans())
def test_sparse_matrices_of_any_format_are_the_table(both, form, as_array):
    P, H = both
    make = getattr(scipy.sparse, f"{form}_array" if as_array else f"{form}_matrix")
    assert_same(made([make(P[0, :, a]) for a in range(P.shape[2])], H, P), made(P[0], H, P))


@repeatable
@given(tables(stepped=(False,)))
def test_explicit_zeros_and_repeated_entries_of_sparse_matrices_change_nothing(both):
    P, H = both
    S = P.shape[1]
    x, y = np.indices((S, S)).reshape(2, -1)
    for form in ("tocoo", "tocsr"):
        matrices = []
        for a in range(P.shape[2]):
            half = P[0, x, a, y] / 2  # every entry twice, zeros included
            twice = scipy.sparse.coo_matrix((np.tile(half, 2), (np.tile(x, 2), np.tile(y, 2))), (S, S))
            matrices.append(getattr(twice, form)())
        assert_same(made(matrices, H, P), made(P[0], H, P))
    repeated = scipy.sparse.csr_matrix((np.repeat(P[0, :, 0] / 2, 2), np.tile(np.repeat(range(S), 2), S),
                                        np.arange(S + 1) * 2 * S), (S, S))  # fmt: skip
    assert not repeated.has_canonical_format
    assert_same(made([repeated], H, P[:, :, :1]), made(P[0, :, :1], H, P[:, :, :1]))


@repeatable
@given(tables())
def test_the_lists_of_a_problem_are_their_own_normal_form(both):
    P, H = both
    seen = np.random.default_rng(3).integers(-8, 9, P.shape) / 8
    whole = made(P if len(P) > 1 else P[0], H, P, seen if len(P) > 1 else seen[0])
    again = FiniteCMDP(whole.P, whole.r[0] if len(P) == 1 else whole.r, whole.g, horizon=H, noise=whole.noise)
    assert_same(again, whole)
    np.testing.assert_array_equal(again.reward_on_arrival, whole.reward_on_arrival)


@repeatable
@given(tables())
def test_lists_hold_every_possible_state_once_and_in_order(both):
    P, H = both
    states, probabilities = made(P if len(P) > 1 else P[0], H, P).P
    count = (P > 0).any(0).sum(-1)
    assert states.shape[-1] == count.max()
    assert states.dtype == np.int32
    for x, a in np.ndindex(*count.shape):
        listed = states[x, a][(probabilities[:, x, a] > 0).any(0)]
        np.testing.assert_array_equal(listed, np.flatnonzero((P[:, x, a] > 0).any(0)))
    np.testing.assert_array_equal(successors.table(Successors(states, probabilities)), P)


@repeatable
@given(tables(stepped=(False,)), st.integers(0, 10**6))
def test_what_is_seen_on_arrival_follows_its_next_state(both, seed):
    (P, H), rng = both, np.random.default_rng(seed)
    seen = rng.integers(-8, 9, P.shape[1:]) / 8
    lists = as_lists(P, rng)
    one = made(P[0], H, P, seen)
    noise = Noise(reward_on_arrival=np.take_along_axis(seen, lists.states[0], -1))
    other = FiniteCMDP(Successors(lists.states[0], lists.probabilities[0]), one.r[0], one.g, horizon=H, noise=noise)
    assert_same(one, other)
    other.check()
    table = successors.table_at(one.P, one.reward_on_arrival)
    np.testing.assert_array_equal(table[0], np.where(P[0] > 0, seen, 0))


def test_a_run_is_the_same_in_every_form():
    lake = es.problems.from_map(("SFH", "FFF", "HFG"), horizon=5)
    P = lake.dense_P[0]
    same = {"start": 0, "horizon": 5, "name": "pond"}
    forms = P, [scipy.sparse.csc_matrix(P[:, a]) for a in range(4)]
    one, other = (
        es.run(FiniteCMDP(form, lake.r[0], lake.g[0, 0], **same), "lsvi-ae", episodes=20, seeds=2) for form in forms
    )
    assert other.episodes.equals(one.episodes)


# --- files ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("steps", [1, 3])
def test_a_problem_comes_back_from_a_file_of_lists_and_from_one_with_a_table(tmp_path, steps):
    rng = np.random.default_rng(5)
    P = np.zeros((steps, 4, 2, 4))
    for row in P.reshape(-1, 4):
        row[rng.choice(4, 2, replace=False)] = [0.25, 0.75]
    seen = rng.integers(-8, 9, P.shape) / 8
    problem = made(P if steps > 1 else P[0], 3, P, seen if steps > 1 else seen[0])
    save_problem(problem, tmp_path / "lists.npz")
    with np.load(tmp_path / "lists.npz") as arrays:
        assert "P" not in arrays
        assert arrays["successors"].shape == (4, 2, problem.P.states.shape[-1])
        fields = {name: arrays[name] for name in arrays if name not in ("successors", "probabilities")}
    fields["reward_on_arrival"] = seen if steps > 1 else seen[0]
    np.savez(tmp_path / "table.npz", P=P if steps > 1 else P[0], **fields)
    for name in ("lists", "table"):
        assert_same(read_problem(tmp_path / f"{name}.npz"), problem)


def test_half_of_the_lists_is_not_a_file_of_a_problem(tmp_path):
    arrays = {"r": np.zeros((2, 1)), "g": np.zeros((2, 1)), "start": 0, "horizon": 2}
    np.savez(tmp_path / "half.npz", successors=np.zeros((2, 1, 1), int), **arrays)
    with pytest.raises(EverystepError, match=r"no probabilities\."):
        es.problems.load(str(tmp_path / "half.npz"))
    np.savez(tmp_path / "none.npz", **arrays)
    with pytest.raises(EverystepError, match=r"it has no P\. Save P, r, g"):
        es.problems.load(str(tmp_path / "none.npz"))


# --- what is refused --------------------------------------------------------------------------------------------------
S, A, J, H = 3, 2, 2, 4
STATES = np.array([[[0, 1], [1, 2]], [[2, 0], [0, 1]], [[1, 2], [2, 0]]])
EQUAL = np.full((S, A, J), 0.5)
matrix = scipy.sparse.csr_matrix


def small(P, **changes):
    return FiniteCMDP(**({"P": P, "r": np.zeros((S, A)), "g": -np.ones((S, A)), "horizon": H} | changes))


def altered(array, where, value):
    array = np.array(array)
    array[where] = value
    return array


LISTS = "give whole numbers (S, A, J), or (H, S, A, J) when they depend on the step."
MATRICES = "give a sparse matrix (S, S) of numbers for every action, all of the same size."
WRONG = {
    "a state too many": (
        Successors(altered(STATES, (1, 0, 1), 3), EQUAL),
        "successors hold 3; give states between 0 and 2.",
    ),
    "a negative state": (
        Successors(altered(STATES, (0, 0, 0), -1), EQUAL),
        "successors hold -1; give states between 0 and 2.",
    ),
    "a huge state": (Successors(STATES + 2**40, EQUAL), f"successors hold {2**40}; give states between 0 and 2."),
    "floats": (Successors(STATES * 1.0, EQUAL), f"successors have shape (3, 2, 2) and type float64; {LISTS}"),
    "booleans": (Successors(STATES > 0, EQUAL), f"successors have shape (3, 2, 2) and type float64; {LISTS}"),
    "two axes": (Successors(STATES[0], EQUAL[0]), f"successors have shape (2, 2) and type int64; {LISTS}"),
    "no next state": (
        Successors(STATES[..., :0], EQUAL[..., :0]),
        f"successors have shape (3, 2, 0) and type int64; {LISTS}",
    ),
    "text": (Successors("many", EQUAL), "successors is not an array of numbers; give one."),
    "ragged": (Successors([[[0], [0, 1]]], EQUAL), "successors is not an array of numbers; give one."),
    "nothing": (Successors(None, None), "successors is not an array of numbers; give one."),
    "text for probabilities": (Successors(STATES, "likely"), "probabilities is not an array of numbers; give one."),
    "too few probabilities": (
        Successors(STATES, EQUAL[..., :1]),
        "probabilities has shape (3, 2, 1); give (3, 2, 2), or (4, 3, 2, 2) when it depends on the step.",
    ),
    "too few steps": (
        Successors(np.stack([STATES] * 3), EQUAL),
        "successors have 3 steps; the horizon is 4: give as many.",
    ),
    "too few steps of probabilities": (
        Successors(STATES, np.stack([EQUAL] * 3)),
        "probabilities has shape (3, 3, 2, 2); give (3, 2, 2), or (4, 3, 2, 2) when it depends on the step.",
    ),
    "a negative probability": (
        Successors(STATES, altered(EQUAL, (1, 1), [-0.5, 1.5])),
        "probabilities hold -0.5 at state 1, action 1; give numbers of at least 0.",
    ),
    "a negative probability that another one hides": (
        Successors(np.zeros((S, A, J), int), altered(EQUAL, (1, 1), [-0.5, 1.5])),
        "probabilities hold -0.5 at state 1, action 1; give numbers of at least 0.",
    ),
    "not a number": (
        Successors(STATES, altered(EQUAL, (2, 1, 0), np.nan)),
        "P is nan at state 2, action 1; every entry must be finite.",
    ),
    "infinite": (
        Successors(STATES, altered(EQUAL, (0, 1, 0), np.inf)),
        "P is inf at state 0, action 1; every entry must be finite.",
    ),
    "a sum of less than 1": (
        Successors(STATES, altered(EQUAL, (2, 0, 0), 0.25)),
        "P sums to 0.75 over the next states at state 2, action 0; make it sum to 1.",
    ),
    "a sum of 0": (
        Successors(STATES, altered(EQUAL, (2, 0), 0)),
        "P sums to 0 over the next states at state 2, action 0; make it sum to 1.",
    ),
    "one matrix": (matrix(np.eye(S)), "P is one sparse matrix; give a list of them, one (S, S) for each action."),
    "no action": ([], "P has shape (0,); give (S, A, S), or (H, S, A, S) when it depends on the step."),
    "a negative entry": (
        [matrix(np.eye(S)), matrix([[1, 0, 0], [0, -1, 2], [0, 0, 1]])],
        "P is -1 at state 1, action 1; probabilities cannot be negative.",
    ),
    "an empty row": (
        [matrix(np.eye(S)), matrix((S, S))],
        "P sums to 0 over the next states at state 0, action 1; make it sum to 1.",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_transitions_is_one_sentence(case):
    P, sentence = WRONG[case]
    with pytest.raises(EverystepError) as error:
        small(P).check()
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("P", "action"),
    [
        ([matrix(np.eye(S)), matrix(np.eye(S + 1))], 1),
        ([matrix(np.ones((S, S + 1))), matrix(np.eye(S))], 0),
        ([matrix(np.eye(S)), np.eye(S)], 1),
        ([np.eye(S), matrix(np.eye(S))], 0),
        ([matrix(np.eye(S)), None], 1),
        ([matrix(np.eye(S)), matrix(1j * np.eye(S))], 1),
        ([matrix((0, 0)), matrix((0, 0))], 0),
    ],
)
def test_matrices_that_do_not_fit_together_are_refused(P, action):
    with pytest.raises(EverystepError) as error:
        small(P)
    assert str(error.value).startswith(f"P of action {action} is ")
    assert str(error.value).endswith(MATRICES)
    assert "\n" not in str(error.value)


def test_two_observations_of_one_next_state_are_refused():
    states = altered(STATES, (1, 0), [2, 2])
    seen = altered(np.zeros((S, A, J)), (1, 0), [0.5, -0.5])
    for name in ("reward_on_arrival", "cost_on_arrival"):
        with pytest.raises(EverystepError) as error:
            small(Successors(states, EQUAL), noise=Noise(**{name: seen}))
        assert str(error.value) == (
            f"{name} has two values for state 1, action 0 and the same next state 2; list each next state once."
        )
    same = altered(np.zeros((S, A, J)), (1, 0), [0.5, 0.5])
    merged = small(Successors(states, EQUAL), r=same.mean(-1), noise=Noise(reward_on_arrival=same))
    merged.check()
    assert merged.dense_P[0, 1, 0].tolist() == [0, 0, 1]


def test_what_is_seen_at_a_state_that_cannot_follow_is_never_seen():
    seen = altered(np.zeros((S, A, J)), (1, 0), [0.5, np.nan])
    problem = small(
        Successors(STATES, altered(EQUAL, (1, 0), [1, 0])), r=np.nan_to_num(seen)[..., 0], noise=Noise(seen)
    )
    problem.check()
    assert problem.reward_range[:2] == (0.0, 0.5)


def test_observations_on_arrival_need_the_same_lists_at_every_step():
    states = np.stack([STATES, STATES, STATES, STATES[..., ::-1]])
    with pytest.raises(EverystepError) as error:
        small(Successors(states, EQUAL), noise=Noise(reward_on_arrival=np.zeros((S, A, J))))
    assert str(error.value) == (
        "reward_on_arrival is given, and the lists of next states differ between steps; "
        "list the same states at every step, with probability 0 where a state cannot follow."
    )


def test_observations_on_arrival_have_the_shape_of_the_lists():
    for name in ("reward_on_arrival", "cost_on_arrival"):
        with pytest.raises(EverystepError, match=rf"^{name} has shape \(3, 2, 3\); .*\(3, 2, 2\)"):
            small(Successors(STATES, EQUAL), noise=Noise(**{name: np.zeros((S, A, S))}))


def test_three_axes_of_constraints_are_steps_only_with_lists_that_have_steps():
    g = -np.ones((H, S, A))
    assert small(Successors(STATES, EQUAL), g=g).constraints == H
    for lists in (Successors(np.stack([STATES] * H), EQUAL), Successors(STATES, np.stack([EQUAL] * H))):
        assert small(lists, g=g).constraints == 1


# --- by state ---------------------------------------------------------------------------------------------------------
@repeatable
@given(tables())
def test_by_state_lists_what_follows_under_any_action_each_state_once(both):
    P, H = both
    lists = made(P if len(P) > 1 else P[0], H, P).P
    follow, at = successors.by_state(lists)
    follows = (P > 0).any((0, 2))
    assert follow.shape == (P.shape[1], follows.sum(1).max())
    for x in range(len(follow)):
        possible = np.flatnonzero(follows[x])
        np.testing.assert_array_equal(follow[x, : len(possible)], possible)
        others = np.flatnonzero(~follows[x])[: follow.shape[1] - len(possible)]
        np.testing.assert_array_equal(follow[x, len(possible) :], others)
        for a, j in np.ndindex(*lists.states.shape[1:]):
            if (lists.probabilities[:, x, a, j] > 0).any():
                assert follow[x, at[x, a, j]] == lists.states[x, a, j]


# --- size -------------------------------------------------------------------------------------------------------------
def test_a_problem_with_many_states_never_has_a_table():
    n = 40_000  # a table would take 13 GB for each action
    ahead = np.minimum(np.arange(n) + 1, n - 1)
    shift = scipy.sparse.csr_matrix((np.ones(n), (np.arange(n), ahead)), (n, n))
    chain = FiniteCMDP(
        [shift, scipy.sparse.identity(n)], np.eye(n, 2, -(n - 1)), np.zeros((n, 2)), start=n - 4, horizon=5
    )
    r, g = chain.r[0], chain.g[0, 0]
    chain.check()
    assert chain.P.states.shape == (n, 2, 1)
    assert chain.sizes.successors == 1
    assert planner.solve(chain).value == 2.0
    listed = FiniteCMDP(Successors(np.stack([ahead, np.arange(n)], -1)[..., None], np.ones((n, 2, 1))),
                        r, g, start=n - 4, horizon=5)  # fmt: skip
    assert digest(listed) == digest(chain)


def test_lists_do_not_import_scipy():
    code = (
        "import sys, numpy as np, everystep as es\n"
        "states, r, g = np.zeros((2, 1, 1), int), np.zeros((2, 1)), np.zeros((2, 1))\n"
        "es.FiniteCMDP(es.Successors(states, np.ones((2, 1, 1))), r, g).check()\n"
        "assert not any(name.startswith('scipy.sparse') for name in sys.modules), 'scipy.sparse was imported'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
