"""Random problems whose costs are linear in features."""

import numpy as np

from everystep.mdp.cmdp import FiniteCMDP, Noise


def featured(seed=0, m=1, sigma=0.2):
    """Costs that are linear in features of norm 1, seen with noise."""
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(6, 3, 4))
    phi /= np.linalg.norm(phi, axis=-1, keepdims=True)
    g = np.einsum("sad,md->msa", phi, rng.normal(size=(m, 4)) / 4)
    g -= np.maximum(g.max(0).min(-1), 0)[None, :, None] + 0.01  # a safe action everywhere
    P, r = rng.dirichlet(np.ones(6), (6, 3)), rng.random((6, 3))
    return FiniteCMDP(P, r, g.clip(-1, 1), horizon=4, features=phi, noise=Noise(cost_sigma=sigma))
