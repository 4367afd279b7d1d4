"""Linear mixtures with known safe actions."""

from functools import cache

import numpy as np
from oracles import lsvi as oracle

from everystep.mdp.cmdp import FiniteCMDP, Known, Noise
from everystep.problems import synthetic

TRAP, PIT = 4, 5


@cache
def passage(constraints=1, stepped=False, start=0, known=None):
    """Six states. Landing in the pit is unsafe; the trap is safe itself, but every action there may lead to the pit.

    Each (x, a) has two or three next states. Action 0 stays in states 0 to 3 and is the known safe action. Costs depend
    on three features of the state reached; P mixes two kernels with unknown weights.
    """
    rng = np.random.default_rng(5)
    S, A, H = 6, 4, 4
    bases = np.zeros((2, S, A, S))
    for x in range(S):
        for a in range(A):
            among = range(4) if a == 0 and x < 4 else range(S)
            follows = rng.choice([y for y in among if y != PIT], 2, replace=False).tolist()
            follows += [PIT] if x >= TRAP or (a == 3 and rng.random() < 0.5) else []
            bases[:, x, a, follows] = rng.dirichlet(np.ones(len(follows)), 2)
    psi = rng.uniform(0.2, 1, (S, 3))
    psi[PIT] = 3.0, 3.0, 2.5
    per_landing = np.broadcast_to(psi, (S, A, S, 3)) * (bases > 0).any(0)[..., None]
    phi = np.concatenate([np.moveaxis(bases, 0, -1), per_landing], -1)
    phi = phi / np.linalg.norm(phi, axis=-1).max()
    gamma = rng.uniform(0.3, 0.8, (constraints, H if stepped else 1, 3))
    scale = np.linalg.norm(np.concatenate([np.moveaxis(bases, 0, -1), per_landing], -1), axis=-1).max()
    cost = np.einsum("yd,mtd->mty", psi, gamma)[:, :, None, None] / scale * np.ones((S, A, 1))
    tau = np.array([0.45, 0.5])[:constraints]
    w = rng.dirichlet(np.ones(2), H if stepped else 1)
    P = np.einsum("tn,nxay->txay", w, bases)
    seen = cost - tau[:, None, None, None, None]
    return FiniteCMDP(
        P if stepped else P[0],
        rng.random((S, A)),
        (P * seen).sum(-1),
        start=start,
        horizon=H,
        noise=Noise(cost_on_arrival=seen, cost_sigma=0.01),
        exempt=np.arange(S) >= TRAP,
        known=Known(tau, np.zeros(S, int), phi) if known is None else known,
        name="passage",
    )


@cache
def few():
    """The synthetic problem, smaller: every state may follow every other."""
    return synthetic(states=4, directions=2, levels=3)


def by_step(array, H, axis=0):
    return np.broadcast_to(array, (*array.shape[:axis], H, *array.shape[axis + 1 :]))


def of_one_action(p):
    """The value of always playing the known safe action."""
    policy = np.broadcast_to(p.known.safe_action, (p.horizon, p.states))
    return oracle.evaluate(by_step(p.dense_P, p.horizon), by_step(p.r, p.horizon), policy)[p.start[0]]
