"""The proofs of docs/look-ahead.md, step by step, on problems with dead ends, noise and random transitions."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import everystep as es
from everystep.lsvi import loop
from everystep.mdp import certificates
from everystep.mdp.cmdp import FiniteCMDP, Noise

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "studies"))
from ahead_probe import SLACK, AheadProbe, Margins

sys.path.pop(0)

SEEDS, EPISODES, P_FAIL, HORIZON = 20, 200, 0.2, 3


def with_dead_ends(seed: int, sigma: float = 0.1) -> FiniteCMDP:
    """States 0 to 2 are viable by action 0 alone; 3 leads to 4 whatever is done, and in 4 every action is unsafe.

    Actions 1 and 2 pay more, and may be unsafe at once or lead to 3 or 4, with or without chance.
    """
    rng = np.random.default_rng(seed)
    S, A = 5, 3
    P = np.zeros((S, A, S))
    for x in range(3):
        P[x, 0, rng.permutation(3)[:2]] = rng.dirichlet(np.ones(2))
        P[x, 1, [rng.integers(3), 3, 4]] = rng.dirichlet((2, 1, 2))
        P[x, 2, rng.integers(3, 5)] = 1
    P[3, :, 4] = 1
    P[4, :, [0, 4]] = rng.dirichlet((1, 3), A).T
    r = rng.uniform(0, 0.5, (S, A)) + 0.5 * (np.arange(A) > 0)
    g = -rng.uniform(0.3, 1, (S, A))
    g[1, 1], g[2, 2] = rng.uniform(0.1, 0.9, 2)
    g[4] = rng.uniform(0.6, 0.9, A)
    return FiniteCMDP(P, r, g, horizon=HORIZON, noise=Noise(cost_sigma=sigma))


@jax.jit
def _run(job, carries, seeds):
    return loop.scan_seeds(job, carries, seeds, np.int32(EPISODES), EPISODES, False)[1].probed


def measured(problem: FiniteCMDP, recipe, seeds: int = SEEDS) -> Margins:
    """The margins of every claim, (seeds, episodes) each."""
    with jax.enable_x64(True):
        resolved = recipe.resolve(problem, EPISODES)
        built = resolved.build()
        shares = (built.share_values, built.share_costs)
        probe = jax.tree.map(jnp.asarray, AheadProbe.of(problem, resolved["harm"] == "events", P_FAIL))
        job = loop.Job(built.agent, jax.tree.map(jnp.asarray, problem.world), problem.sizes, *shares, probe=probe)
        carries = loop.start_seeds(built.agent, problem.sizes, *shares, seeds)
        return jax.tree.map(np.asarray, _run(job, carries, jnp.arange(seeds, dtype=jnp.uint32)))


def share_held(margin: np.ndarray) -> float:
    """The share of runs in which a claim held in every episode."""
    return float((margin >= -SLACK).all(1).mean())


def agent(**settings):
    return es.agents.lsvi_ahead(**{"radius": "coordinate", "p": P_FAIL, "share_values": False} | settings)


# --- the identity -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("events", [False, True], ids=["mean", "events"])
def test_the_harm_of_any_policy_is_the_least_harm_plus_what_its_actions_add(events):
    """E sum_h c_h = C*_1(x_1) + E sum_h (G*_h - C*_h), for random policies, forward along their state distribution."""
    rng = np.random.default_rng(5)
    for seed in range(20):
        problem = with_dead_ends(seed)
        P, H, S, A = problem.dense_P[0], problem.horizon, problem.states, problem.actions
        c = certificates.violation_of_step(problem, events)[0].T
        G = certificates.led_to(problem, events).swapaxes(-1, -2)
        C = np.zeros((H + 1, S))
        for h in reversed(range(H)):  # by definition, state by state
            C[h] = [min(c[x, a] + P[x, a] @ C[h + 1] for a in range(A)) for x in range(S)]
        policy = rng.dirichlet(np.full(A, 0.3), (H, S))
        here, suffered, added = np.eye(S)[0], 0.0, 0.0
        for h in range(H):
            taken = here[:, None] * policy[h]
            suffered += (taken * c).sum()
            added += (taken * (G[h] - C[h][:, None])).sum()
            here = np.einsum("xa,xay->y", taken, P)
        assert abs(suffered - C[0, 0] - added) < 1e-9
        assert (C[:-1, :, None] - 1e-12 <= G).all()
        assert (G - C[:-1, :, None]).min(-1).max() < 1e-12  # Assumption 1: zero for some action in every state


# --- with the model known exactly: what the two modes do to V -------------------------------------------------------
def planned_exactly(problem: FiniteCMDP, Z: np.ndarray, of_plan: bool, tolerance: float = 0.0):
    """V and C (H + 1, S) of the choice by Q - Z [G - min G - tolerance]_+ with the true model, in plain loops."""
    P, r, H, S = problem.dense_P[0], problem.in_units.r[0], problem.horizon, problem.states
    c = np.maximum(problem.g[:, 0], 0).sum(0)
    V, C = np.zeros((2, H + 1, S))
    for h in reversed(range(H)):
        Q, G = r + P @ V[h + 1], c + P @ C[h + 1]
        score = Q - Z[h] * np.maximum(G - G.min(1, keepdims=True) - tolerance, 0)
        x, a = np.arange(S), score.argmax(1)
        V[h], C[h] = Q[x, a], G[x, a] if of_plan else G.min(1)
    return V[:H], C[:H]


@pytest.mark.quick
def test_with_least_values_are_never_below_the_optimum_at_viable_states():
    rng = np.random.default_rng(6)
    below_elsewhere = 0
    for seed in range(100):
        problem = with_dead_ends(seed)
        truth = AheadProbe.of(problem)
        V, C = planned_exactly(problem, rng.uniform(0.1, 20, HORIZON), of_plan=False)
        np.testing.assert_allclose(C, truth.C, atol=1e-12)
        assert (V >= truth.V - 1e-12)[truth.C == 0].all()
        below_elsewhere += (V < truth.V - 1e-9).any()
    assert below_elsewhere == 0  # with exact estimates the least harm is priced at 0 elsewhere too


def test_with_plan_and_equal_prices_values_exceed_the_optimum_by_the_priced_harm():
    """V_h - Z C_h >= V*_h at viable states: with one price for all steps the plan maximises return - Z harm."""
    rng = np.random.default_rng(7)
    harmful = 0
    for seed in range(100):
        problem = with_dead_ends(seed)
        truth, price = AheadProbe.of(problem), rng.uniform(0.1, 3)
        V, C = planned_exactly(problem, np.full(HORIZON, price), of_plan=True)
        assert (V - price * C >= truth.V - 1e-9)[truth.C == 0].all()
        harmful += (C > truth.C + 1e-9).any()
    assert harmful > 20  # C exceeds C* often


def test_with_plan_and_unequal_prices_the_loss_is_bounded_and_real():
    """V_h >= V*_h - sum_{j >= h} (Z_j - Z_{j+1})_+ max C_{j+1}, and V may be below V* where Z falls with h."""
    rng = np.random.default_rng(8)
    for seed in range(100):
        problem = with_dead_ends(seed)
        truth, Z = AheadProbe.of(problem), np.sort(rng.uniform(0.1, 10, HORIZON))[::-1]
        V, C = planned_exactly(problem, Z, of_plan=True)
        viable = truth.C == 0
        most = np.array([C[h][viable[h]].max() for h in range(HORIZON)])
        permitted = np.cumsum((HORIZON / Z)[::-1])[::-1]
        assert (most <= permitted + 1e-9).all()
        eta = np.append(np.cumsum((np.maximum(-np.diff(Z), 0) * most[1:])[::-1])[::-1], 0)
        assert (truth.V - eta[:, None] - 1e-9 <= V)[viable].all()
    # In state 0 an agent waits or goes on to state 1, where it chooses between 0.5 in safety and 1 with a harm of 0.1.
    P = np.array([[[1, 0], [0, 1]], [[0, 1], [0, 1]]], float)
    problem = FiniteCMDP(P, np.array([[0.225, 0], [0.5, 1]]), np.array([[-1, -1], [-1, 0.1]]), horizon=2)
    V, _ = planned_exactly(problem, np.array([6.0, 2.0]), of_plan=True)
    assert (V[0, 0], AheadProbe.of(problem).V[0, 0]) == (0.45, 0.5)
    V, _ = planned_exactly(problem, np.array([6.0, 6.0]), of_plan=True)
    assert V[0, 0] == 0.5


def test_prices_of_different_steps_differ_by_at_most_one_while_harm_per_step_is_at_most_one():
    from everystep.lsvi.penalties import Floor, Rectified

    penalty, rng = Rectified(Floor(1.0, 1.0)), np.random.default_rng(9)
    with jax.enable_x64(True):
        Z = penalty.init(1, 6)
        for k in range(1, 60):
            assert np.asarray(Z).min() >= max(1, k - 1)
            assert np.asarray(Z).max() <= k
            Z = penalty.update(Z, jnp.asarray(rng.uniform(-1, 1, (1, 6)) ** 3), jnp.asarray(k))


# --- learning, with valid radii --------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def valid() -> Margins:
    return measured(with_dead_ends(1), agent())


@pytest.mark.parametrize("claim", ["led_to", "harm_to_go", "value", "error", "certified_low", "certified_up"])
def test_a_claim_holds_in_all_episodes_as_often_as_stated(valid, claim):
    """Costs, V*, C* and the uniform bound each spend p: any claim fails in at most a share 2 p of runs."""
    assert share_held(getattr(valid, claim)) >= 1 - 2 * P_FAIL


def test_the_harm_of_every_episode_is_within_its_four_terms(valid):
    assert (valid.choice >= -SLACK).all()  # algebra, whatever the estimates are
    assert (valid.harm <= valid.least + valid.errors + valid.permitted + valid.drift + SLACK).all()
    assert valid.unsafe_ahead[:, -1].min() > 5  # and the bounds are not empty: labels appear


def test_much_smaller_radii_fail():
    tiny = {"beta": 0.05, "beta_cost": 1e-6, "beta_harm": 1e-6, "lam": 1e-3, "lam_cost": 1e-3}
    careless = measured(with_dead_ends(1), agent(**tiny))
    for claim in ("led_to", "harm_to_go", "value", "certified_low"):
        assert share_held(getattr(careless, claim)) < 1 - 2 * P_FAIL, claim


def test_labels_ahead_are_valid_whatever_widths_the_agent_plans_with():
    """They use the cost intervals, which are valid here, and counts, but neither `beta` nor `beta_harm`."""
    bold = measured(with_dead_ends(1), agent(beta=0.05, beta_harm=1e-6, lam=1e-3))
    for claim in ("certified_low", "certified_up"):
        assert share_held(getattr(bold, claim)) >= 1 - 2 * P_FAIL, claim
    assert share_held(bold.value) < 1 - 2 * P_FAIL


@pytest.mark.parametrize("settings", [{"mode": "plan"}, {"tolerance": 0.2}, {"harm": "events"}], ids=str)
def test_the_claims_hold_in_the_other_modes(settings):
    run = measured(with_dead_ends(1), agent(**settings))
    for claim in ("error", "certified_low", "certified_up", *(() if "mode" in settings else ("led_to", "harm_to_go"))):
        assert share_held(getattr(run, claim)) >= 1 - 2 * P_FAIL, claim
    assert (run.harm <= run.least + run.errors + run.permitted + run.drift + SLACK).all()
