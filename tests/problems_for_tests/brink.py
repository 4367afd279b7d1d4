"""A state beside a state in which every action is unsafe."""

import numpy as np

from everystep.mdp.cmdp import FiniteCMDP, Noise

CLIFF = 0.3  # how likely action 1 of state 0 leads to state 1, where every action is unsafe


def brink(sigma: float = 0.0, arrival: bool = False) -> FiniteCMDP:
    """Action 0 of state 0 stays; action 1 pays and may lead to state 1, from which the only way back is unsafe."""
    P = np.array([[[1, 0], [1 - CLIFF, CLIFF]], [[1, 0], [1, 0]]], float)
    g = np.array([[-1, -1], [1, 0.5]])
    noise = Noise(cost_sigma=sigma)
    if arrival:  # harm is seen on arrival at state 1
        seen = np.broadcast_to([-1.0, 1.0], (2, 2, 2))
        g, noise = (P * seen).sum(-1), Noise(cost_on_arrival=seen)
    return FiniteCMDP(P, np.array([[0.0, 1], [0, 0]]), g, horizon=3, noise=noise)
