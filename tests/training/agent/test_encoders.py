"""The contract of encoders and of the models on stored data, for every kind of encoder."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from everystep.errors import EverystepError
from everystep.features import bind, centres, function
from everystep.kernels import read
from everystep.lsvi import radii
from everystep.training.agent.encoders import FeatureEncoder, KernelEncoder, RawEncoder, encoder_from_json
from everystep.training.agent.models.linear import NoCosts
from everystep.training.agent.models.protocols import NO_SLOT, StoredSizes, TransitionRows

A, L, M, CAPACITY = 3, 4, 2, 8


class Box:
    low, high, shape = -np.ones(2), np.ones(2), (2,)


def crossed():
    return bind(centres(3), Box, A)


def joint():
    return bind(function(lambda x: np.stack([[x[0], x[1], a] for a in range(A)]) / 4, d=3), Box, A)


ENCODERS = {
    "crossed features": lambda: FeatureEncoder(crossed()),
    "features of (x, a)": lambda: FeatureEncoder(joint()),
    "kernel": lambda: KernelEncoder(read("rbf(1, on=observation)*categorical(on=action)"), 2, A),
}


@pytest.fixture(params=ENCODERS)
def encoder(request):
    return ENCODERS[request.param]()


def padded(array):
    return np.concatenate([array, np.zeros((L - len(array), *array.shape[1:]), array.dtype)])


def rows_of(encoder, n=3):
    """An episode of n steps in L rows; its last state is not kept."""
    rng = np.random.default_rng(0)
    x, actions = rng.uniform(-0.7, 0.7, (n + 1, 2)), np.arange(n) % A
    inputs = encoder.encode_transitions(x[:-1], actions, x[1:], padded)
    rows = TransitionRows(
        h=padded(np.arange(n, dtype=np.int32)),
        a=padded(actions.astype(np.int32)),
        reward=padded(rng.random(n)),
        cost=padded(rng.uniform(-1, 1, (n, M))),
        slot=np.array([0, 1, NO_SLOT, NO_SLOT], np.int32),
        ended=np.zeros(L, bool),
        live=np.arange(L) < n,
        value_inputs=inputs,
        cost_inputs=inputs,
    )
    return jax.tree.map(jnp.asarray, rows), x[1:3]


SIZES = StoredSizes(steps=1, constraints=M, capacity=CAPACITY, length=L, plans_every_episode=True)
K = jnp.int32(2)


def learnt_by(encoder, rows):
    """What a cost model estimates after an episode, and what predicts it elsewhere."""

    @jax.jit
    def learn(costs):
        state = costs.update(costs.init(encoder.shape, SIZES), rows)
        return costs.estimate(state, K), costs.predictor(state, K)

    costs = jax.tree.map(jnp.asarray, encoder.cost_model(radii.Tuned(0.5), 0.1))
    return jax.tree.map(np.asarray, learn(costs))


def test_a_model_predicts_at_a_state_with_a_slot_what_it_estimates_there(encoder):
    rows, kept = rows_of(encoder)
    estimate, predictor = learnt_by(encoder, rows)
    mean, width = predictor.predict(0, encoder.encode(kept))
    np.testing.assert_allclose(mean, estimate.mean[0, :, :, :2], atol=1e-12)
    np.testing.assert_allclose(width, np.broadcast_to(estimate.width[0], (1, A, CAPACITY))[0, :, :2], atol=1e-12)


def test_a_larger_capacity_changes_no_estimate(encoder):
    rows, _ = rows_of(encoder)

    @jax.jit
    def values(model):
        state = model.update(model.init(encoder.shape, SIZES, (0.0, 1.0)), rows)
        rooms = ((state, CAPACITY), (model.enlarged(state, 2 * CAPACITY), 2 * CAPACITY))
        return tuple(model.estimate(model.fit(each, K), jnp.int32(0), jnp.zeros(room)) for each, room in rooms)

    @jax.jit
    def costs(model):
        state = model.update(model.init(encoder.shape, SIZES), rows)
        return tuple(model.estimate(each, K).mean[0, 0] for each in (state, model.enlarged(state, 2 * CAPACITY)))

    for function_of, model in ((values, encoder.value_model(radii.Tuned(0.5), 0.1, 5.0, 0.0, 1.0)), (costs, NoCosts())):
        before, after = map(np.asarray, function_of(jax.tree.map(jnp.asarray, model)))
        np.testing.assert_allclose(after[:, :2], before[:, :2], atol=1e-12)


@pytest.mark.quick
@pytest.mark.parametrize("name", ENCODERS)
def test_a_saved_encoder_encodes_the_same(name):
    encoder = ENCODERS[name]()
    observations = np.random.default_rng(1).uniform(-1, 1, (5, 2))
    given = joint() if "function" in encoder.to_json() else None
    again = encoder_from_json(encoder.to_json(), encoder.arrays(), given)
    for one, other in zip(
        jax.tree.leaves(encoder.encode(observations)), jax.tree.leaves(again.encode(observations)), strict=True
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ENCODERS)
def test_a_predictor_comes_back_from_its_arrays(name):
    encoder = ENCODERS[name]()
    rows, kept = rows_of(encoder)
    _, predictor = learnt_by(encoder, rows)
    again = encoder.predictor(predictor.arrays())
    for one, other in zip(
        predictor.predict(0, encoder.encode(kept)), again.predict(0, encoder.encode(kept)), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


def test_every_encoder_knows_its_actions_and_its_shape(encoder):
    assert encoder.actions == encoder.shape.actions == A
    assert (encoder.d is None) == encoder.keeps_points
    assert not (encoder.keeps_points and encoder.has_paper_radius)
    assert encoder.slot_per_action == (encoder.d == A * 9)
    assert isinstance(encoder.remarks, tuple)


@pytest.mark.quick
def test_networks_take_observations_as_they_are():
    encoder = RawEncoder(coordinates=2, actions=3)
    np.testing.assert_array_equal(encoder.encode(np.array([[1, 2], [3, 4]])), [[1.0, 2.0], [3.0, 4.0]])
    assert encoder.to_json() == {"networks": True, "coordinates": 2, "actions": 3}
    assert encoder.encode(encoder.example()).shape == (1, 2)
    with pytest.raises(EverystepError, match="shape"):
        encoder.encode(np.zeros((2, 3)))
