"""The parts of an agent on stored data, made from its settings."""

import jax
import numpy as np
import pytest
from helpers.stored import Box

from everystep import agents
from everystep.errors import EverystepError
from everystep.features.specs import bind, polynomial
from everystep.lsvi import radii
from everystep.lsvi.ahead import HarmToGo
from everystep.lsvi.choices.basic import Penalised, Reacting
from everystep.training.agent.models.linear import NoCosts
from everystep.training.agent.parts import StoredParts
from everystep.training.agent.resolve import EnvironmentInfo, ResolvedForTraining

pytestmark = pytest.mark.quick
LENGTH, HORIZON, CONSTRAINTS = 8, 4, 2


def parts(recipe, constraints=CONSTRAINTS, length=LENGTH):
    phi = bind(polynomial(1), Box(2), 3)
    info = EnvironmentInfo(phi, phi, 2, 3, HORIZON, length, (0.0, 1.0))
    return StoredParts(ResolvedForTraining.resolve(recipe, info), constraints)


def test_tuned_radii_are_the_settings_and_printed_ones_know_estimators_and_rows():
    tuned = parts(agents.lsvi_ae(beta=0.3, beta_cost=0.4))
    assert tuned.value_model().radius == radii.Tuned(0.3)
    assert tuned.cost_model().radius == radii.Tuned(0.4)
    for shared, rows, estimators in ((True, HORIZON, CONSTRAINTS), (False, 1, CONSTRAINTS * HORIZON)):
        printed = parts(agents.lsvi_ae(radius="paper", share_costs=shared, share_values=shared), length=HORIZON)
        d = float(printed.resolved.cost.d)
        expected = radii.PaperCost(1.0, d, printed["lam_cost"], float(rows), float(estimators), 0.05)
        assert printed.cost_model().radius == expected
        assert isinstance(printed.value_model().radius, radii.PaperValue)


def test_an_agent_without_costs_has_a_model_that_learns_none():
    assert isinstance(parts(agents.lsvi()).cost_model(), NoCosts)


def test_a_choice_reacts_and_looks_ahead_as_the_settings_say():
    plain, reacting = parts(agents.lsvi_ae()), parts(agents.lsvi_ae(react=True))
    assert isinstance(plain.penalised(True), Penalised)
    assert isinstance(reacting.penalised(True), Reacting)
    ahead = parts(agents.lsvi_ahead(tolerance=0.1, mode="least", beta_harm=0)).harm_to_go()
    assert isinstance(ahead, HarmToGo)
    assert (ahead.of_plan, ahead.tolerance, ahead.radius, ahead.cap) == (False, 0.1, None, HORIZON * CONSTRAINTS)
    np.testing.assert_array_equal(ahead.weights, np.ones(CONSTRAINTS))


def test_what_needs_a_list_of_states_is_refused():
    made = parts(agents.lsvi_ae())
    for part in (made.marked, made.safe_mixture, made.safe_graph):
        with pytest.raises(EverystepError, match="FiniteCMDP"):
            part()
    assert made.known_safe is None


def test_the_composition_is_made_of_arrays_and_starts_with_nothing_learnt():
    made = parts(agents.lsvi_ahead(switch=2.0))
    agent = made.build()
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(agent))
    state = made.start(agent, capacity=16)
    assert int(state.k) == 1
    assert state.price.shape == (1, HORIZON)  # one price for the violation ahead
    assert parts(agents.lsvi_ae()).start(parts(agents.lsvi_ae()).build(), 16).price.shape == (CONSTRAINTS, HORIZON)
