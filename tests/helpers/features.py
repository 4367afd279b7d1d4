"""Features of all kinds with the spaces they are made for."""

from types import SimpleNamespace

import numpy as np

from everystep import features as fs


def box(low, high):
    low, high = np.broadcast_arrays(np.asarray(low, np.float32), np.asarray(high, np.float32))
    return SimpleNamespace(low=low, high=high, shape=low.shape)


def discrete(n, start=0):
    return SimpleNamespace(n=n, start=start, shape=())


def bunch(*spaces):
    return SimpleNamespace(spaces=spaces)


PLANE = box([-2.0, 0.0], [2.0, 10.0])

OF_STATES = {
    "fourier": fs.fourier(30, 0.7, seed=1),
    "fourier with a constant": fs.fourier(5, (0.3, 2.0), constant=True),
    "centres on a grid": fs.centres((4, 3)),
    "given centres": fs.centres([[0.0, 5.0], [1.0, 2.0], [-1.0, 9.0]], 0.4),
    "polynomial": fs.polynomial(3),
    "tiles": fs.tiles(4, (5, 3)),
    "joined": fs.joined(fs.tiles(2, 2), fs.polynomial(1), fs.fourier(3)),
}

OF_PAIRS = {
    "mirrored": fs.mirrored(fs.fourier(7, 0.8, seed=2), actions=[1, 0]),
    "mirrored in one coordinate": fs.mirrored(fs.joined(fs.tiles(2, 3), fs.polynomial(2)), [1, 0], signs=[-1, 1]),
    "mirrored actions alone": fs.mirrored(fs.polynomial(2), actions=[0, 1]),
}

OF_A_LIST = {
    "one-hot": fs.one_hot(),
    "table": fs.table(np.random.default_rng(0).dirichlet(np.ones(3), (6, 2))),
    "table of states": fs.table(np.eye(6, 3)),
    "table divided": fs.table(5 * np.random.default_rng(1).normal(size=(6, 2, 4)), normalise=True),
    "function": fs.function(lambda x: np.array([[1.0, x], [x, 1.0]]) / 9),
    "function of states": fs.function(lambda x: np.array([0.5, x / 12]), crossed=True),
}


def inside(n, seed=0):
    return np.random.default_rng(seed).uniform([-2, 0], [2, 10], (n, 2))


def made(name):
    """Features of a name above with two actions, and some observations for them."""
    if name in OF_STATES | OF_PAIRS:
        return fs.bind((OF_STATES | OF_PAIRS)[name], PLANE, 2), inside(20)
    return fs.bind(OF_A_LIST[name], discrete(6, start=3), 2), np.arange(3, 9)


def shoved(x):
    """Where two actions lead: one to the left or to the right."""
    return [[x[0] - 1, x[1]], [x[0] + 1, x[1]]]
