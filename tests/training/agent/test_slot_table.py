"""A bounded number of states that plans compute values at: which share a slot, and what a plan makes of them."""

import numpy as np
import pytest

from everystep import agents
from everystep.environments.logged import Batch
from everystep.features.specs import bind, function
from everystep.training.agent.models.protocols import NO_SLOT
from everystep.training.agent.resolve import EnvironmentInfo, ResolvedForTraining
from everystep.training.agent.slot_table import SlotTable, _nearest
from everystep.training.agent.stored_agent import StoredAgent

pytestmark = pytest.mark.quick
ACTIONS, HORIZON, LENGTH = 2, 3, 4
MOST = 4 * LENGTH
SETTINGS = {"beta": 0.7, "lam": 0.3, "beta_cost": 0.4, "lam_cost": 0.2, "cap": 5.0}


class Box:
    low, high, shape = -np.ones(2), np.ones(2), (2,)


def psi(x):
    return np.array([1.0, x[0], x[1]]) / 2


def phi(x, a):
    return np.kron(np.eye(ACTIONS)[a], psi(x))


def agent(kind, memory=MOST, recipe=agents.lsvi_ae, settings=SETTINGS, **changed):
    spec = function(psi, d=3, crossed=True)
    if kind == "any":
        spec = function(lambda x: np.stack([phi(x, a) for a in range(ACTIONS)]), d=6)
    features = bind(spec, Box(), ACTIONS)
    info = EnvironmentInfo(features, features, 2, ACTIONS, HORIZON, LENGTH, (0.0, 1.0), memory)
    return StoredAgent(ResolvedForTraining.resolve(recipe(**settings | changed), info), 1)


def episodes(count, actions=ACTIONS):
    rng = np.random.default_rng(5)
    for number in range(count):
        x, a = rng.uniform(-1, 1, (LENGTH + 1, 2)), rng.integers(0, actions, LENGTH)
        ends = np.arange(LENGTH) == (LENGTH - 1 if number % 3 == 0 else -1)
        costs = (x[:-1, :1] + x[:-1, 1:] * np.where(a == 0, 1, -1)[:, None]) / 2
        yield Batch(
            x[:-1], a, rng.uniform(0, 1, LENGTH), costs, x[1:], ends, np.arange(LENGTH), np.full(LENGTH, number)
        )


def taught(learner, count=12, actions=ACTIONS):
    """The transitions (x, a, r, g, x', ended, the state whose slot x' has at the end)."""
    table, rows, slots = learner._slot_table, [], np.zeros(0, int)
    assign, merge = table.assign, table.merge

    def recorded_merge(encode):
        nonlocal slots
        keep, into = merge(encode)
        slots = np.where(slots == NO_SLOT, NO_SLOT, into[np.where(slots == NO_SLOT, 0, slots)])
        return keep, into

    def recorded_assign(*given):
        nonlocal slots
        found = assign(*given)
        slots = np.concatenate([slots, found[0]])
        return found

    table.assign, table.merge = recorded_assign, recorded_merge
    for batch in episodes(count, actions):
        learner.learn(batch)
        rows += zip(batch.observations, batch.actions, batch.rewards, batch.costs, batch.next_observations, strict=True)
    del table.assign, table.merge
    at = table.observations[0]
    return [(*row, None if slot == NO_SLOT else at[slot]) for row, slot in zip(rows, slots, strict=True)]


def transcription(rows, learner, at, price):
    """Q (H, A, n) by sums over transitions one by one, where V(x') = V(y) + <psi(x') - psi(y), u> for its slot's y."""
    d = 3 * ACTIONS
    gram = lambda lam: lam * np.eye(d) + sum(np.outer(phi(x, a), phi(x, a)) for x, a, *_ in rows)
    inverse, inverse_cost = np.linalg.inv(gram(SETTINGS["lam"])), np.linalg.inv(gram(SETTINGS["lam_cost"]))
    largest = max(abs(g[0]) for _, _, _, g, *_ in rows)
    theta = inverse_cost @ sum(phi(x, a) * g[0] / largest for x, a, _, g, *_ in rows)
    norm = lambda matrix, x, a: np.sqrt(phi(x, a) @ matrix @ phi(x, a))
    kept = learner._slot_table.observations[0]
    # features of any kind: the mean over actions of phi(x, a)
    of_state = (
        psi if learner.resolved.value.slot_per_action else lambda x: np.mean([phi(x, a) for a in range(ACTIONS)], 0)
    )
    slots = np.stack([of_state(x) for x in kept])
    smooth = np.linalg.inv(slots.T @ slots + SETTINGS["lam"] * np.eye(slots.shape[1])) @ slots.T
    weights = np.zeros((HORIZON, d))

    def Q(h, x, a):
        return min(phi(x, a) @ weights[h] + SETTINGS["beta"] * norm(inverse, x, a), SETTINGS["cap"])

    def V(h, x):
        if h == HORIZON:
            return 0.0
        ghat = [phi(x, a) @ theta - SETTINGS["beta_cost"] * norm(inverse_cost, x, a) for a in range(ACTIONS)]
        return Q(h, x, int(np.argmax([Q(h, x, a) - price[0, h] * max(ghat[a], 0) for a in range(ACTIONS)])))

    for h in reversed(range(HORIZON)):
        u = smooth @ np.array([V(h + 1, x) for x in kept])
        weights[h] = inverse @ sum(
            phi(x, a) * (r + (0 if y is None else V(h + 1, y) + (of_state(x_next) - of_state(y)) @ u))
            for x, a, r, _, x_next, y in rows
        )
    return np.array([[[Q(h, x, a) for x in at] for a in range(ACTIONS)] for h in range(HORIZON)])


