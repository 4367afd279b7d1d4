"""SLUCB-QVI and RSLUCB-QVI: what they require, what they estimate, and that they learn without violations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import everystep as es
from everystep import agents
from everystep.lsvi import loop
from everystep.lsvi.choices.safe import SafeSet, admitted
from everystep.lsvi.costs.counts import CountCosts
from everystep.lsvi.costs.known_safe import KnownSafeAction, ProjectedCosts, ProjectedCounts
from everystep.lsvi.costs.linear import LinearCosts
from everystep.lsvi.episode import Episode
from everystep.lsvi.radii import Tuned
from everystep.lsvi.regression.linalg import OnDemand
from everystep.mdp import planner
from everystep.mdp.arrays import digest, save_problem
from everystep.mdp.cmdp import Factored, FiniteCMDP, Known, Noise
from everystep.mdp.world import Sizes
from everystep.problems import from_map

LEVELS = (0.1, 0.2, 0.4, 0.7, 1.0)


def star(seed=0, states=8, d=5, horizon=3, directions=3, known=None) -> FiniteCMDP:
    """A random linear CMDP whose actions lie on rays from a safe one: phi = (1 - level) phi(x, a0) + level phi_j(x).

    Factors that pay more cost more; tau = 0.5, and half of the rays end in an unsafe action.
    """
    rng = np.random.default_rng(seed)
    cost = np.linspace(0.1, 0.9, d)
    pay = np.clip(cost + rng.uniform(-0.1, 0.1, d), 0, 1)
    safe = rng.dirichlet(np.linspace(4, 0.2, d), size=states)
    ends = rng.dirichlet(np.full(d, 0.5), size=(states, directions))
    rays = [(1 - level) * safe + level * ends[:, j] for j in range(directions) for level in LEVELS]
    phi = np.stack([safe, *rays], 1)
    mu = rng.dirichlet(np.ones(states), size=d)
    known = Known(threshold=0.5, safe_action=np.zeros(states, int)) if known is None else known
    noise = Noise(reward_sigma=0.01, cost_sigma=0.01)
    return FiniteCMDP(Factored(phi, mu), phi @ pay, phi @ cost - 0.5, horizon=horizon, noise=noise, known=known)


def literal(phi, safe, c0, seen, costs, lam):
    """Mean cost, its norm, and the matrices A^+ of every state, as printed: one regression per state, by pinv."""
    S, A, d = phi.shape
    mean, norm, plus = np.zeros((S, A)), np.zeros((S, A)), np.zeros((S, d, d))
    for x in range(S):
        phi0 = phi[x, safe[x]]
        length = np.linalg.norm(phi0)
        p = phi0 / length
        across = np.eye(d) - np.outer(p, p)
        matrix, target = lam * across, np.zeros(d)
        for row, c in zip(seen, costs, strict=True):
            matrix = matrix + np.outer(across @ row, across @ row)
            target = target + across @ row * (c - row @ p / length * c0[x])
        plus[x] = np.linalg.pinv(matrix, hermitian=True)
        gamma = plus[x] @ target
        for a in range(A):
            rest = across @ phi[x, a]
            mean[x, a] = phi[x, a] @ p / length * c0[x] + gamma @ rest
            norm[x, a] = np.sqrt(max(rest @ plus[x] @ rest, 0))
    return mean, norm, plus


def known_action(g, safe, threshold) -> KnownSafeAction:
    """The prior knowledge of g (T, m, S, A), as a cost model receives it."""
    S, A = g.shape[2:]
    one_hot = np.eye(A, dtype=bool)[safe].T
    return KnownSafeAction(jnp.asarray(one_hot), jnp.asarray(g[:, :, np.arange(S), safe]), jnp.asarray(threshold))


def journey(rng, S, A, m, episodes=6, H=4):
    index = lambda high: jnp.asarray(rng.integers(0, high, H), jnp.int32)
    zeros = jnp.zeros(H, jnp.int32)
    row = lambda: Episode(index(S), index(A), zeros, zeros, jnp.zeros(H), jnp.asarray(rng.uniform(-1, 1, (H, m))))
    return [row() for _ in range(episodes)]


@pytest.mark.quick
@pytest.mark.parametrize("steps", [1, 4], ids=["shared", "step-indexed"])
def test_one_gram_matrix_gives_what_a_regression_for_each_state_gives(steps):
    rng = np.random.default_rng(0)
    S, A, d, m, lam = 3, 4, 5, 2, 0.7
    phi, safe, threshold = rng.normal(size=(S, A, d)), rng.integers(0, A, S), np.array([0.5, -0.2])
    g = rng.uniform(-1, 1, (steps, m, S, A))
    known = known_action(g, safe, threshold)
    ridge = LinearCosts(Tuned(1.5), lam, jnp.asarray(phi.swapaxes(0, 1)), OnDemand())
    model = ProjectedCosts(ridge, known, jnp.asarray(phi[np.arange(S), safe]))
    state = model.init(Sizes(S, A, 1, 4, m), steps)
    episodes = journey(rng, S, A, m)
    update = jax.jit(lambda state, episode: model.update(state, episode))
    for each in episodes:
        state = update(state, each)
    estimate = model.estimate(state, jnp.int32(7))
    theta = rng.dirichlet(np.ones(A))
    for t in range(steps):
        own = [h for h in range(4) if steps == 1 or h == t]
        rows = [phi[int(e.x[h]), int(e.a[h])] for e in episodes for h in own]
        for i in range(m):
            costs = [float(e.cost[h, i]) + threshold[i] for e in episodes for h in own]
            c0 = g[t, i, np.arange(S), safe] + threshold[i]
            mean, norm, plus = literal(phi, safe, c0, rows, costs, lam)
            np.testing.assert_allclose(estimate.mean[t, i].T, mean - threshold[i], rtol=0, atol=1e-9)
            np.testing.assert_allclose(estimate.width[t, 0].T, 1.5 * norm, rtol=0, atol=1e-9)
            for x in range(S):
                mixed = theta @ phi[x]
                width = np.linalg.norm(np.asarray(estimate.U)[t, :, :, x] @ theta)
                np.testing.assert_allclose(width, 1.5 * np.sqrt(mixed @ plus[x] @ mixed), rtol=0, atol=1e-9)
    at_safe = np.asarray(known.safe)
    assert (np.asarray(estimate.width)[:, 0][:, at_safe] == 0).all()
    exact = np.swapaxes(g, 2, 3)[:, :, at_safe]
    np.testing.assert_array_equal(np.asarray(estimate.mean)[:, :, at_safe], exact)


@pytest.mark.parametrize("steps", [1, 4], ids=["shared", "step-indexed"])
def test_one_hot_features_as_counts_and_as_vectors_give_the_same_estimates(steps):
    rng = np.random.default_rng(1)
    S, A, m, lam = 3, 4, 2, 0.3
    phi = np.eye(S * A).reshape(S, A, S * A)
    safe = rng.integers(0, A, S)
    known = known_action(rng.uniform(-1, 0, (1, m, S, A)), safe, np.array([0.4, 0.1]))
    dense = LinearCosts(Tuned(0.8), lam, jnp.asarray(phi.swapaxes(0, 1)), OnDemand())
    models = (
        ProjectedCosts(dense, known, jnp.asarray(phi[np.arange(S), safe])),
        ProjectedCounts(CountCosts(Tuned(0.8), lam), known),
    )
    estimates = []
    for model in models:
        state = model.init(Sizes(S, A, 1, 4, m), steps)
        update = jax.jit(model.update)
        for each in journey(np.random.default_rng(2), S, A, m):
            state = update(state, each)
        estimates.append(model.estimate(state, jnp.int32(7)))
    vectors, counts = estimates
    np.testing.assert_allclose(vectors.mean, counts.mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(vectors.width, counts.width, rtol=0, atol=1e-12)
    theta = rng.dirichlet(np.ones(A), size=S).T
    across = np.linalg.norm((np.asarray(vectors.U) * theta).sum(2), axis=1)
    np.testing.assert_allclose(
        across, np.linalg.norm(np.asarray(counts.width)[:, 0] * theta, axis=1), rtol=0, atol=1e-12
    )


# --- runs ------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def bed():
    return star()


@pytest.fixture(scope="module")
def few():
    """The same with a single ray of actions, which compiles sooner."""
    return star(directions=1)


@pytest.fixture(scope="module")
def runs(few):
    both = [agents.Recipe(name, {"switch": 2}) for name in ("slucb-qvi", "rslucb-qvi")]
    return {each.name: es.run(few, each, episodes=2000, seeds=4) for each in both}


def share_of_gap(problem, curves):
    """How far the last 100 episodes of each seed came from a0's value to the safe optimum."""
    always = planner.evaluate(problem, np.zeros((problem.horizon, problem.states), int)).value
    return (curves["value"][:, -100:].mean(1) - always) / (planner.solve(problem).value - always)


