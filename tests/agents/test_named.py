"""The named agents are the compositions that the documentation lists."""

import jax.numpy as jnp
import pytest

from everystep import agents
from everystep.lsvi.ahead import HarmToGo, Marked
from everystep.lsvi.choices.basic import Greedy, Penalised, Reacting, Uniform
from everystep.lsvi.penalties import NoPenalty, Rectified, VirtualQueue
from everystep.problems import streaming

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def built():
    stream = streaming()
    return lambda recipe: recipe.resolve(stream, 10).build().agent


@pytest.mark.parametrize(
    ("recipe", "penalty", "choice"),
    [
        (agents.lsvi_ae(), Rectified, Penalised),
        (agents.lsvi_ae(react=True), Rectified, Reacting),
        (agents.lsvi(), NoPenalty, Greedy),
        (agents.lsvi_primal(), VirtualQueue, Penalised),
        (agents.lsvi_ahead(), Rectified, Penalised),
        (agents.uniform(), NoPenalty, Uniform),
    ],
    ids=lambda value: value.label if isinstance(value, agents.Recipe) else value.__name__,
)
def test_an_agent_is_composed_of_the_parts_that_its_definition_names(built, recipe, penalty, choice):
    agent = built(recipe)
    assert isinstance(agent.penalty, penalty)
    assert isinstance(agent.choice, choice)


def test_only_agents_that_look_ahead_have_a_part_for_it(built):
    assert built(agents.lsvi_ae()).ahead is None
    assert isinstance(built(agents.lsvi_ahead()).ahead, HarmToGo)
    assert isinstance(built(agents.sucbvi()).ahead, Marked)


def test_settings_reach_the_parts(built):
    agent = built(agents.lsvi_ae(beta=0.3, lam=0.7, optimism=-1, floor=2))
    assert float(agent.values.radius.beta) == 0.3
    assert float(agent.values.lam) == 0.7
    assert float(agent.optimism) == -1
    assert float(agent.penalty.floor(jnp.int32(1))) == 2
    assert not built(agents.lsvi_primal()).choice.rectify
    assert built(agents.lsvi_ae()).choice.rectify
