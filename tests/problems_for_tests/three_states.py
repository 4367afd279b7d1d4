"""A problem of three states, with every array given, and arrays with one change."""

import numpy as np

from everystep.mdp.cmdp import FiniteCMDP

S, A, H = 3, 2, 4


def problem(**changes):
    """Three states, two actions, four steps; the second action is unsafe in state 0."""
    g = np.full((S, A), -1.0)
    g[0, 1] = 1.0
    arrays = {"P": np.full((S, A, S), 1 / S), "r": np.zeros((S, A)), "g": g, "horizon": H}
    return FiniteCMDP(**(arrays | changes))


def every_step(array):
    return np.broadcast_to(array, (H, *array.shape)).copy()


def altered(array, where, value):
    array = np.array(array, float)
    array[where] = value
    return array


P, r, g = problem().dense_P[0], problem().r[0], problem().g[0, 0]
