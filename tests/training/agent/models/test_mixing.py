"""Features of observation and action: products and norms are those of the features written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from environments_for_tests.walks import PushedPoint
from gymnasium import spaces

import everystep as es
from everystep.training.agent.models.linear import Blocks, inner_products, squared_norms
from everystep.training.agent.models.mixing import Mixing

FEATURES = es.features.fourier(4)  # d = 8
THREE = es.actions.listed([[-1.0], [0.0], [1.0]])


def columns(result):
    return {name: column for name, column in result.columns.items() if name != "planned"}


def assert_same(one, other):
    for name, column in columns(one).items():
        np.testing.assert_allclose(column, other.columns[name], rtol=0, atol=1e-8, err_msg=name)


def test_products_and_norms_are_those_of_the_features_written_out():
    points = np.linspace(-1, 1, 5)[:, None]
    phi = es.features.bind(es.features.fourier(3, constant=True), spaces.Box(-1, 1, (2,)), points)
    rng = np.random.default_rng(0)
    x, half, w = rng.uniform(-1, 1, (6, 2)), rng.normal(size=(7, 7)), rng.normal(size=(2, 1, 7))
    written, psi, mixing = phi(x), phi.state(x).T[:, None], Mixing.of(phi)
    mean = np.einsum("nad,md->man", written, w[:, 0])
    norm2 = np.einsum("nad,de,nae->an", written, half @ half.T, written)
    np.testing.assert_allclose(inner_products(w, psi, mixing), mean, atol=1e-12)
    with jax.enable_x64(True):
        inverse = jnp.asarray(half @ half.T)[None, None]
        blocks, arrays = Blocks(inverse, inverse, jnp.zeros((1, 1))), jax.tree.map(jnp.asarray, mixing)
        found = np.asarray(squared_norms(blocks, jnp.asarray(psi[None]), arrays))
    np.testing.assert_allclose(found[0], norm2, atol=1e-10)
    for at_once in (1, 10**6):
        ours = _predicted(mixing, w, half @ half.T, psi[:, 0], at_once)
        np.testing.assert_allclose(ours[0], mean, atol=1e-12)
        np.testing.assert_allclose(ours[1], norm2, atol=1e-10)


def _predicted(mixing, w, inverse, psi, at_once):
    from everystep.training.agent.models import mixing as module

    before, module.MOST_NUMBERS = module.MOST_NUMBERS, at_once
    try:
        return mixing.predict(w, inverse, psi)
    finally:
        module.MOST_NUMBERS = before


@pytest.mark.parametrize("switch", ["none", "1%"])  # norms kept, and computed for each plan
def test_an_agent_is_the_same_with_its_features_written_out(switch):
    agent = es.agents.lsvi_ahead(switch=switch)
    env = lambda: PushedPoint()
    short = es.train(env(), agent, actions=THREE, episodes=6, features=FEATURES, horizon=3, length=5)
    phi = short.policy.plan.value_encoder.phi
    written = es.features.function(lambda x: phi(x[None])[0], d=8)
    same = es.train(env(), agent, actions=THREE, episodes=6, features=written, horizon=3, length=5)
    assert_same(short, same)
    x = np.linspace(-1, 1, 4)[:, None]
    for one, other in zip(short.policy.plan.estimates(0, x), same.policy.plan.estimates(0, x), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)


@pytest.mark.quick
def test_three_vectors_are_learnt_like_three_numbers():
    """Tiles of the position crossed with three actions, and tiles of both in which each action has its own."""
    make = es.features.tiles
    numbers = es.train(PushedPoint(spaces.Discrete(3)), "lsvi-ae", features=make(1, 4), horizon=3, episodes=8)
    vectors = es.train(PushedPoint(), "lsvi-ae", actions=THREE, features=make(1, (4, 3)), horizon=3, episodes=8)
    assert_same(numbers, vectors)