@pytest.mark.parametrize("kind", ["crossed", "any"])
def test_a_plan_over_merged_states_is_that_of_sums_over_all_transitions_with_corrected_values(kind):
    learner = agent(kind)
    rows = taught(learner)
    assert learner.remarks
    assert learner._slot_table.used <= MOST < len(rows)
    at, plan = np.random.default_rng(9).uniform(-1, 1, (5, 2)), learner.plan()
    found = np.stack([plan.estimates(h, at).Q for h in range(HORIZON)])
    np.testing.assert_allclose(found, transcription(rows, learner, at, plan.price), rtol=0, atol=1e-9)


def test_values_that_are_linear_in_the_features_lose_nothing_by_merging():
    """One action that is always taken, and no bonus: V is linear in psi, apart from the ridge of u."""
    given = {"recipe": agents.lsvi, "settings": {"beta": 0.0, "lam": 1e-9, "cap": 1e9}}
    bounded, unbounded = agent("crossed", **given), agent("crossed", memory=None, **given)
    for batch in episodes(12, actions=1):
        bounded.learn(batch)
        unbounded.learn(batch)
    assert bounded.remarks
    assert not unbounded.remarks
    at = np.random.default_rng(9).uniform(-1, 1, (5, 2))
    for h in range(HORIZON):
        one, other = (each.plan().estimates(h, at).Q[0] for each in (bounded, unbounded))
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_no_state_is_farther_than_delta_from_the_state_whose_slot_it_shares():
    """Slots within the limit, of the same action, and a delta that never falls; distances by brute force."""
    encode, table, rng = (lambda x: x), SlotTable(1, by_action=True, most=40), np.random.default_rng(0)
    slot_of, deltas = {}, []
    for _ in range(30):
        x, a = rng.normal(size=(10, 3)), rng.integers(0, 2, 10)
        while not table.has_room(table.nearby(x, a, encode)):
            _, into = table.merge(encode)
            slot_of = {key: into[slot] for key, slot in slot_of.items()}
            deltas.append(table.delta)
        slots, own = table.assign(np.ones(10, int), x, a, np.ones(10, bool), table.nearby(x, a, encode))
        slot_of |= {(*x[i], a[i]): slots[i] for i in range(10)}
        kept = np.stack(table.observations[0])
        assert len(kept) == table.used <= 40
        for i in range(10):
            away = np.linalg.norm(kept[slots[i]] - x[i])
            assert own[i] == (away == 0)
            assert away <= (table.delta or 0) * (1 + 1e-9)
    assert len(deltas) > 2
    assert deltas == sorted(deltas)
    # A state may have been merged several times: at most delta further each time, and deltas grow.
    for (*x, a), slot in slot_of.items():
        assert table.lists[0].actions[slot] == a
        assert np.linalg.norm(table.observations[0][slot] - np.array(x)) <= sum(deltas) * (1 + 1e-9)


def test_the_nearest_point_is_that_of_all_distances():
    rng = np.random.default_rng(1)
    points, at = rng.normal(size=(50, 4)), rng.normal(size=(20, 4))
    distances = np.linalg.norm(points[None] - at[:, None], axis=-1)
    which, distance = _nearest(points, at)
    np.testing.assert_array_equal(which, distances.argmin(1))
    np.testing.assert_allclose(distance, distances.min(1), atol=1e-7)


def test_a_percentage_makes_plans_rare_however_many_features_there_are():
    """With 50 %, plans at 4, 8, 12, 20, 32 and 48 transitions; a factor of 2 plans more often."""
    counts = {}
    for switch in ("50%", 2.0):
        learner = agent("crossed", switch=switch, lam=1e-3)
        for batch in episodes(14):
            learner.learn(batch)
            learner.plan()
        counts[switch] = learner.plans
    assert counts["50%"] == 6
    assert counts[2.0] > counts["50%"]
