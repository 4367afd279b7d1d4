"""Rare switching: plans only when enough was learnt, the same policy in between, and inverses that stay exact."""

import math
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stepping

import everystep as es
from everystep import agents, problems
from everystep.errors import EverystepError
from everystep.experiments import tables
from everystep.experiments.engines import local
from everystep.lsvi import loop
from everystep.lsvi.episode import Episode
from everystep.lsvi.radii import Tuned
from everystep.lsvi.regression import linalg
from everystep.lsvi.values.counts import Counts
from everystep.lsvi.values.linear import Linear
from everystep.mdp.world import Sizes

K = 40


@pytest.fixture(scope="module")
def pond():
    return problems.from_map(("SFF", "FHF", "FFG"), horizon=6)


@pytest.fixture(scope="module")
def dense():
    return problems.linear(states=12, actions=3, d=4, horizon=3)


class Stepped(NamedTuple):
    """A run of the Python driver: the carry and the metrics of every episode."""

    problem: object
    recipe: object
    agent: object
    episodes: list


@pytest.fixture(scope="module", params=["pond", "dense"])
def rarely(request):
    """Seed 5 of an agent that plans rarely: with estimators for each step on one problem, shared ones on the other."""
    problem, recipe = (
        request.getfixturevalue(request.param),
        agents.lsvi_ae(switch=3.0, share_values=request.param != "pond"),
    )
    with jax.enable_x64(True):
        built = recipe.resolve(problem, K).build()
        carry = loop.start(built.agent, problem.sizes, built.share_values, built.share_costs)
        world = jax.tree.map(jnp.asarray, problem.world)
        episodes = [each[:2] for each in stepping.episodes(built.agent, world, problem.sizes, carry, 5, K)]
    return Stepped(problem, recipe, built.agent, episodes)


# --- how much was learnt ---------------------------------------------------------------------------------------------
@pytest.mark.quick
@pytest.mark.parametrize("steps", [1, 3], ids=["shared", "for each step"])
def test_log_det_is_that_of_the_gram_matrix_and_counts_agree_with_one_hot_features(steps):
    S, A, H, lam = 4, 2, 3, 0.3
    rng = np.random.default_rng(0)
    sizes = Sizes(S, A, S, H, 1)
    one_hot = jnp.asarray(np.eye(A * S).reshape(A, S, A * S))
    counts = Counts(Tuned(1.0), lam, 9.0, None)
    linear = Linear(Tuned(1.0), lam, 9.0, one_hot)
    states, Lambda = [counts.init(sizes, steps), linear.init(sizes, steps)], np.stack([lam * np.eye(A * S)] * steps)
    update = jax.jit(lambda states, episode: [counts.update(states[0], episode), linear.update(states[1], episode)])
    for _ in range(5):
        x, a = (jnp.asarray(rng.integers(n, size=H), jnp.int32) for n in (S, A))
        episode = Episode(x, a, x, x, jnp.ones(H), jnp.zeros((H, 1)))
        states = update(states, episode)
        for h in range(H):
            phi = np.asarray(one_hot)[a[h], x[h]]
            Lambda[h % steps] += np.outer(phi, phi)
    want = np.linalg.slogdet(Lambda / lam)[1]
    np.testing.assert_allclose(counts.log_det(states[0]), want, rtol=0, atol=1e-12)
    np.testing.assert_allclose(linear.log_det(states[1]), want, rtol=0, atol=1e-12)


