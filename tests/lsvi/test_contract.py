"""One contract for every part and every named agent."""

import inspect
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from everystep import agents
from everystep.agents.settings import SETTINGS
from everystep.kernels import RBF
from everystep.lsvi import loop, protocols
from everystep.lsvi.algorithm import Agent, init, learn, plan
from everystep.lsvi.choices.basic import Greedy, Penalised, Reacting, Uniform
from everystep.lsvi.choices.safe import SafeSet
from everystep.lsvi.choices.ties import ties
from everystep.lsvi.costs.counts import CountCosts
from everystep.lsvi.costs.estimate import EachCost
from everystep.lsvi.costs.gp import GridGP, GrowingGP
from everystep.lsvi.costs.linear import LinearCosts
from everystep.lsvi.episode import Episode
from everystep.lsvi.penalties import Floor, NoPenalty, Rectified, VirtualQueue
from everystep.lsvi.radii import CoordinateCost, CoordinateValue, KnownSafeCost, PaperCost, PaperValue, Tuned
from everystep.lsvi.values.counts import Counts
from everystep.lsvi.values.kernel import KernelValues
from everystep.lsvi.values.linear import Linear
from everystep.mdp.cmdp import FiniteCMDP, Known
from everystep.mdp.world import Sizes

SIZES = Sizes(states=5, actions=3, successors=2, horizon=4, constraints=2)
SUCCESSORS = np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]], np.int32)
PHI = np.random.default_rng(0).dirichlet(np.ones(6), size=(5, 3))
POINTS = np.random.default_rng(9).normal(size=(3, 5, 2))
GRAM = np.exp(-((POINTS.reshape(15, 1, 2) - POINTS.reshape(15, 2)) ** 2).sum(-1) / 2)
WHICH = np.arange(15, dtype=np.int32).reshape(3, 5)
VALUE_MODELS = {
    "counts": Counts(Tuned(0.5), 0.1, 4.0, jnp.asarray(SUCCESSORS)),
    "linear": Linear(Tuned(0.5), 0.1, 4.0, jnp.asarray(PHI.swapaxes(0, 1), jnp.float32)),
    "kernel": KernelValues(Tuned(0.5), 0.1, 4.0, jnp.asarray(SUCCESSORS), GRAM, WHICH),
}
GRID = GridGP(Tuned(0.5), 0.1, GRAM, WHICH)
COST_MODELS = {
    "counts": CountCosts(Tuned(0.5), 0.1),
    "linear": LinearCosts(Tuned(0.5), 0.1, jnp.asarray(PHI.swapaxes(0, 1), jnp.float32)),
    "process on a grid": GRID,
    "process on a growing set": GrowingGP(Tuned(0.5), 0.1, RBF(1.0), POINTS),
    "one for each": EachCost((CountCosts(Tuned(0.5), 0.1), GRID)),
}
PENALTIES = {"rectified": Rectified(Floor(1.0, 1.0)), "queue": VirtualQueue(), "none": NoPenalty()}
CHOICES = {
    "greedy": Greedy(),
    "uniform": Uniform(),
    "penalised": Penalised(True),
    "lagrangian": Penalised(False),
    "reacting": Reacting(Penalised(True)),
    "safe set": SafeSet(),
}
RADII = {
    "tuned": Tuned(0.3),
    "paper value": PaperValue(1.0, 15.0, 4.0, 100.0, 0.05),
    "paper cost": PaperCost(1.0, 15.0, 0.1, 4.0, 2.0, 0.05),
    "known safe cost": KnownSafeCost(1.0, 15.0, 0.1, 2.0, 0.2, 400.0, 0.025),
    "coordinate cost": CoordinateCost(1.0, 0.1, 1.0, 0.2, 8.0),
    "coordinate value": CoordinateValue(1.0, 0.1, 4.0, 8.0),
}


def arrays(part):
    return jax.tree.map(
        lambda leaf: jnp.asarray(leaf, None if jnp.asarray(leaf).dtype.kind in "ib" else jnp.float64), part
    )


