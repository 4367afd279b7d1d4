"""The seed of the safe graph, from what the known safe actions keep safe."""

import numpy as np
import pytest
from problems_for_tests.mixtures import passage

import everystep as es
from everystep.errors import EverystepError
from everystep.mdp.cmdp import Known

TRAP, PIT = 4, 5


def ring(stepped):
    """A ring: a0 is safe, the other action is not; the triples of a0 have features of zero, or change by step."""
    P, g = np.zeros((2, 3, 2, 3)), np.full((3, 2), -0.2)
    for x in range(3):
        P[0, x, :, (x + 1) % 3] = P[1, x, :, (x + 1 + stepped) % 3] = 1
    g[:, 1] = 0.3
    triples = np.zeros((3, 2, 3, 1))
    triples[:, int(not stepped) :] = 1
    known = Known(0.2, np.zeros(3, int), triples)
    return es.FiniteCMDP(P, np.array([[0, 1.0]] * 3), g, horizon=2, known=known)


@pytest.mark.quick
@pytest.mark.parametrize("stepped", [False, True])
def test_a_seed_without_a_usable_triple_is_refused(stepped):
    with pytest.raises(EverystepError, match="triple of the seed"):
        es.run(ring(stepped), "lsvi-new", episodes=2, seeds=1)


def test_a_start_that_its_safe_actions_leave_is_refused():
    with pytest.raises(EverystepError, match="action 0 in state 4"):
        es.run(passage(start=TRAP), "lsvi-new", episodes=2, seeds=1)
