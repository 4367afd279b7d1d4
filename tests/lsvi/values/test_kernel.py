"""The kernel value model: the dual formula by brute force, its two special cases, and its settings."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import everystep as es
from everystep.agents.model_syntax import InKernel, read_value
from everystep.errors import EverystepError
from everystep.kernels import RBF, Categorical, Custom
from everystep.lsvi import algorithm, loop
from everystep.lsvi.choices.ties import ties
from everystep.lsvi.episode import Episode
from everystep.lsvi.radii import Tuned
from everystep.lsvi.values.kernel import KernelValues
from everystep.mdp.cmdp import FiniteCMDP
from everystep.mdp.world import Sizes, at_step, start_state

S, A, H, LAM, BETA, CAP = 5, 3, 4, 0.3, 0.7, 3.0
TELLS_ALL_APART = "kernel(categorical(on=state)*categorical(on=action))"


def featured(seed=0, stationary=True):
    """A problem with features of norm 1, on which a linear model makes sense."""
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(6, 3, 4))
    phi /= np.linalg.norm(phi, axis=-1, keepdims=True)
    lead = () if stationary else (5,)
    P, r = rng.dirichlet(np.ones(6), (*lead, 6, 3)), rng.random((*lead, 6, 3))
    g = rng.uniform(-1, 1, (1, *lead, 6, 3))
    g[..., 0] = -0.5
    return FiniteCMDP(P, r, g, horizon=5, features=phi)


@pytest.fixture(scope="module")
def pond():
    return es.problems.from_map(("SFF", "FHF", "FFG"), horizon=6)


# --- brute force -----------------------------------------------------------------------------------------------------
def dual(kernel, seen, y, lam):
    """k_z^T (K + lam I)^-1 y and the variance at every point, from all observations at once."""
    K = kernel[np.ix_(seen, seen)] + lam * np.eye(len(seen))
    mean = kernel[:, seen] @ np.linalg.solve(K, y)
    return mean, np.diag(kernel) - np.einsum("zi,iz->z", kernel[:, seen], np.linalg.solve(K, kernel[seen]))


def random_episodes(number, successors):
    rng = np.random.default_rng(3)
    for _ in range(number):
        x, a, slot = rng.integers(0, S, H), rng.integers(0, A, H), rng.integers(0, len(successors), H)
        whole = lambda values: jnp.asarray(values, jnp.int32)
        reward, cost = jnp.asarray(rng.random(H)), jnp.zeros((H, 1))
        yield Episode(whole(x), whole(a), whole(slot), whole(successors[slot, x]), reward, cost)


@pytest.mark.parametrize("listed", [True, False], ids=["successor lists", "all states"])
@pytest.mark.parametrize("steps", [1, H], ids=["shared", "step-indexed"])
def test_the_estimate_is_the_dual_formula_of_kernel_regression(steps, listed):
    rng = np.random.default_rng(1)
    everywhere = np.broadcast_to(np.arange(S)[:, None], (S, S))
    successors = np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]]) if listed else everywhere
    place = rng.normal(size=(9, 2))
    kernel = np.exp(-((place[:, None] - place) ** 2).sum(-1) / 2)
    point = rng.integers(0, 9, (A, S)).astype(np.int32)  # fewer points than (x, a): some share one
    lists = jnp.asarray(successors, jnp.int32) if listed else None
    model = KernelValues(Tuned(BETA), LAM, CAP, lists, jnp.asarray(kernel), jnp.asarray(point))
    model = jax.tree.map(jnp.asarray, model)
    state = model.init(Sizes(S, A, len(successors), H, 1), steps)
    seen = list(random_episodes(12, successors))
    update = jax.jit(lambda state, episode: model.update(state, episode))
    for episode in seen:
        state = update(state, episode)
    V = rng.random(S) * 2
    fit = jax.jit(lambda state: model.fit(state, jnp.int32(13)))(state)
    estimate = jax.jit(lambda h, V: model.estimate(fit, h, V))
    for h in range(H):
        own = [(e, t) for e in seen for t in range(H) if steps == 1 or t == h]
        at = np.array([point[e.a[t], e.x[t]] for e, t in own])
        y = np.array([e.reward[t] + V[e.x_next[t]] for e, t in own])
        mean, var = dual(kernel, at, y, LAM)
        Q = np.minimum(mean + BETA * np.sqrt(var / LAM), CAP)[point]
        np.testing.assert_allclose(estimate(jnp.int32(h), jnp.asarray(V)), Q, rtol=0, atol=1e-10)
        K = kernel[np.ix_(at, at)]
        log_det = np.linalg.slogdet(np.eye(len(at)) + K / LAM)[1]
        assert at_step(model.log_det(state), h) == pytest.approx(log_det, abs=1e-9)
    assert model.log_det(state).shape == (steps,)


@pytest.mark.quick
def test_an_observation_at_one_point_changes_the_estimate_at_its_neighbours():
    kernel = np.exp(-((np.arange(15)[:, None] - np.arange(15)) ** 2) / 8)
    point = np.arange(15, dtype=np.int32).reshape(A, S)
    model = jax.tree.map(jnp.asarray, KernelValues(Tuned(0.0), LAM, CAP, None, kernel, point))
    zeros = jnp.zeros(H, jnp.int32)
    seen = Episode(zeros + 2, zeros, zeros, zeros, jnp.ones(H), jnp.zeros((H, 1)))
    state = model.update(model.init(Sizes(S, A, S, H, 1), 1), seen)
    Q = model.estimate(model.fit(state, jnp.int32(2)), jnp.int32(0), jnp.zeros(S))
    assert Q[0, 2] > Q[0, 1] > Q[0, 0] > Q[2, 4]
    assert Q[0, 2] == pytest.approx(H / (H + LAM))


# --- special cases ---------------------------------------------------------------------------------------------------
def beliefs(problem, recipe, episodes=60, seed=3):
    """The estimates of an agent along its own run, V_h before every episode, and its observations."""
    built = recipe.resolve(problem, episodes).build()
    agent, sizes = built.agent, problem.sizes
    state = algorithm.init(agent, sizes, built.share_values, built.share_costs)
    world = jax.tree.map(jnp.asarray, problem.world)

    def episode(state, k):
        draw = loop.draws(world, sizes, jnp.uint32(seed), k)
        tie = ties(draw.tie_word, sizes.horizon, sizes.states)
        plan, info = algorithm.plan(agent, state, tie)
        seen, _, _ = loop.play(agent, world, state, plan, tie, start_state(world, k, draw.start), draw)
        return algorithm.learn(agent, state, seen), (info.V, seen.x, seen.a, seen.reward)

    return jax.jit(lambda state: jax.lax.scan(episode, state, jnp.arange(1, episodes + 1, dtype=jnp.int32))[1])(state)


def test_a_linear_kernel_is_the_linear_model_along_a_run():
    """With estimators for each step; the next test has shared ones."""
    problem = featured(stationary=False)
    linear, kernel = (
        beliefs(problem, es.agents.lsvi_ae(value=value, beta=0.4, lam=0.2)) for value in ("linear", "kernel")
    )
    for one, other in zip(linear, kernel, strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-9)


def test_a_kernel_without_arguments_is_the_linear_one_on_the_problems_features():
    assert es.agents.lsvi(value="kernel").resolve(featured(), 10)["value"] == "kernel(linear(on=features))"


def test_a_kernel_that_distinguishes_all_actions_is_counting_along_a_run(pond):
    counts = beliefs(pond, es.agents.lsvi_ae())
    kernel = beliefs(pond, es.agents.lsvi_ae(value=TELLS_ALL_APART))
    for one, other in zip(counts, kernel, strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-9)


def test_values_may_count_where_costs_are_linear():
    problem = featured()
    agent = es.agents.lsvi_ae(value="counts").resolve(problem, 10).build().agent
    at = lambda number: jnp.full(5, number, jnp.int32)
    seen = Episode(at(3), at(1), at(2), at(2), jnp.ones(5), jnp.ones((5, 1)))
    k = jnp.asarray(1, jnp.int32)

    def changed(model, beliefs):
        before = model.init(problem.sizes, 1)
        both = jax.jit(lambda before: (beliefs(model.update(before, seen)), beliefs(before)))
        return np.abs(np.subtract(*both(before))) > 1e-9

    no_V = jnp.zeros(problem.states)
    Q = changed(agent.values, lambda state: agent.values.estimate(agent.values.fit(state, k), jnp.int32(0), no_V))
    assert np.argwhere(Q).tolist() == [[1, 3]]  # of the one (a, x) that was seen
    assert changed(agent.costs, lambda state: agent.costs.estimate(state, k).mean).all()


def test_a_run_with_a_kernel_reports_what_the_kernel_reveals(pond):
    recipe = es.agents.lsvi_primal(value=es.kernel_values(RBF(1.0, on="landing") * Categorical(on="action")))
    result = es.run(pond, recipe, episodes=40, seeds=2)
    assert np.isfinite(result.columns["lsvi-primal"]["value"]).all()
    assert result.spec["agents"][0]["settings"]["value"] == "kernel(rbf(on=landing)*categorical(on=action))"
    assert any("value kernel" in remark and "aims" in remark for remark in result.summary["remarks"])


@pytest.mark.parametrize("name", ["lsvi-ae", "lsvi", "lsvi-primal", "slucb-qvi", "rslucb-qvi"])
def test_agents_take_a_kernel(pond, name):
    required = {"safe_action": "safest"} if es.agents.REGISTERED[name].requires_safe_action else {}
    built = es.agents.Recipe(name, {"value": RBF(3.0, on="state")} | required).resolve(pond, 10).build()
    values, k = built.agent.values, jnp.asarray(1, jnp.int32)
    assert isinstance(values, KernelValues)
    at = lambda number: jnp.full(6, number, jnp.int32)
    before = values.init(pond.sizes, 1)
    after = values.update(before, Episode(at(0), at(1), at(0), at(0), jnp.zeros(6), jnp.zeros((6, 1))))
    left = values.fit(after, k).width / values.fit(before, k).width  # (1, A, S): the ratio of the widths
    assert (np.diff(left, axis=-1) > 0).all()  # larger, the further from the state seen
    np.testing.assert_allclose(left, left[:, :1] + np.zeros_like(left), rtol=0, atol=1e-12)  # whatever the action


def test_custom_functions_are_distinguished_in_a_run(pond):
    own = [Custom(lambda y, z, c=c: jnp.exp(-c * ((y - z) ** 2).sum()), on="state") for c in (1.0, 2.0)]
    one, other = (es.agents.lsvi(value=kernel).resolve(pond, 10)["value"] for kernel in own)
    assert one.startswith("kernel(custom(<lambda>, on=state)) #")
    assert one != other


# --- settings --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "text", ["auto", "counts", "linear", "kernel", "kernel(rbf(2, on=position)*categorical(on=a))"]
)
def test_a_value_model_has_a_text_that_reads_back(text):
    assert str(read_value(text)) == text
    assert read_value(str(read_value(text))) == read_value(text)


def test_a_kernel_alone_is_a_value_model():
    assert (
        read_value(RBF(2.0, on="position"))
        == es.kernel_values("rbf(2, on=position)")
        == InKernel(RBF(2.0, on="position"))
    )


@pytest.mark.quick
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"value": "gp"}, "setting value of lsvi-ae is 'gp'"),
        ({"value": 3}, "write auto, counts, linear, kernel"),
        ({"value": "kernel(2)"}, "the kernel is 2; write one such as"),
        ({"value": "kernel(rbf(1), fit=3)"}, "kernel takes one kernel"),
        ({"value": "kernel(rfb(1))"}, "no kernel 'rfb'. Did you mean rbf"),
        ({"value": "linear"}, "setting value of lsvi-ae is linear, but the problem 'map' has no features"),
        ({"value": "kernel"}, "has no features for a linear kernel"),
        ({"value": "kernel(rbf(1, on=speed))"}, "is on 'speed', which the problem does not have"),
        ({"value": "kernel(2*rbf(1, on=state))"}, "multiply it by 0.5"),
        (
            {"value": TELLS_ALL_APART, "radius": "paper"},
            "radius of lsvi-ae is paper, but its values are in the space of",
        ),
        ({"value": TELLS_ALL_APART, "radius": "coordinate"}, r"set radius to tuned \(radius_cost may differ\)"),
    ],
)
def test_a_setting_that_does_not_fit_is_refused_in_one_sentence(pond, settings, message):
    with pytest.raises(EverystepError, match=message):
        es.run(pond, es.agents.lsvi_ae(**settings), episodes=1, seeds=1)


def test_costs_may_have_printed_widths_beside_a_kernel_of_values(pond):
    recipe = es.agents.lsvi_ae(value=TELLS_ALL_APART, radius_cost="coordinate")
    assert recipe.resolve(pond, 10).confidence == pytest.approx(0.05)


def test_what_is_no_kernel_is_refused_from_python():
    with pytest.raises(EverystepError, match=r"kernel is 3; .*everystep.kernels"):
        es.kernel_values(3)
    with pytest.raises(AttributeError, match="'kernel'; use kernel_values"):
        es.kernel  # noqa: B018


def test_the_covariance_stays_exact_over_thousands_of_updates():
    rng = np.random.default_rng(2)
    place = rng.uniform(0, 3, (20, 2))
    kernel = np.exp(-((place[:, None] - place) ** 2).sum(-1) / 2)
    point = jnp.arange(20, dtype=jnp.int32).reshape(4, 5)
    model = jax.tree.map(jnp.asarray, KernelValues(Tuned(1.0), 0.01, 9.0, None, kernel, point))
    x, a = (jnp.asarray(rng.integers(0, n, (3000, H)), jnp.int32) for n in (5, 4))
    zeros = jnp.zeros(H)

    def step(state, seen):
        x, a = seen
        return model.update(state, Episode(x, a, x, x, zeros, zeros[:, None])), None

    state = jax.jit(lambda state: jax.lax.scan(step, state, (x, a))[0])(model.init(Sizes(5, 4, 5, H, 1), 1))
    visits = np.bincount(np.asarray(point[a, x]).ravel(), minlength=20)
    root = np.sqrt(visits)
    inner = root[:, None] * kernel * root + 0.01 * np.eye(20)
    fresh = kernel - (kernel * root) @ np.linalg.solve(inner, root[:, None] * kernel)
    np.testing.assert_allclose(state.cov[0], fresh, rtol=0, atol=1e-8 * np.diag(fresh).max())
    log_det = np.linalg.slogdet(inner)[1] - 20 * math.log(0.01)
    assert float(model.log_det(state)[0]) == pytest.approx(log_det, rel=1e-9)