def episode(seed: int) -> Episode:
    rng = np.random.default_rng(seed)
    x, a, slot = rng.integers(0, 5, 4), rng.integers(0, 3, 4), rng.integers(0, 2, 4)
    index = lambda values: jnp.asarray(values, jnp.int32)
    cost = jnp.asarray(rng.uniform(-1, 1, (4, 2)))
    return Episode(index(x), index(a), index(slot), index(SUCCESSORS[slot, x]), jnp.asarray(rng.random(4)), cost)


def same_shapes(before, after) -> bool:
    shape = lambda tree: jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), tree)
    return jax.tree.all(jax.tree.map(lambda a, b: a == b, shape(before), shape(after)))


@pytest.mark.quick
@pytest.mark.parametrize(
    ("contract", "parts"),
    [
        (protocols.FiniteValueModel, VALUE_MODELS),
        (protocols.FiniteCostModel, COST_MODELS),
        (protocols.Penalty, PENALTIES),
        (protocols.Choice, CHOICES),
    ],
)
def test_every_part_has_all_members_of_its_contract(contract, parts):
    assert [name for name, part in parts.items() if not isinstance(part, contract)] == []
    assert not isinstance(object(), contract)


@partial(jax.jit, static_argnums=1)
def values_learnt(model, steps, seen):
    """The state before an episode and after it, and estimates from both; and one of states that are worth too much."""
    state, zero = model.init(SIZES, steps), jnp.zeros(5)
    learnt = model.update(state, seen)
    estimate = lambda state, V: model.estimate(model.fit(state, jnp.asarray(1, jnp.int32)), jnp.asarray(0), V)
    return state, learnt, estimate(state, zero), estimate(learnt, zero), estimate(state, zero + 1e6)


@pytest.mark.parametrize("steps", [1, 4], ids=["shared", "step-indexed"])
@pytest.mark.parametrize("name", VALUE_MODELS)
def test_a_value_model_learns_without_changing_shape_and_its_width_shrinks(name, steps):
    seen = episode(1)._replace(reward=jnp.zeros(4))
    state, learnt, before, after, capped = values_learnt(arrays(VALUE_MODELS[name]), steps, seen)
    before, after, capped = map(np.asarray, (before, after, capped))
    assert same_shapes(state, learnt)
    assert before.shape == (3, 5)
    assert before.dtype == jnp.float64
    assert (after <= before + 1e-12).all()
    assert (after < before - 1e-6).any()
    assert (capped <= 4.0).all()


@partial(jax.jit, static_argnums=1)
def costs_learnt(model, steps, seen):
    state, one = model.init(SIZES, steps), jnp.asarray(1, jnp.int32)
    learnt = model.update(state, seen)
    return state, learnt, model.estimate(state, one), model.estimate(learnt, one)


@pytest.mark.parametrize("steps", [1, 4], ids=["shared", "step-indexed"])
@pytest.mark.parametrize("name", COST_MODELS)
def test_a_cost_model_learns_without_changing_shape_and_its_width_shrinks(name, steps):
    state, learnt, *estimates = costs_learnt(arrays(COST_MODELS[name]), steps, episode(2))
    before, after = jax.tree.map(np.asarray, estimates)
    assert same_shapes(state, learnt)
    assert before.mean.shape == (steps, 2, 3, 5)
    assert before.width.shape in ((steps, 1, 3, 5), (steps, 2, 3, 5))
    assert (before.mean == 0).all()
    assert (after.width <= before.width + 1e-12).all()
    assert (after.width < before.width - 1e-6).any()
    assert (after.mean != 0).any()


@pytest.mark.quick
@pytest.mark.parametrize("name", PENALTIES)
def test_a_price_is_never_negative_and_keeps_its_shape(name):
    penalty = arrays(PENALTIES[name])
    price, update = penalty.init(2, 4), jax.jit(penalty.update)
    rng = np.random.default_rng(3)
    for k in range(1, 20):
        price = update(price, jnp.asarray(rng.uniform(-1, 1, (2, 4))), jnp.asarray(k, jnp.int32))
        assert price.shape == (2, 4)
        assert (np.asarray(price) >= 0).all()


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_is_a_distribution_over_the_actions(name):
    rng = np.random.default_rng(4)
    choice = jax.jit(arrays(CHOICES[name]).__call__)
    for i in range(20):
        Q, ghat = jnp.asarray(rng.integers(0, 2, 3).astype(float)), jnp.asarray(rng.uniform(-1, 1, (2, 3)))
        pi = choice(Q, ghat, jnp.asarray(rng.random(2)), jnp.uint32(i * 77777))
        assert pi.shape == (3,)
        assert (np.asarray(pi, float) >= 0).all()
        np.testing.assert_allclose(np.asarray(pi, float).sum(), 1, rtol=1e-15)


