"""The quantities of the proofs in a run: against the plain transcription, its folder, and `everystep theory`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import cases
from oracles import lsvi as oracle

import everystep as es
from everystep.experiments import experiment
from everystep.lsvi.costs.counts import CountCosts
from everystep.lsvi.costs.gp import GridGP
from everystep.lsvi.episode import Episode
from everystep.lsvi.radii import Tuned
from everystep.mdp.cmdp import FiniteCMDP, Noise
from everystep.mdp.world import Sizes
from everystep.reports.theory import diagnosis

WATCHED = [
    "noise",  # linear costs, two constraints, shared
    "every step its own",  # counts, one estimator a step, costs that depend on it
    "noise, two processes for each step as printed",  # a model for each constraint
]


def best_values(where):
    """Q* (H, S, A) with safe actions afterwards, by loops; and V*_1 (S,); rewards in [0, 1]."""
    p, (low, span) = cases.problem(where), cases.reward_range(where)
    H, S, A = p.horizon, p.states, p.actions
    P, r, g = cases.by_step(p.dense_P, H), (cases.by_step(p.r, H) - low) / span, cases.by_step(p.g, H, axis=1)
    Q, V = np.zeros((H, S, A)), np.zeros(S)
    for h in reversed(range(H)):
        now = np.full(S, -np.inf)
        for x in range(S):
            for a in range(A):
                Q[h, x, a] = r[h, x, a] + P[h, x, a] @ V
                if (g[:, h, x, a] <= 0).all() or p.exempt[x]:
                    now[x] = max(now[x], Q[h, x, a])
        V = now
    return Q, V


def norms_of(phi, lam, pairs):
    Lambda = lam * np.eye(phi.shape[-1])
    for x, a in pairs:
        Lambda = Lambda + np.outer(phi[x, a], phi[x, a])
    return oracle.norms(Lambda, phi), np.linalg.slogdet(Lambda / lam)[1] / 2


def measured_by_hand(case):
    """What the probe should record, from the oracle's walk and estimates, each conditioned from scratch per episode."""
    where, _, _, settings = cases.CASES[case]
    p, want = cases.problem(where), cases.expected(case)
    values = cases.recipe(case).resolve(p, cases.EPISODES)
    H, S, A, m = p.horizon, p.states, p.actions, p.constraints
    models = cases.cost_models(case)
    g = cases.by_step(p.g, H, axis=1)
    Q_star, V_star = best_values(where)
    beta, lam = np.broadcast_to(values["beta_cost"], m), np.broadcast_to(values["lam_cost"], m)
    if settings.get("radius_cost") == "paper":
        lam = np.full(m, 1 + 2 / (cases.EPISODES * (H if values["share_costs"] else 1)))
    phi = settings.get("features", np.eye(S * A).reshape(S, A, S * A))
    counted = ~p.exempt
    rows = []
    for k in range(cases.EPISODES):
        seen = dict.fromkeys(("condition",), np.inf) | {"error": 0.0, "value_potential": 0.0}
        for h in range(H):
            before = lambda shared, end, h=h: [
                (int(want["state"][t, i]), int(want["action"][t, i]), want["cost"][t, i])
                for t in range(end)
                for i in range(H)
                if shared or i == h
            ]
            x, a = int(want["state"][k, h]), int(want["action"][k, h])
            own = before(values["share_values"], k)
            norm, _ = norms_of(phi, values["lam"], [row[:2] for row in own])
            seen["value_potential"] += min(1, norm[x, a] ** 2)
            own = before(values["share_costs"], k)
            for i in range(m):
                costs = np.array([row[2][i] for row in own])
                pairs = [row[:2] for row in own]
                if models[i].ndim == 3:
                    mean, sd = oracle.ridge(models[i], lam[i], pairs, costs)
                    radius = beta[i]
                else:
                    points = [x * A + a for x, a in pairs]
                    mean, sd, gain = oracle.gaussian_process(models[i], lam[i], points, costs)
                    mean, sd, radius = mean.reshape(S, A), sd.reshape(S, A), beta[i]
                    if settings.get("radius_cost") == "paper":
                        estimators = m if values["share_costs"] else m * H
                        noise = settings.get("sigma")
                        radius *= 1 + noise * np.sqrt(2 * (gain + 1 + np.log(2 * estimators / 0.05)))
                seen["error"] += 2 * radius * sd[x, a]
                margin = radius * sd - np.abs(g[i, h] - mean)
                seen["condition"] = min(seen["condition"], margin[counted].min())
        seen["optimism"] = (want["Q"][k] - Q_star)[:, counted].min()
        seen["optimism_at_start"] = want["V1"][k] - V_star[want["state"][k, 0]]
        rows.append(seen)
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


