"""The parts that problems on a grid share: slippery moves, the reward of a goal, coordinates, shortest routes.

A state is a cell, row * width + column; an action is a direction. Everything is built on `landing` (S, A), the cell
that each action aims at: a problem that blocks a move changes `landing` and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from everystep.errors import LARGEST_TEXT, EverystepError, check_openable, listed, shown
from everystep.mdp.cmdp import Successors

ACTIONS = ("left", "down", "right", "up")
MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))
SLIP = 0.1  # probability that a move slips, half of it to each side
GOAL_REWARD, STEP_REWARD = 6.0, 0.01
SPARE = 3  # steps that the shortest safe route must leave of the horizon, because moves slip


def landing_cells(wall: np.ndarray) -> np.ndarray:
    """(S, A): the cell that each action aims at, given walls and the edge of the grid; `wall` is (rows, columns)."""
    height, width = wall.shape
    row, column = np.indices(wall.shape).reshape(2, -1)
    landing = np.zeros((wall.size, len(MOVES)), np.int64)
    for a, (down, right) in enumerate(MOVES):
        y, x = np.clip(row + down, 0, height - 1), np.clip(column + right, 0, width - 1)
        blocked = wall[y, x]
        landing[:, a] = np.where(blocked, row, y) * width + np.where(blocked, column, x)
    return landing


def slippery_moves(landing: np.ndarray, goal: np.ndarray, slip: float = SLIP) -> Successors:
    """1 - slip as intended, slip / 2 to each side; goals, booleans (S,), are absorbing."""
    S, A = landing.shape
    turned = [np.roll(landing, turn, axis=1) for turn in (0, -1, 1)]
    states = np.where(goal[:, None, None], np.arange(S)[:, None, None], np.stack(turned, -1))
    chances = np.where(goal[:, None, None], [1.0, 0.0, 0.0], [1 - slip, slip / 2, slip / 2])
    return Successors(states, np.broadcast_to(chances, (S, A, 3)))


def entering_rewards(goal: np.ndarray, moves: Successors) -> np.ndarray:
    """(S, A, 3), observed on arrival: 6 on the step that enters a goal, 0.01 on every other step."""
    return np.where(goal[moves.states] & ~goal[:, None, None], GOAL_REWARD, STEP_REWARD)


def steps_to(goal: np.ndarray, landing: np.ndarray, at_most: float = np.inf) -> np.ndarray:
    """The length of a shortest route from every cell to `goal`, inf where it exceeds `at_most` steps.

    `goal` is (S,), or (S, n) for n sets of goals; the result has the same shape.
    """
    if goal.size == len(landing):
        return _steps_to_one(goal.reshape(-1), landing, at_most).reshape(goal.shape)
    near = goal
    steps = np.where(goal, 0.0, np.inf)
    ring = 1
    while ring <= at_most:
        nearer = np.logical_or.reduce([near, *(near[landing[:, a]] for a in range(landing.shape[1]))])
        new = nearer & ~near
        if not new.any():
            break
        steps[new] = ring
        near, ring = nearer, ring + 1
    return steps


def _steps_to_one(goal: np.ndarray, landing: np.ndarray, at_most: float) -> np.ndarray:
    """`steps_to` one set of goals, (S,): each cell is visited once, so that a long corridor takes linear time."""
    order = np.argsort(landing, axis=None, kind="stable")
    source = order // landing.shape[1]  # the cells that lead to cell 0, to cell 1, ...
    first = np.searchsorted(landing.reshape(-1)[order], np.arange(len(landing) + 1))  # where those of each cell begin
    steps = np.where(goal, 0.0, np.inf)
    ring, latest = 1, np.flatnonzero(goal)
    while len(latest) and ring <= at_most:
        count = first[latest + 1] - first[latest]
        place = np.repeat(first[latest] - np.cumsum(count) + count, count) + np.arange(count.sum())
        cells = np.unique(source[place])
        latest = cells[np.isinf(steps[cells])]
        steps[latest] = ring
        ring += 1
    return steps


def remarks_on_route(steps: float, horizon: int) -> tuple[str, ...]:
    """A remark if the goal cannot be reached, by the length of a shortest route from S."""
    if steps == np.inf:
        return ("no path leads from S to G: the goal can never be reached.",)
    if steps > horizon:
        return (
            f"the horizon {horizon} is shorter than the {steps:.0f} steps from S to G: the goal can never be reached.",
        )
    return ()


def grid_coordinates(landing: np.ndarray, width: int) -> dict[str, np.ndarray]:
    """Rows and columns of the cell of each (x, a) (`position`), of the cell it aims at (`landing`), and both (`move`).

    At an absorbing goal every action must aim at the goal itself.
    """
    place: Callable[[np.ndarray], np.ndarray] = lambda cell: np.stack([cell // width, cell % width], -1).astype(float)
    position = place(np.broadcast_to(np.arange(len(landing))[:, None], landing.shape))
    return {"position": position, "landing": place(landing), "move": np.concatenate([position, place(landing)], -1)}


def cell_name(x: int, width: int) -> str:
    """The name of a cell in messages; rows and columns count from 1."""
    return f"the cell in row {x // width + 1}, column {x % width + 1}"


def check_equally_long(rows: Sequence[Sequence[str]]) -> None:
    """Raise an error for the first row whose length differs."""
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise EverystepError(
                f"row {number} has {len(row)} cells, row 1 has {len(rows[0])}. Make all rows equally long."
            )


# --- maps -------------------------------------------------------------------------------------------------------------
def map_rows(given: object) -> tuple[str, ...]:
    """The rows of a map, given as one text, as texts, or as lists of letters."""
    if isinstance(given, str):
        return tuple(given.rstrip("\n").split("\n"))
    try:
        return tuple("".join(row) for row in listed("rows", given))
    except TypeError:
        raise EverystepError(f"rows are {shown(given)}; give a text for each row of the map.") from None


def read_map(path: Path) -> tuple[str, ...]:
    """The rows of a map in a text file."""
    check_openable(path, LARGEST_TEXT)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise EverystepError("the file cannot be read as text. Give a map with one row per line.") from None
    return tuple(line.rstrip("\r") for line in text.rstrip("\n").split("\n"))


def check_letters(rows: tuple[str, ...], letters: str, words: str) -> None:
    """Raise an error unless the rows are equally long, hold these letters only (`words` lists them), and have a G."""
    if not rows or not any(row.strip() for row in rows):
        raise EverystepError(f"the map is empty. Draw it as rows of {words.replace('F or .', 'F')}.")
    check_equally_long(rows)
    for number, row in enumerate(rows, 1):
        for column, letter in enumerate(row, 1):
            if letter not in letters:
                raise EverystepError(f"row {number}, column {column} is '{letter}'. Use {words} only.")
    if not any("G" in row for row in rows):
        raise EverystepError("the map has no cell G. Give it a goal.")
