"""The Frozen Lake of the paper's simulation, and lakes from rows of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from everystep.errors import EverystepError, one_of, real_number, seed_number, whole_number
from everystep.mdp.cmdp import FiniteCMDP, Grid, Noise
from everystep.problems.grids import (
    ACTIONS,
    GOAL_REWARD,
    SLIP,
    SPARE,
    STEP_REWARD,
    cell_name,
    check_letters,
    entering_rewards,
    grid_coordinates,
    landing_cells,
    map_rows,
    remarks_on_route,
    slippery_moves,
    steps_to,
)
from everystep.problems.registry import Comparison, register
from everystep.runtime import memory

# The 10 x 10 map of CISR (Turchetta et al., NeurIPS 2020), from which the paper's experiment descends.
PAPER_MAP = (
    "SFFFFFFFFF",
    "FFFFFFFFFF",
    "HFFFFFFFFF",
    "FFHFFFFFFF",
    "HFFFFHFFFF",
    "FFHFFFHFFF",
    "HFFFFHFFFF",
    "FFHFFFFFFF",
    "HFFFFFFFFF",
    "FFFGFFFFFF",
)
CELLS = "SF.HG#"


@register(
    "frozen-lake",
    gym_id="everystep/FrozenLake-v0",
    compared=Comparison(episodes=1000, settings={"safe_action": "safest"}, ablation=True),
)
def frozen_lake(
    horizon: int = 15,
    reward: Literal["once", "at_goal"] = "once",
    cost: Literal["intended", "realised"] = "intended",
) -> FiniteCMDP:
    """The paper's 10 x 10 lake: reach the goal in 15 slippery steps without a step towards a hazard.

    States      100 cells, row * 10 + column.
    Actions     0 left, 1 down, 2 right, 3 up.
    Transitions 0.9 as intended, 0.05 to each side; a move off the grid stays in place; the goal is absorbing.
    Reward      6 on the step that enters the goal, 0.01 on every other step.
    Constraint  g = +1 if the intended cell is a hazard, else -1. Hazards do not end the episode.
    Optimum     5.2256161694573 under the constraint, 5.8231480984017 without it (H = 15).
    Origin      CISR's `small` map; the paper prints neither its map nor these details (docs/paper.md).

    >>> lake = es.problems.frozen_lake()
    >>> round(es.planner.solve(lake).value, 4)
    5.2256
    >>> round(es.planner.solve(lake, safe=False).value, 4)
    5.8231
    """
    return from_map(PAPER_MAP, horizon=horizon, reward=reward, cost=cost, name="frozen-lake")


def from_map(
    rows: Sequence[str],
    horizon: int = 15,
    reward: Literal["once", "at_goal"] = "once",
    cost: Literal["intended", "realised"] = "intended",
    name: str = "map",
    slip: float = SLIP,
) -> FiniteCMDP:
    """A lake from rows of text: S start, F or . ice, H hazard, G goal (one or more), # wall (never entered).

    `reward="at_goal"` gives 6 on each step spent at a goal instead of once on entering it. `cost="realised"` observes
    +1 when the agent lands on a hazard and -1 otherwise, so that g = 2 P(hit) - 1. A move slips with probability
    `slip`, half of it to each side.

    >>> pond = es.problems.from_map(["SF.", ".H.", ".#G"], horizon=8)
    >>> pond.states, round(es.planner.solve(pond).value, 3)
    (9, 6.023)
    """
    rows = map_rows(rows)
    horizon = whole_number("horizon", horizon)
    slip = real_number("slip", slip, most=1.0)
    _check_rows(rows)
    one_of("reward", reward, ("once", "at_goal"))
    one_of("cost", cost, ("intended", "realised"))
    memory.check_problem(memory.of_grid, cells=len(rows) * len(rows[0]))
    cells = np.array([list(row) for row in rows]).reshape(-1)
    goal, hazard, wall = cells == "G", cells == "H", cells == "#"
    landing = landing_cells(wall.reshape(len(rows), -1))
    S = len(landing)
    P = slippery_moves(landing, goal, slip)

    # Observed on arrival: the reward depends on the next state; so does the cost, if realised.
    if reward == "once":
        earned = entering_rewards(goal, P)
    else:
        earned = np.full(P.states.shape, STEP_REWARD)
        earned[goal] = GOAL_REWARD
    hit = np.where(hazard[P.states], 1.0, -1.0)
    hit[goal] = -1.0
    aimed = np.where(hazard[landing], 1.0, -1.0)
    aimed[goal] = -1.0

    start = int(np.flatnonzero(cells == "S")[0])
    lake = FiniteCMDP(
        P,
        (P.probabilities * earned).sum(-1),
        aimed if cost == "intended" else (P.probabilities * hit).sum(-1),
        start=start,
        horizon=horizon,
        noise=Noise(reward_on_arrival=earned, cost_on_arrival=hit if cost == "realised" else None),
        name=name,
        state_names=tuple(cell_name(x, len(rows[0])) for x in range(S)),
        action_names=ACTIONS,
        exempt=wall,
        grid=Grid(rows),
        remarks=remarks_on_route(steps_to(goal, landing)[start], horizon),
        coordinates=grid_coordinates(np.where(goal[:, None], np.arange(S)[:, None], landing), len(rows[0])),
        kernel="categorical(on=landing)" if cost == "intended" else None,
    )
    lake.check()
    return lake


def random_lake(seed: int, size: int = 10, hazards: float = 0.12, horizon: int = 15) -> FiniteCMDP:
    """A random lake with a safe route to the goal that leaves at least three steps to spare.

    States, actions, reward and constraint are those of `frozen_lake`. Each cell except S and G is a hazard with
    probability `hazards`. S and G are drawn until the shortest route around hazards has between H / 2 and H - 3 steps
    and every cell has a safe action.

    >>> es.problems.random_lake(seed=1, size=6, horizon=12).grid.rows
    ('FFFHFF', 'FFFFFF', 'FFHHFH', 'FFFFHF', 'FFHFFF', 'FGHFFS')
    """
    rng = np.random.default_rng(seed_number("seed", seed))
    size, horizon = whole_number("size", size, at_least=2), whole_number("horizon", horizon, at_least=4)
    hazards = real_number("hazards", hazards, most=1.0)
    memory.check_problem(lambda size: memory.of_grid(size**2), size=size)
    for _ in range(10_000):
        cells = np.where(rng.random((size, size)) < hazards, "H", "F")
        start, goal = rng.choice(size * size, 2, replace=False)
        cells.flat[start], cells.flat[goal] = "S", "G"
        around = landing_cells(cells == "H")
        if not horizon / 2 <= steps_to(cells.reshape(-1) == "G", around)[start] <= horizon - SPARE:
            continue
        aims_at_hazards = (cells == "H").reshape(-1)[landing_cells(np.zeros(cells.shape, bool))].all(1)
        if not (aims_at_hazards & (cells.reshape(-1) != "G")).any():
            return from_map(cells.tolist(), horizon=horizon, name=f"random-lake-{seed}")
    raise EverystepError(
        f"no lake of size {size} with hazards {hazards} fits a horizon of {horizon}; change one of them."
    )


def _check_rows(rows: tuple[str, ...]) -> None:
    starts = "".join(rows).count("S")
    check_letters(rows, CELLS, "S, F or ., H, G and #")
    if starts != 1:
        raise EverystepError(f"the map has {starts} cells S. Give it exactly one start.")
