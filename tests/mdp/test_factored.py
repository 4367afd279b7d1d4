"""Transitions given by factors: the same problem as their dense product, only smaller."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stepping

import everystep as es
from everystep import agents, problems
from everystep.errors import EverystepError
from everystep.lsvi import loop
from everystep.mdp import planner
from everystep.mdp.arrays import digest, save_problem
from everystep.mdp.cmdp import Factored, FiniteCMDP, Noise
from everystep.mdp.world import at_step, can_follow, expected, next_states, step

S, A, D, H = 6, 3, 2, 4


def factors(seed=0, steps=(), sparse=False):
    rng = np.random.default_rng(seed)
    phi, mu = rng.dirichlet(np.ones(D), (*steps, S, A)), rng.dirichlet(np.ones(S), (*steps, D))
    if sparse:  # some factors are out of reach, and so are some states
        phi[..., 0, :, :], mu[..., 0, :] = np.eye(D)[1], np.eye(S)[3]
    return Factored(phi, mu)


def both(seed=0, steps=(), sparse=False, start=0):
    """The same problem by factors and as a table."""
    P = factors(seed, steps, sparse)
    rng = np.random.default_rng(seed + 100)
    g = rng.uniform(-1, 1, (1, *(steps or (1,)), S, A))
    g[..., 0] = -0.5
    rest = {"r": rng.random((*steps, S, A)), "g": g, "start": start, "horizon": H}
    return FiniteCMDP(P, **rest), FiniteCMDP(P.phi @ P.mu[..., None, :, :], **rest)


CASES = [
    pytest.param({}, id="the same at every step"),
    pytest.param({"steps": (H,)}, id="steps that differ"),
    pytest.param({"sparse": True}, id="states out of reach"),
    pytest.param({"start": np.full(S, 1 / S)}, id="starts at random"),
]


@pytest.mark.quick
@pytest.mark.parametrize("case", CASES)
def test_the_planner_says_the_same_of_factors_and_of_their_product(case):
    factored, dense = both(**case)
    same = lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)
    for safe in (True, False):
        same(planner.solve(factored, safe).V, planner.solve(dense, safe).V)
    pi = np.random.default_rng(1).dirichlet(np.ones(A), (H, S))
    same(planner.evaluate(factored, pi).V, planner.evaluate(dense, pi).V)
    same(planner.evaluate(factored, pi).C, planner.evaluate(dense, pi).C)
    same(planner.occupancy(factored, pi), planner.occupancy(dense, pi))
    assert planner.highest_value(factored) == pytest.approx(planner.highest_value(dense), abs=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_expectations_flows_and_reachable_states_are_those_of_the_product(case):
    factored, dense = both(**case)
    rng = np.random.default_rng(2)
    V, rho, here = rng.normal(size=S), rng.random((S, A)), np.arange(S) == 0
    for h in range(H):
        own, lists, table = at_step(factored.P, h), at_step(dense.P, h), at_step(dense.dense_P, h)
        np.testing.assert_allclose(expected(at_step(factored.world.P, h), None, V), (table @ V).T, atol=1e-12)
        np.testing.assert_allclose(next_states(own, rho), np.einsum("xa,xay->y", rho, table), atol=1e-12)
        np.testing.assert_allclose(next_states(lists, rho), np.einsum("xa,xay->y", rho, table), atol=1e-12)
        np.testing.assert_array_equal(can_follow(own, here), (table[here] > 0).any((0, 1)))
        np.testing.assert_array_equal(can_follow(lists, here), (table[here] > 0).any((0, 1)))


@pytest.mark.parametrize("case", CASES)
def test_next_states_come_as_often_as_the_product_says_and_impossible_ones_never(case):
    factored, dense = both(**case)
    n = 4000
    u = np.concatenate([(np.arange(n) + 0.5) / n, [0.0, np.nextafter(1, 0)]])
    for h, x, a in ((0, 0, 1), (2, 0, 0), (3, 4, 2)):
        arrived = np.array([step(factored.world, h, x, a, each, 0.0, 0.0).x_next for each in u])
        probability = at_step(dense.dense_P, h)[x, a]
        assert (probability[arrived] > 0).all()
        # An interval of u is cut into D x S pieces, each of which may gain or lose one point of the grid.
        np.testing.assert_allclose(np.bincount(arrived[:n], minlength=S) / n, probability, rtol=0, atol=2.0 * D / n)


def test_a_step_by_factors_is_the_same_in_numpy_and_in_jax():
    factored, _ = both()
    world = jax.tree.map(jnp.asarray, factored.world)
    u, x = np.random.default_rng(3).random(300), np.arange(300, dtype=np.int32) % S
    nothing = jnp.zeros(())
    drawn = jax.jit(jax.vmap(lambda u, x: step(world, jnp.int32(1), x, jnp.int32(1), u, nothing, nothing)))(u, x)
    plain = [step(factored.world, 1, each_x, 1, each_u, 0.0, 0.0).x_next for each_u, each_x in zip(u, x, strict=True)]
    np.testing.assert_array_equal(drawn.x_next, plain)
    np.testing.assert_array_equal(drawn.slot, drawn.x_next)


def test_both_drivers_live_the_same_episodes_by_factors():
    problem = problems.linear(states=12, actions=3, d=4, horizon=3)
    compiled = es.run(problem, "lsvi-ae", episodes=20, seeds=[5]).columns["lsvi-ae"]
    built = agents.lsvi_ae().resolve(problem, 20).build()
    carry = loop.start(built.agent, problem.sizes, built.share_values, built.share_costs)
    world = jax.tree.map(jnp.asarray, problem.world)
    stepped = [metrics for _, metrics, _ in stepping.episodes(built.agent, world, problem.sizes, carry, 5, 20)]
    np.testing.assert_allclose([each.earned for each in stepped], compiled["return"][0], rtol=0, atol=1e-9)
    np.testing.assert_allclose([each.value for each in stepped], compiled["value"][0], rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("where", "value", "sentence"),
    [
        (("phi", (2, 1, 0)), -0.1, r"^phi is -0\.1 at state 2, action 1"),
        (("phi", (2, 1, 0)), 7.0, "^phi sums to .* over the factors at state 2, action 1"),
        (("phi", (3, 0, 1)), np.nan, "^phi is nan at state 3, action 0"),
        (("mu", (1, 4)), 7.0, "^mu sums to .* over the next states at factor 1"),
        (("mu", (0, 4)), -1.0, r"^mu is -1 at factor 0; probabilities cannot be negative"),
    ],
)
def test_what_is_wrong_with_factors_is_said_with_its_place(where, value, sentence):
    name, index = where
    broken = {"phi": factors().phi.copy(), "mu": factors().mu.copy()}
    broken[name][index] = value
    with pytest.raises(EverystepError, match=sentence):
        FiniteCMDP(Factored(**broken), np.zeros((S, A)), np.zeros((S, A)), horizon=H).check()


@pytest.mark.parametrize(
    ("phi", "mu", "sentence"),
    [
        (np.ones((S, A)), np.ones((D, S)), r"^phi has shape \(6, 3\); give \(S, A, d\)"),
        (np.ones((S, A, D)), np.ones((S, D)), r"^mu has shape \(6, 2\); give \(2, 6\)"),
        (np.ones((H + 1, S, A, D)), np.ones((D, S)), r"^phi has shape \(5, 6, 3, 2\); give \(6, 3, 2\)"),
    ],
)
def test_factors_of_a_wrong_shape_are_refused(phi, mu, sentence):
    with pytest.raises(EverystepError, match=sentence):
        FiniteCMDP(Factored(phi, mu), np.zeros((S, A)), np.zeros((S, A)), horizon=H)


def test_factors_cannot_show_anything_on_arrival():
    with pytest.raises(EverystepError, match=r"^noise is observed on arrival"):
        FiniteCMDP(factors(), np.zeros((S, A)), np.zeros((S, A)), noise=Noise(reward_on_arrival=np.zeros((S, A, S))))


def test_the_features_of_factors_are_phi_unless_others_are_given():
    P = factors()
    rest = {"r": np.zeros((S, A)), "g": np.zeros((S, A)), "horizon": H}
    np.testing.assert_array_equal(FiniteCMDP(P, **rest).features, P.phi)
    own = np.ones((S, A, 1))
    np.testing.assert_array_equal(FiniteCMDP(P, **rest, features=own).features, own)
    assert FiniteCMDP(factors(steps=(H,)), **rest).features is None


@pytest.mark.quick
@pytest.mark.parametrize("case", CASES)
def test_factors_survive_a_file(case, tmp_path):
    factored, _ = both(**case)
    save_problem(factored, tmp_path / "problem.npz")
    assert "P" not in np.load(tmp_path / "problem.npz").files
    again = problems.load(str(tmp_path / "problem.npz"))
    assert digest(again) == digest(factored)
    assert digest(again) != digest(both(seed=1)[0])


def test_a_file_with_one_factor_only_is_told_what_it_lacks(tmp_path):
    np.savez(tmp_path / "half.npz", phi=factors().phi, r=np.zeros((S, A)), g=np.zeros((S, A)), start=0, horizon=H)
    with pytest.raises(EverystepError, match=r"no mu\."):
        problems.load(str(tmp_path / "half.npz"))


def test_counting_every_pair_of_very_many_states_is_refused_and_of_few_is_not():
    many = FiniteCMDP(
        Factored(np.ones((4000, 4, 1)), np.full((1, 4000), 1 / 4000)), np.zeros((4000, 4)), np.zeros((4000, 4))
    )
    with pytest.raises(EverystepError, match=r"value of lsvi-ae is counts, .* 4000 states"):
        agents.lsvi_ae(features="one-hot").resolve(many, 10)
    result = es.run(both()[0], agents.lsvi_ae(features="one-hot"), episodes=5, seeds=1)
    assert np.isfinite(result.columns["lsvi-ae"]["value"]).all()
