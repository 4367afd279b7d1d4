"""A robot on a map with a smooth field of hazards: a linear mixture with few weights for a hundred cells."""

from __future__ import annotations

import numpy as np

from everystep.errors import EverystepError, seed_number, whole_number
from everystep.mdp import planner
from everystep.mdp.cmdp import FiniteCMDP, Grid, Known, Noise
from everystep.problems.grids import ACTIONS, cell_name, grid_coordinates, landing_cells
from everystep.problems.registry import Comparison, register
from everystep.runtime import memory

SLIPS = (0.9, 0.06, 0.04)  # unknown probabilities: a move as intended, turned to its left, to its right
TAU = 0.5
CENTRES = 3  # along each side of the map
AT_REST = 0.4  # the fraction of a cell's hazard that staying there costs
KERNEL_SHARE = 0.1  # the scale of kernels in the triples, which carry no information on costs
OF_FREE = (0.4, 0.9)  # range of the ratio of the safe optimum to the unconstrained one, for H = 5/2 size
LEAST_VIOLATION = 0.5  # least expected violation of the unconstrained optimum for that H
ATTEMPTS = 1000


@register("robot-map", gym_id="everystep/RobotMap-v0", compared=Comparison(episodes=500))
def robot_map(seed: int = 0, horizon: int = 25, size: int = 10) -> FiniteCMDP:
    """A robot on a 10 x 10 map with smooth hazards: moves slip with unknown probabilities, staying is known to be safe.

    States      cells, row by row from the top left, where the robot starts. The goal is the top right.
    Actions     left, down, right, up, stay.
    Transitions P = w_1 P_intended + w_2 P_left + w_3 P_right: a move goes as intended, or is turned to its left or
                right; at the edge it stays. The three kernels are known, w = (0.9, 0.06, 0.04) is not. Staying never
                slips.
    Reward      exp(-distance^2 / (2 (size / 3)^2)), with the distance from the next cell to the goal: 1 per step there.
    Constraint  the hazard of a cell is <gamma, psi(x')>, where psi(x') are 3 x 3 normalised radial basis functions
                around evenly spaced centres and gamma in [0, 1] is drawn by `seed`. A move costs the hazard of the next
                cell, staying 0.4 of it; c is the mean cost, g = c - 0.5. So staying is safe everywhere by at least 0.1.
    Observed    rewards and costs of the next cell.
    Triples     phi(x, a, x') = [0.1 P_n(x' | x, a) for each kernel, psi(x') or 0.4 psi(x')] of size 12, scaled to norms
                of at most 1, and 0 where x' cannot follow. P and the costs observed on arrival are linear in them.
    Start       the top left cell.
    Known       the threshold 0.5, staying as the safe action, the triples.
    Optimum     15.285493232370 under the constraint, 19.963683506937 without it, 0.653035246348 for staying (seed 0).
    Origin      LSVI-NEW's paper (Shi, Liang and Shroff, 2023) reports results on a 10 x 10 robot map with H = 100 that
                it does not print. This one was made for this library: maps are drawn until safety costs some of the
                reward but not all of it. `horizon=100` is that of the paper; 25 runs faster.

    >>> robot = es.problems.robot_map(horizon=10)
    >>> robot.sizes, robot.action_names
    (Sizes(states=100, actions=5, successors=5, horizon=10, constraints=1), ('left', 'down', 'right', 'up', 'stay'))
    """
    horizon, n = whole_number("horizon", horizon), whole_number("size", size, at_least=4)
    rng = np.random.default_rng(seed_number("seed", seed))
    memory.check_problem(lambda size: 10 * memory.of_table(size**2, 5), size=n)
    S = n * n
    move, stay = landing_cells(np.zeros((n, n), bool)), np.arange(S)[:, None]
    turned = [np.concatenate([np.roll(move, turn, axis=1), stay], 1) for turn in (0, -1, 1)]
    kernels = np.stack([np.eye(S)[landing] for landing in turned])  # (3, S, A, S)
    A = kernels.shape[2]
    P = np.tensordot(SLIPS, kernels, 1)

    psi = _radial(n)
    share = np.where(np.arange(A) == A - 1, AT_REST, 1.0)
    seen = share[None, :, None, None] * psi[None, None]  # for each (a, x')
    possible = (kernels.sum(0) > 0)[..., None]
    triples = np.concatenate([KERNEL_SHARE * np.moveaxis(kernels, 0, -1), possible * seen], -1)
    triples /= np.linalg.norm(triples, axis=-1).max()

    row, column = np.indices((n, n)).reshape(2, -1)
    earned = np.exp(-(row**2 + (n - 1 - column) ** 2) / (2 * (n / 3) ** 2))

    def drawn(hazard: np.ndarray, horizon: int) -> FiniteCMDP:
        cost = np.broadcast_to(share[:, None] * hazard - TAU, P.shape)  # on arrival
        return FiniteCMDP(
            P,
            P @ earned,
            (P * cost).sum(-1),
            start=0,
            horizon=horizon,
            noise=Noise(np.broadcast_to(earned, P.shape), cost),
            name=f"robot-map-{seed}",
            state_names=tuple(cell_name(x, n) for x in range(S)),
            action_names=(*ACTIONS, "stay"),
            grid=Grid(_rows(hazard > TAU, n), hazard.reshape(n, n)),
            coordinates=grid_coordinates(turned[0], n),
            known=Known(TAU, np.full(S, A - 1), triples),
        )

    for _ in range(ATTEMPTS):
        hazard = psi @ _weights(rng)
        judged = drawn(hazard, 5 * n // 2)  # at a fixed horizon, so that `horizon` does not change the map
        safe, free = planner.solve(judged).value, planner.solve(judged, safe=False)
        worth, violation = safe / free.value, planner.evaluate(judged, free.policy).violation
        if OF_FREE[0] <= worth <= OF_FREE[1] and violation >= LEAST_VIOLATION:
            return drawn(hazard, horizon)
    raise EverystepError(f"no map of size {n} and seed {seed} has a safe route to the goal; give another seed or size.")


def _radial(n: int) -> np.ndarray:
    """psi (S, 9): radial basis functions around evenly spaced centres, normalised to sum to 1 at every cell."""
    row, column = np.indices((n, n)).reshape(2, -1, 1)
    place = (np.arange(CENTRES) + 0.5) / CENTRES * n - 0.5
    y, x = (each.reshape(1, -1) for each in np.meshgrid(place, place, indexing="ij"))
    bumps = np.exp(-((row - y) ** 2 + (column - x) ** 2) / (2 * (n / (2 * CENTRES)) ** 2))
    return np.asarray(bumps / bumps.sum(-1, keepdims=True))


def _weights(rng: np.random.Generator) -> np.ndarray:
    """gamma: the centre between start and goal is dangerous, and two more below are, too."""
    gamma = rng.uniform(0.0, 0.3, CENTRES**2)
    dangerous = [CENTRES // 2, *rng.permutation(np.arange(CENTRES, CENTRES**2))[:2]]
    gamma[dangerous] = rng.uniform(0.85, 1.0, len(dangerous))
    return gamma


def _rows(hazard: np.ndarray, n: int) -> tuple[str, ...]:
    cells = np.where(hazard, "H", "F")
    cells[0], cells[n - 1] = "S", "G"
    return tuple("".join(row) for row in cells.reshape(n, n))