def test_slucb_qvi_learns_and_no_action_it_takes_is_unsafe(bed):
    result = es.run(bed, agents.slucb_qvi(switch=1.2), episodes=10_000, seeds=8)
    curves = result.columns["slucb-qvi"]
    assert (curves["violation"] == 0).all()
    assert (curves["expected_violation"] == 0).all()
    assert (share_of_gap(bed, curves) > 0.5).all()
    assert "mixture_violation" not in curves
    certified = result.certified["slucb-qvi"]
    assert certified["p"] == 0.05
    assert certified["seeds_with_a_false_label"] == 0
    assert 5 < certified["safe_set"] < bed.actions


def test_rslucb_qvi_learns_and_is_safe_in_the_mean_over_its_draws_alone(few, runs):
    curves = runs["rslucb-qvi"].columns["rslucb-qvi"]
    assert curves["mixture_violation"].max() <= 1e-12
    assert (share_of_gap(few, curves) > 0.5).all()
    assert (curves["violation"].sum(1) > 0).all()  # single draws are another matter
    assert (curves["expected_violation"][:, -1] > 0).all()


@pytest.fixture(scope="module")
def pond():
    return from_map(("SFF", "FHF", "FFG"), horizon=6)


def test_with_one_hot_features_slucb_qvi_never_leaves_the_safe_action():
    problem = star(states=4)
    result = es.run(problem, agents.slucb_qvi(features="one-hot"), episodes=300, seeds=2)
    always = planner.evaluate(problem, np.zeros((problem.horizon, problem.states), int)).V[0]
    np.testing.assert_allclose(result.columns["slucb-qvi"]["value"], always[0], rtol=0, atol=1e-12)
    assert result.certified["slucb-qvi"]["safe_set"] == 1