@pytest.mark.quick
@pytest.mark.parametrize("name", RADII)
def test_a_width_falls_with_every_visit(name):
    n = np.arange(0.0, 50.0)
    width = np.asarray(jax.jit(arrays(RADII[name]).width)(1 / (n + 0.1), np.int32(7)))
    assert width.shape == n.shape
    assert (width > 0).all()
    assert (np.diff(width[1:]) < 0).all()


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(5)
    P = rng.dirichlet(np.ones(5), size=(5, 3))
    g = rng.uniform(-1, 1, (2, 5, 3))
    g[:, :, 0] = -0.5
    known = Known(0.5, np.zeros(5, int), rng.dirichlet(np.ones(6), (5, 3, 5)))
    return FiniteCMDP(P, rng.random((5, 3)), g, start=0, horizon=4, known=known)


begun, plan_of, learnt_from = jax.jit(init, static_argnums=(1, 2, 3)), jax.jit(plan), jax.jit(learn)


@pytest.mark.parametrize("features", ["one-hot", PHI], ids=["one-hot", "dense"])
@pytest.mark.parametrize("name", [name for name, each in agents.REGISTERED.items() if not each.networks])
def test_an_agent_is_a_pytree_of_arrays_that_plans_and_learns(name, features, small):
    if name == "rpol":
        pytest.skip("needs a horizon of 1: see test_bandits.py")
    settings = {"features": features} if "features" in agents.REGISTERED[name].settings else {}
    built = agents.Recipe(name, settings).resolve(small, 10).build()
    assert isinstance(built.agent, Agent)
    assert isinstance(built.agent.values, protocols.FiniteValueModel)
    assert isinstance(built.agent.costs, protocols.FiniteCostModel)
    assert isinstance(built.agent.penalty, protocols.Penalty)
    assert isinstance(built.agent.choice, protocols.Choice)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(built.agent))
    state = begun(built.agent, small.sizes, built.share_values, built.share_costs)
    made, info = plan_of(built.agent, state, ties(jnp.uint32(1), 4, 5))
    assert made.policy.shape == (4, 3, 5)
    np.testing.assert_allclose(np.asarray(made.policy, float).sum(1), 1, rtol=0, atol=1e-12)
    assert info.V.shape == (4, 5)
    seen = episode(6)._replace(V_next=made.V_next)
    learnt = learnt_from(built.agent, state, seen._replace(slot=seen.x_next))
    assert same_shapes(state, learnt)
    assert learnt.k == 2


@pytest.mark.quick
@pytest.mark.parametrize("name", agents.REGISTERED)
def test_every_setting_of_an_agent_exists_and_its_default_can_be_set(name):
    named = agents.REGISTERED[name]
    for key in named.settings:
        agents.Recipe(name, {key: SETTINGS[key].default})
    assert named.summary
    assert named.needs
    assert inspect.getdoc(getattr(agents, name.replace("-", "_")))


def test_changing_a_number_compiles_nothing(small):
    def advance(beta):
        built = agents.lsvi_ae(beta=beta, floor="sqrt" if beta > 1 else "k").resolve(small, 10).build()
        carry = loop.start(built.agent, small.sizes, built.share_values, built.share_costs)
        carries = jax.tree.map(lambda leaf: leaf[None], carry)
        world = jax.tree.map(jnp.asarray, small.world)
        job = loop.Job(built.agent, world, small.sizes)
        loop.scan_seeds(job, carries, jnp.zeros(1, jnp.uint32), jnp.int32(3), 500, False)
        return loop.scan_seeds._cache_size()

    assert advance(0.5) == advance(2.0)