def test_norms_on_demand_are_the_norms_that_are_watched():
    rng = np.random.default_rng(1)
    phi = jnp.asarray(rng.dirichlet(np.ones(5), (2, 6)))
    watched, on_demand = linalg.fresh(phi, 0.01), linalg.fresh(phi, 0.01, linalg.OnDemand())
    add = jax.jit(lambda grams, X: [linalg.add(gram, phi, X) for gram in grams])
    for _ in range(10):
        X = phi[0, rng.integers(6, size=3)]
        watched, on_demand = add((watched, on_demand), X)
    assert on_demand.norm2 is None
    computed = linalg.squared_norms(on_demand, phi)
    np.testing.assert_allclose(computed, linalg.squared_norms(watched, phi), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(on_demand.inverse, watched.inverse)


# --- when plans are made ---------------------------------------------------------------------------------------------
def test_a_plan_is_made_exactly_when_some_determinant_has_grown_by_the_factor(rarely):
    agent, episodes = rarely.agent, rarely.episodes
    at_plan = np.full(agent.values.log_det(episodes[0][0].agent.values).shape, -np.inf)
    now, planned = np.zeros_like(at_plan), []
    for carry, metrics in episodes:
        due = bool((now >= at_plan + math.log(3)).any())
        assert bool(metrics.planned) == due
        at_plan = now if due else at_plan
        now = np.asarray(agent.values.log_det(carry.agent.values))
        planned.append(due)
    assert planned[0]
    assert 1 < sum(planned) < K
    assert sum(planned) <= 1 + now.sum() / math.log(3)


def test_between_plans_the_policy_its_value_and_its_violation_stay(rarely):
    for (before, _), (carry, metrics) in pairwise(rarely.episodes):
        if not metrics.planned:
            jax.tree.map(np.testing.assert_array_equal, before.planned, carry.planned)
    assert not all(metrics.planned for _, metrics in rarely.episodes)


def test_both_drivers_plan_in_the_same_episodes_and_play_them_alike(rarely):
    (compiled,) = es.run(rarely.problem, rarely.recipe, K, seeds=[5, 6, 7]).columns.values()
    column = lambda field: np.array([getattr(metrics, field) for _, metrics in rarely.episodes])
    np.testing.assert_array_equal(column("planned"), compiled["planned"][0])
    np.testing.assert_allclose(column("value"), compiled["value"][0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(column("earned"), compiled["return"][0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("which", ["pond", "dense"])
def test_a_factor_barely_above_one_plans_in_every_episode_and_changes_nothing(which, request):
    always, barely = agents.lsvi_ae().called("always"), agents.lsvi_ae(switch=1 + 1e-12).called("barely")
    curves = es.run(request.getfixturevalue(which), [always, barely], K, seeds=3).columns
    assert curves["barely"].pop("planned").all()
    assert "planned" not in curves["always"]
    for column, rows in curves["always"].items():
        np.testing.assert_allclose(curves["barely"][column], rows, rtol=0, atol=1e-9)


def test_rare_plans_side_by_side_as_on_a_gpu_equal_rare_plans_one_after_another(dense):
    pair = local.AgentOnProblem(dense, agents.lsvi_ae(switch=2).resolve(dense, K).build())
    job, carries, seeds = pair.job(), pair.start_seeds(2), np.arange(2, dtype=np.uint32)
    runs = [loop.scan_seeds(job, carries, seeds, np.int32(K), loop.CHUNK, together)[1] for together in (False, True)]
    assert not np.array_equal(runs[0].planned[0], runs[0].planned[1])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-9), *runs)


def test_an_agent_that_reacts_may_plan_rarely(dense):
    curves = es.run(dense, agents.lsvi_ae(switch=2, react=True), K, seeds=1).columns["lsvi-ae"]
    assert 0 < curves["planned"].sum() < K
    assert np.isfinite(curves["value"]).all()


# --- settings and summaries ------------------------------------------------------------------------------------------
def test_the_summary_reports_the_number_of_plans_with_its_order_in_theory(pond):
    shared, literal = agents.lsvi_ae(switch=2), agents.lsvi_ae(switch=2, share_values=False).called("literal")
    result = es.run(pond, [shared, literal], K, seeds=3)
    label = result.spec["agents"][0]["label"]
    plans = {name: numbers.get("plans") for name, numbers in result.summary["agents"].items()}
    assert plans[label]["mean"] == result.columns[label]["planned"].sum(-1).mean()
    assert plans[label]["scale"] == pytest.approx(9 * 4 * math.log(1 + K))
    assert plans["literal"]["scale"] == pytest.approx(9 * 4 * 6 * math.log(1 + K))
    assert "plans; d log(1 + K) = " in tables.summary(result.summary)
    assert "literal made" in tables.summary(result.summary)


@pytest.mark.parametrize(
    ("given", "read"), [("none", "none"), (None, "none"), (False, "none"), ("true", 2.0), (True, 2.0), ("1.5", 1.5)]
)
def test_switching_is_set_by_a_word_or_a_factor(given, read):
    assert agents.lsvi_ae(switch=given).settings["switch"] == read


@pytest.mark.parametrize("given", [1, 0.5, "often", math.nan])
def test_an_invalid_factor_is_refused(given):
    with pytest.raises(EverystepError, match=r"none, true .* above 1"):
        agents.lsvi_ae(switch=given)


# --- inverses stay exact ---------------------------------------------------------------------------------------------
def exact_inverse(pool, visits, lam):
    """(lam I + sum n phi phi^T)^-1 in fractions, by Gauss and Jordan."""
    d = pool.shape[1]
    F = [[Fraction(number) for number in row] for row in pool.tolist()]
    rows = [
        [sum((n * f[i] * f[j] for n, f in zip(visits, F, strict=True)), Fraction(lam) * (i == j)) for j in range(d)]
        + [Fraction(i == j) for j in range(d)]
        for i in range(d)
    ]
    for i in range(d):
        rows[i] = [number / rows[i][i] for number in rows[i]]
        for other in (j for j in range(d) if j != i):
            rows[other] = [a - rows[other][i] * b for a, b in zip(rows[other], rows[i], strict=True)]
    return np.array([[float(number) for number in row[d:]] for row in rows])


@pytest.mark.parametrize("rank", [2, 6])
def test_a_running_inverse_stays_as_exact_as_a_fresh_one_even_where_features_span_few_directions(rank):
    rng = np.random.default_rng(3)
    pool = rng.dirichlet(np.ones(6), 12) if rank == 6 else rng.dirichlet(np.ones(2), 12) @ rng.dirichlet(np.ones(6), 2)
    x = rng.integers(12, size=(20_000, 5)).astype(np.int32)
    phi = jnp.asarray(pool)[None]
    add = lambda gram, x: (linalg.add(gram, phi, phi[0][x]), None)
    gram, _ = jax.lax.scan(add, linalg.fresh(phi, 0.01, linalg.OnDemand()), jnp.asarray(x))
    exact = exact_inverse(pool, np.bincount(x.reshape(-1), minlength=12).tolist(), 0.01)
    assert np.linalg.norm(gram.inverse - exact) < 1e-10 * np.linalg.norm(exact)
