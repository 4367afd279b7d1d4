"""A random problem in which action 0 is safe."""

import numpy as np

import everystep as es
from everystep.mdp.cmdp import Noise


def random_problem(seed=0, S=6, A=3, H=4, m=2, **more):
    rng = np.random.default_rng(seed)
    g = rng.uniform(-1, 1, (m, S, A))
    g[:, :, 0] = -np.abs(g[:, :, 0])
    given = {"horizon": H, "noise": Noise(reward_sigma=0.1, cost_sigma=[0.2, 0.3][:m])} | more
    return es.FiniteCMDP(rng.dirichlet(np.ones(S), (S, A)), rng.random((S, A)), g, **given)