def test_rslucb_qvi_leaves_the_safe_action_on_a_lake(pond):
    result = es.run(pond, agents.rslucb_qvi(safe_action="safest"), episodes=300, seeds=2)
    curves = result.columns["rslucb-qvi"]
    assert curves["mixture_violation"].max() <= 1e-12
    always = planner.evaluate(pond, pond.g[0, 0].argmin(1)).value
    assert (curves["value"][:, -1] > always + 0.01).all()
    assert result.spec["agents"][0]["confidence"] == 0.05


@pytest.mark.parametrize("name", ["slucb-qvi", "rslucb-qvi"])
def test_stepping_and_rare_plans_record_the_same(name, few, runs):
    compiled = runs[name].columns[name]
    built = agents.Recipe(name, {"switch": 2}).resolve(few, 2000).build()
    carry = loop.start(built.agent, few.sizes, built.share_values, built.share_costs)
    world = jax.tree.map(jnp.asarray, few.world)
    stepped = [metrics for _, metrics, _ in loop.stepping(built.agent, world, few.sizes, carry, 3, 20)]
    columns = {"value": "value", "return": "earned", "mixture_violation": "mixture_violation"}
    for column in columns.keys() & compiled.keys():
        found = np.array([getattr(metrics, columns[column]) for metrics in stepped])
        np.testing.assert_allclose(found, compiled[column][3, :20], rtol=0, atol=1e-8)


# --- what they require ------------------------------------------------------------------------------------------
@pytest.mark.quick
@pytest.mark.parametrize("name", ["slucb-qvi", "rslucb-qvi"])
def test_what_is_missing_is_named_with_how_to_give_it(pond, name):
    with pytest.raises(es.EverystepError, match=r"requires a known safe action in every state.*safe_action=safest"):
        agents.Recipe(name).resolve(pond, 10)


