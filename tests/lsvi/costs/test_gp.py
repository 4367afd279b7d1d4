"""Gaussian-process cost models inside agents: valid intervals, equivalent models, reacting."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stepping
from problems_for_tests.ponds import featured

import everystep as es
from everystep.errors import EverystepError
from everystep.lsvi import loop, radii
from everystep.lsvi.regression.kernel_points import Points
from everystep.mdp.cmdp import FiniteCMDP, Noise


@pytest.fixture(scope="module")
def pond():
    return es.problems.from_map(("SFF", "FHF", "FFG"), horizon=6)


@pytest.mark.quick
def test_the_printed_radius_is_worked_out_by_hand():
    """With gain 7 and ln(2 m H / p) = 10 the root is sqrt(2 * 18) = 6, so 2 (3 + 0.5 * 6) = 12 deviations of 0.5."""
    width = radii.PaperGP(2.0, 3.0, 0.5, 10.0).width(jnp.asarray(0.25), jnp.int32(4), jnp.asarray(7.0))
    assert width == pytest.approx(6)


def test_a_variance_that_rounding_made_negative_gives_an_interval_of_no_width(pond):
    costs = es.agents.lsvi_ae(cost="gp").resolve(pond, 10).build().agent.costs
    state = costs.init(pond.sizes, 1)
    below = state._replace(cov=-1e-17 * jnp.ones_like(state.cov))
    assert (costs.estimate(below, jnp.int32(1)).width == 0).all()


@pytest.mark.quick
@pytest.mark.parametrize(("share", "seen", "union"), [(True, 40 * 4, 2), (False, 40, 2 * 4)])
def test_an_agents_printed_radius_knows_its_observations_and_estimators(share, seen, union):
    problem = featured(m=2)
    built = es.agents.lsvi_ae(cost="gp(linear(on=features))", radius_cost="paper", share_costs=share, bound=2, p=0.1)
    agent = built.resolve(problem, 40).build().agent
    assert agent.costs.lam == pytest.approx(1 + 2 / seen)
    assert agent.costs.radius.log_union == pytest.approx(math.log(2 * union / 0.1))
    assert agent.costs.radius.bound == 2
    assert agent.costs.radius.sigma == pytest.approx(0.2)


def test_a_linear_kernel_is_ridge_regression():
    """sd = sqrt(lam) ||phi||, so widths agree when beta is divided by it."""
    problem, lam = featured(m=2), 0.3
    ridge = es.agents.lsvi_ae(cost="linear", lam_cost=lam, beta_cost=0.6)
    kernel = es.agents.lsvi_ae(cost="gp(linear(on=features))", lam_cost=lam, beta_cost=0.6 / math.sqrt(lam))
    result = es.run(problem, [ridge, kernel], episodes=30, seeds=2)
    one, other = result.columns.values()
    for column in one:
        np.testing.assert_allclose(one[column], other[column], rtol=0, atol=1e-8)


def test_a_kernel_that_distinguishes_all_actions_is_counting(pond):
    lam = 0.1
    counts = es.agents.lsvi_ae(lam_cost=lam, beta_cost=0.3)
    kernel = es.agents.lsvi_ae(
        cost="gp(categorical(on=state)*categorical(on=action))", lam_cost=lam, beta_cost=0.3 / math.sqrt(lam)
    )
    result = es.run(pond, [counts, kernel], episodes=40, seeds=2)
    one, other = result.columns.values()
    for column in one:
        np.testing.assert_allclose(one[column], other[column], rtol=0, atol=1e-8)


@pytest.mark.parametrize("share", [True, False])
def test_a_growing_set_of_points_gives_the_same_run_as_the_grid(pond, share):
    same = {"share_costs": share, "radius_cost": "paper", "lam_cost": 0.1}
    grid, growing = (es.agents.lsvi_ae(cost=f"gp(points={points})", **same) for points in ("grid", "growing"))
    result = es.run(pond, [grid, growing], episodes=60, seeds=2)
    one, other = result.columns.values()
    for column in one:
        np.testing.assert_allclose(one[column], other[column], rtol=0, atol=1e-8)
    lower = [result.certificates[f"{label}_lower"] for label in result.columns]
    np.testing.assert_allclose(*lower, rtol=0, atol=1e-8)


RUNS, EPISODES, P = 200, 40, 0.1


@pytest.mark.parametrize(
    ("share", "betas"), [(True, {1.0: True, 0.25: False}), (False, {1.0: True})], ids=["shared", "each step its own"]
)
def test_condition_1_holds_at_its_probability_for_costs_of_bounded_norm(share, betas):
    """0 <= g - ghat <= 2 beta sigma at all (k, h, x, a) in at least a share 1 - p of runs with noisy costs.

    g = sum_i alpha_i k(y_i, .) has norm sqrt(alpha^T K alpha) = B = 1, hence |g| <= 1. A quarter of the radius fails.
    """
    rng = np.random.default_rng(7)
    S, A, H, sigma = 5, 3, 3, 0.5
    where = rng.uniform(0, 3, (S, A, 2))
    P_, r = rng.dirichlet(np.ones(S), (S, A)), rng.random((S, A))
    problem = FiniteCMDP(P_, r, -np.ones((S, A)), horizon=H, coordinates={"y": where}, noise=Noise(cost_sigma=sigma))
    printed = {"cost": "gp(rbf(1, on=y))", "radius_cost": "paper", "share_costs": share, "p": P, "bound": 1}
    built = {
        beta: es.agents.lsvi_ae(**printed, beta_cost=beta).resolve(problem, EPISODES).build().agent for beta in betas
    }
    points = Points.of(problem, es.kernels.RBF(1.0, on="y"))
    alpha = rng.normal(size=(RUNS, len(points.gram)))
    alpha /= np.sqrt(np.einsum("ni,ij,nj->n", alpha, points.gram, alpha))[:, None]
    g = (alpha @ points.gram)[:, points.which]  # (runs, A, S)
    assert np.abs(g).max() <= 1 + 1e-12
    world = jax.tree.map(jnp.asarray, problem.in_units.world)

    def covered(agent, g, seed):
        own = world._replace(g=g[None, None])

        def episode(carry, k):
            lower, upper = loop.bounds(agent, carry.agent)
            good = ((lower <= own.g + 1e-12) & (own.g <= upper + 1e-12)).all()
            job = loop.Job(agent, own, problem.sizes)
            return loop.run_episode(job, carry, loop.draws(own, problem.sizes, seed, k))[0], good

        carry = loop.start(agent, problem.sizes, True, share)
        return jax.lax.scan(episode, carry, jnp.arange(1, EPISODES + 1, dtype=jnp.int32))[1].all()

    seeds = jnp.arange(RUNS, dtype=jnp.uint32)
    runs = jax.jit(lambda agent, g: jax.lax.map(lambda each: covered(agent, *each), (g, seeds)))
    for beta, holds in betas.items():
        assert (np.mean(runs(built[beta], jnp.asarray(g))) >= 1 - P) == holds


def test_a_reacting_agent_steps_as_it_scans(pond):
    recipe = es.agents.lsvi_ae(react=True)
    compiled = es.run(pond, recipe, episodes=25, seeds=[5]).columns["lsvi-ae"]
    built = recipe.resolve(pond, 25).build()
    carry = loop.start(built.agent, pond.sizes, built.share_values, built.share_costs)
    world = jax.tree.map(jnp.asarray, pond.world)
    stepped = [metrics for _, metrics, _ in stepping.episodes(built.agent, world, pond.sizes, carry, 5, 25)]
    np.testing.assert_allclose([float(each.earned) for each in stepped], compiled["return"][0], atol=1e-9)
    np.testing.assert_allclose([float(each.violation.sum()) for each in stepped], compiled["violation"][0], atol=1e-9)
    np.testing.assert_allclose([float(each.value) for each in stepped], compiled["value"][0], atol=1e-9)


def test_a_reacting_agent_meets_each_hazard_about_once(lake):
    """One observation of a hazard by its landing cell is enough for all actions that aim at it."""
    result = es.run(lake, es.agents.lsvi_ae(cost="gp", react=True), episodes=150, seeds=4)
    assert result.columns["lsvi-ae"]["violation"].sum(1).max() <= 11
    assert "tells lsvi-ae where each action aims" in result.summary["remarks"][0]


def test_linear_costs_without_features_are_refused(pond):
    with pytest.raises(EverystepError, match="has no features"):
        es.run(pond, es.agents.lsvi_ae(cost="linear"), episodes=1, seeds=1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cost": "gp(rbf(2))"}, "a kernel has no on="),
        ({"cost": "gp(rbf(2, on=speed))"}, "is on 'speed', which the problem does not have"),
        ({"cost": "gp(rbf(2, on=landing) + rbf(2, on=landing))"}, r"k\(y, y\) = 2; multiply it by 0.5"),
        ({"cost": "[gp, gp]"}, "2 models for 1 constraints"),
        (
            {"cost": "gp", "radius_cost": "coordinate"},
            "needs one-hot features for costs",
        ),
        ({"cost": "gp", "lam_cost": 0}, "lam_cost of lsvi-ae is 0; give a number above 0"),
        ({"cost": "gp", "lam_cost": -1}, "lam_cost of lsvi-ae is -1; give a number above 0"),
        ({"cost": "gp", "bound": 0}, "bound of lsvi-ae is 0; give a number above 0"),
        ({"react": True, "share_costs": False}, "set share_costs to true, or react to false"),
        ({"known_safe": np.zeros(3, int)}, r"known_safe of lsvi-ae has shape \(3,\)"),
        ({"known_safe": "all"}, "choose none or safest"),
        (
            {"cost": "gp(difference(rbf(3), on=action))"},
            "difference is on 'action', which has no two halves",
        ),
        ({"cost": "gp(difference(rbf(3, on=landing), on=move))"}, "uses the on= of difference; omit its own"),
        ({"radius": "coordinate", "cost": "gp"}, "setting radius of lsvi-ae is coordinate"),
        ({"sigma": 1e200, "cost": "gp"}, "sigma of lsvi-ae is 1e[+]200; give a number"),
        ({"cost": np.zeros(3)}, "write auto, counts, linear, gp"),
    ],
)
def test_a_setting_that_does_not_fit_is_refused_in_one_sentence(pond, settings, message):
    with pytest.raises(EverystepError, match=message):
        es.run(pond, es.agents.lsvi_ae(**settings), episodes=1, seeds=1)


def test_a_kernel_of_the_problem_that_cannot_be_read_is_reported():
    with pytest.raises(EverystepError, match=r"kernel is 'rfb\(2\)'; no kernel 'rfb'"):
        FiniteCMDP(np.ones((1, 1, 1)), np.ones((1, 1)), -np.ones((1, 1)), horizon=2, kernel="rfb(2)")


def test_a_coordinate_needs_a_name_that_a_kernel_can_refer_to():
    for name in ("x/y", "state"):
        with pytest.raises(EverystepError, match="use another word"):
            FiniteCMDP(np.ones((1, 1, 1)), np.ones((1, 1)), -np.ones((1, 1)), coordinates={name: np.zeros((1, 1))})


def test_a_problem_without_a_kernel_asks_for_one():
    with pytest.raises(EverystepError, match="suggests no kernel; give one"):
        es.run(featured(), es.agents.lsvi_ae(cost="gp"), episodes=1, seeds=1)


def test_costs_that_are_not_numbers_are_refused():
    problem = featured()
    g = problem.g.copy()
    g[0, 0, 2, 1] = np.nan
    broken = FiniteCMDP(problem.dense_P[0], problem.r[0], g[:, 0], horizon=4, features=problem.features)
    with pytest.raises(EverystepError, match="g is nan at state 2, action 1"):
        es.run(broken, es.agents.lsvi_ae(cost="gp(linear(on=features))"), episodes=1, seeds=1)


def test_a_conservative_agent_with_known_safe_actions_has_fewer_violations(pond):
    safest = np.argmin(pond.g[0, 0], axis=1)
    recipes = [
        es.agents.lsvi_ae(optimism=-1, known_safe=known) for known in ("safest", safest, np.eye(4, dtype=bool)[safest])
    ]
    results = [es.run(pond, recipe, episodes=60, seeds=2).columns["lsvi-ae"] for recipe in recipes]
    np.testing.assert_array_equal(results[0]["return"], results[1]["return"])
    np.testing.assert_array_equal(results[0]["return"], results[2]["return"])
    assert results[0]["violation"].sum() == 0
    aggressive = es.run(pond, "lsvi-ae", episodes=60, seeds=2).columns["lsvi-ae"]
    assert aggressive["violation"].sum() > 0
    assert aggressive["value"][:, -10:].mean() > results[0]["value"][:, -10:].mean()