@pytest.mark.parametrize("case", WATCHED)
def test_the_probe_records_what_the_plain_transcription_computes(case):
    p = cases.problem(cases.CASES[case][0])
    prepared = experiment.prepare(p, [cases.recipe(case)], cases.EPISODES, cases.SEEDS)
    (diagnosed,) = diagnosis.diagnose(prepared).values()
    for name, expected in measured_by_hand(case).items():
        np.testing.assert_allclose(getattr(diagnosed.measured, name)[1], expected, rtol=1e-7, atol=1e-7, err_msg=name)
    assert diagnosed.has_costs == (cases.CASES[case][1] != "lsvi")


def test_gains_and_norms_of_counts_are_those_of_a_process_with_independent_points():
    S, A, H, lam = 4, 3, 5, jnp.asarray(0.7)
    sizes = Sizes(states=S, actions=A, successors=S, horizon=H, constraints=1)
    counts = CountCosts(Tuned(jnp.ones(())), lam)
    process = GridGP(Tuned(jnp.ones(())), lam, jnp.eye(S * A), jnp.arange(S * A, dtype=jnp.int32).reshape(A, S))
    states = [counts.init(sizes, 1), process.init(sizes, 1)]
    update = jax.jit(lambda states, episode: [counts.update(states[0], episode), process.update(states[1], episode)])
    rng = np.random.default_rng(1)
    for _ in range(6):
        x, a = (jnp.asarray(rng.integers(n, size=H), jnp.int32) for n in (S, A))
        episode = Episode(x, a, x, x, jnp.zeros(H), jnp.asarray(rng.normal(size=(H, 1))))
        states = update(states, episode)
    of_counts, of_process = states
    np.testing.assert_allclose(counts.squared_norms(of_counts), process.squared_norms(of_process), rtol=1e-9)
    np.testing.assert_allclose(counts.information_gain(of_counts), process.information_gain(of_process), rtol=1e-9)


@pytest.mark.quick
def test_printed_radii_keep_condition_1_and_optimism_and_a_fraction_of_them_does_not():
    """Narrow intervals must fail: this can."""
    rng = np.random.default_rng(4)
    P, r = rng.dirichlet(np.ones(3), (3, 2)), rng.random((3, 2))
    g = np.stack([-rng.random(3), rng.uniform(-1, 1, 3)], 1)
    p = FiniteCMDP(P, r, g, horizon=3, noise=Noise(cost_sigma=0.5))
    own = {"share_values": False, "share_costs": False}
    narrow = {"beta": 0.002, "beta_cost": 0.02}
    agents = [es.agents.lsvi_ae(radius="paper", **own), es.agents.lsvi_ae(radius="paper", **own, **narrow)]
    printed, narrow = diagnosis.diagnose(experiment.prepare(p, agents, 60, 6)).values()
    assert printed.condition_held.all()
    assert printed.optimism_held.all()
    assert printed.optimism_held_at_start.all()
    assert not narrow.condition_held.all(1).any()
    assert not narrow.optimism_held.all(1).any()