def test_they_are_refused_on_environments_because_these_list_no_safe_actions():
    pytest.importorskip("gymnasium")
    with pytest.raises(es.EverystepError, match="requires a known safe action and its cost for every state"):
        es.train("CartPole-v1", agents.slucb_qvi(), constraint=lambda *step: -1.0, episodes=1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"safe_action": [0, 1]}, "give 8 actions from 0 to 15"),
        ({"safe_action": np.full(8, 15)}, "it must have g < 0"),
        ({"threshold": [0.1, 0.2]}, "2 numbers for 1 constraints"),
        ({"radius_cost": "coordinate"}, "choose paper .valid. or tuned"),
        ({"safe_action": "safe"}, "choose auto or safest"),
        ({"kappa": -1}, "at least 0, or auto"),
    ],
)
def test_a_setting_that_does_not_fit_is_refused(bed, settings, message):
    with pytest.raises(es.EverystepError, match=message):
        agents.slucb_qvi(**settings).resolve(bed, 10)


def test_intervals_carry_no_probability_when_costs_are_not_linear_or_exceed_their_bound(bed):
    wrong = agents.slucb_qvi(threshold=0, features=bed.features[..., :4]).resolve(bed, 10)
    assert wrong.confidence is None
    assert "not linear in the features" in wrong.remarks[0]
    narrow = agents.slucb_qvi(bound=0.1).resolve(bed, 10)
    assert narrow.confidence is None
    assert "above the bound 0.1" in narrow.remarks[0]
    assert agents.slucb_qvi(radius_cost="tuned").resolve(bed, 10).confidence is None
    assert agents.slucb_qvi().resolve(bed, 10).confidence == 0.05


def test_an_upper_end_of_exactly_zero_is_safe_and_every_constraint_counts():
    Q, upper = jnp.array([1.0, 2.0, 3.0, 4.0]), jnp.array([[-0.5, 0.0, -0.5, 0.1], [-0.5, 0.0, 0.1, 0.1]])
    scores, chosen = jax.jit(lambda Q, upper: (admitted(Q, upper), SafeSet()(Q, upper, jnp.ones(2), jnp.uint32(0))))(
        Q, upper
    )
    np.testing.assert_array_equal(scores, [1.0, 2.0, -np.inf, -np.inf])
    assert chosen.tolist() == [False, True, False, False]


def test_kappa_is_as_printed_or_a_number(bed):
    printed = agents.slucb_qvi().resolve(bed, 10).value.factor
    room = -bed.g[0, 0, :, 0]
    np.testing.assert_allclose(printed[0, 0], 2 * 3 / room + 1)
    assert agents.slucb_qvi(kappa=1).resolve(bed, 10).value.factor is None
    assert (agents.slucb_qvi(kappa=2).resolve(bed, 10).value.factor == 2).all()


# --- prior knowledge of a problem ------------------------------------------------------------------------------------
def test_prior_knowledge_is_saved_read_back_and_part_of_the_identity_of_a_run(bed, tmp_path):
    save_problem(bed, tmp_path / "star.npz")
    again = es.problems.load(str(tmp_path / "star.npz"))
    np.testing.assert_array_equal(again.known.threshold, [0.5])
    np.testing.assert_array_equal(again.known.safe_action, bed.known.safe_action)
    assert again.known.triples is None
    assert digest(again) == digest(bed)
    others = [Known(), Known(0.4, np.zeros(8, int)), Known(0.5), Known(0.5, np.ones(8, int))]
    assert len({digest(bed), *(digest(star(known=known)) for known in others)}) == 5


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (Known(safe_action=[0, 1]), "give 8 actions from 0 to 15"),
        (Known(safe_action=np.full(8, 15)), "give an action with g < 0"),
        (Known(threshold=[0.1, 0.2]), "give a finite number"),
        (Known(safe_action=[0, 0, 0, 0, 0, 0, 0, 16]), "safe_action holds 16; give 8 actions from 0 to 15"),
        (Known(triples=np.zeros((8, 16, 8, 0))), "a vector for every state, action and next state"),
        ({"safe_action": 0}, "known is {'safe_action': 0}; give es.Known"),
        (Known(triples=np.zeros((8, 16, 2))), "a vector for every state, action and next state"),
    ],
)
def test_prior_knowledge_must_fit_the_problem(known, message):
    with pytest.raises(es.EverystepError, match=message):
        star(known=known)
