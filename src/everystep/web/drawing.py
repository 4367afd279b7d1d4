"""How the states and actions of a problem appear on its map.

On a lake a state is a cell and an action a step to a neighbour. On a racetrack a state is a cell and a velocity, and an
action is a move by up to `top_speed` cells. A page shows cells and moves: the visits of a cell are the sum over its
states, a move is safe or unsafe if a state of the cell shows it, and the plan of a cell is that of its state that was
visited most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from everystep.mdp import planner
from everystep.mdp.cmdp import Factored, FiniteCMDP, Grid
from everystep.mdp.world import at_step
from everystep.web import harm

UNKNOWN, SAFE, UNSAFE, NO_MOVE = 0, 1, 2, 3  # of an action in a frame; NO_MOVE: from this cell no action moves so
MIXED = 255  # in place of an action, where a plan is a distribution over several, or no state is on the cell
DIRECTIONS = {(0, -1): "left", (1, 0): "down", (0, 1): "right", (-1, 0): "up", (0, 0): "stay"}

Violation = tuple[int, int, int, int, float]  # episode, step, state, action, amount


class Move(NamedTuple):
    """What an action does on the map, in cells."""

    name: str
    down: int
    right: int


class Drawing:
    """The map of a problem: `moves` are what its actions do there, numbered as the page numbers them."""

    def __init__(self, problem: FiniteCMDP) -> None:
        assert problem.grid is not None
        self.problem, self.grid = problem, problem.grid
        if self.grid.moves is None:
            steps = _steps(problem, self.grid)
            names = problem.action_names or [DIRECTIONS[step] for step in steps]
            self.moves = [Move(name, *step) for name, step in zip(names, steps, strict=True)]
            self._move = np.broadcast_to(np.arange(problem.actions), (problem.states, problem.actions))
        else:
            flat = np.asarray(self.grid.moves).reshape(-1, 2).astype(int)
            distinct, which = np.unique(flat, axis=0, return_inverse=True)
            self.moves = [Move(_name(down, right), down, right) for down, right in distinct.tolist()]
            self._move = which.reshape(problem.states, problem.actions)
        self._cells = np.arange(problem.states) if self.grid.cells is None else np.asarray(self.grid.cells)

    @property
    def top_speed(self) -> int:
        """The largest number of cells of a move in one direction."""
        return max(1, *(max(abs(move.down), abs(move.right)) for move in self.moves))

    @property
    def shares_cells(self) -> bool:
        """Whether several states are on one cell."""
        return self.grid.cells is not None

    def cells(self, states: Sequence[int]) -> list[int]:
        return [int(self._cells[x]) for x in states]

    def visits(self, visits: np.ndarray) -> np.ndarray:
        """(cells,): the visits of all states of each cell, from those of each state."""
        return np.asarray(self.grid.by_cell(visits).reshape(-1).astype(visits.dtype))

    def typical(self, visits: np.ndarray) -> np.ndarray:
        """(cells,): the state of each cell that was visited most, the slowest of several; -1 where there is none."""
        if not self.shares_cells:
            return np.arange(self.grid.size)
        order = np.lexsort((self._speed, -visits, self._cells))
        cells, first = np.unique(self._cells[order], return_index=True)
        states = np.full(self.grid.size, -1)
        states[cells] = order[first]
        return states

    def policy(self, policy: np.ndarray, visits: np.ndarray) -> np.ndarray:
        """(H, cells): the move of the plan in the state of each cell that was visited most; the slowest of several."""
        states = self.typical(visits)
        cells = np.flatnonzero(states >= 0)
        typical = states[cells]
        action = policy[:, typical]
        mixed = action == MIXED
        drawn = np.full((len(policy), self.grid.size), MIXED, np.uint8)
        drawn[:, cells] = np.where(mixed, MIXED, self._move[typical, np.where(mixed, 0, action)])
        return drawn

    def labels(self, labels: np.ndarray) -> np.ndarray:
        """(cells, moves): unsafe if any state and action of this cell and move are, else safe if any are."""
        rank = np.array([1, 2, 3], np.uint8)[labels]  # 0 is no move, and the largest counts
        best = np.zeros((self.grid.size, len(self.moves)), np.uint8)
        np.maximum.at(best, (self._cells[:, None], self._move), rank)
        return np.array([NO_MOVE, UNKNOWN, SAFE, UNSAFE], np.uint8)[best]

    def safe(self, safe: np.ndarray) -> np.ndarray:
        """(cells, moves): 1 where no state and action of this cell and move are unsafe, from 1 or 0 for each (x, a)."""
        best = np.ones((self.grid.size, len(self.moves)), np.uint8)
        np.minimum.at(best, (self._cells[:, None], self._move), safe)
        return best

    def violations(self, violations: Sequence[Violation]) -> list[Violation]:
        """The same with cells and moves in place of states and actions."""
        return [(k, h, int(self._cells[x]), int(self._move[x, a]), amount) for k, h, x, a, amount in violations]

    def path(self, policy: np.ndarray) -> list[int] | None:
        """The cells of the most likely episode of a plan (H, S), up to a state where it is mixed; None on a lake."""
        if not self.shares_cells:
            return None
        x = int(np.argmax(planner.start_distribution(self.problem)))
        states = [x]
        for h, actions in enumerate(policy):
            if actions[x] == MIXED:
                break
            x = _likeliest(self.problem, h, x, int(actions[x]))
            states.append(x)
        return self.cells(states)

    # --- harm-to-go ---------------------------------------------------------------------------------------------------
    @cached_property
    def exact_harm(self) -> dict[str, Any] | None:
        """G* for a page; None where every state has a safe action, and if it is too large or cells differ too much."""
        per_cell = np.bincount(self._cells)
        alike = len(np.unique(per_cell[per_cell > 0])) == 1
        return harm.sent(harm.exact(self.problem)) if harm.is_shown(self.problem) and alike else None

    @property
    def shows_harm(self) -> bool:
        return self.exact_harm is not None

    @cached_property
    def states(self) -> np.ndarray:
        """(V, cells): the states of each cell, in order; -1 where there are none."""
        order = np.argsort(self._cells, kind="stable")
        cells, per_cell = np.unique(self._cells, return_counts=True)
        states = np.full((int(per_cell[0]), self.grid.size), -1)
        states[:, cells] = order.reshape(len(cells), -1).T
        return states

    @cached_property
    def velocities(self) -> list[Move]:
        """What the states of a cell differ in: the move without acceleration, which is the median over actions."""
        if self.grid.moves is None:
            return [Move("", 0, 0)]
        coasting = np.median(self.grid.moves, axis=1).astype(int)  # (S, 2); 0 in goals, which are never left
        fastest: Callable[[np.ndarray], np.ndarray] = lambda states: coasting[
            states[np.abs(coasting[states]).sum(-1).argmax()]
        ]
        found = [fastest(states[states >= 0]).tolist() for states in self.states]
        return [Move(_name(down, right) if down or right else "at rest", down, right) for down, right in found]

    @property
    def move_of_action(self) -> np.ndarray:
        """(S, A): the number of the move that an action is."""
        return np.asarray(self._move)

    @cached_property
    def _speed(self) -> np.ndarray:
        """(S,): how far the actions of a state move on average."""
        assert self.grid.moves is not None
        return np.asarray(np.abs(np.asarray(self.grid.moves).mean(1)).sum(-1))


def _likeliest(problem: FiniteCMDP, h: int, x: int, a: int) -> int:
    """The most likely next state."""
    P = at_step(problem.P, h)
    if isinstance(P, Factored):
        return int((P.phi[x, a] @ P.mu).argmax())
    return int(P.states[x, a, P.probabilities[x, a].argmax()])


def _name(down: int, right: int) -> str:
    parts = [f"{abs(down)} {'down' if down > 0 else 'up'}"] if down else []
    parts += [f"{abs(right)} {'right' if right > 0 else 'left'}"] if right else []
    return ", ".join(parts) or "stay"


def _steps(problem: FiniteCMDP, grid: Grid) -> list[tuple[int, int]]:
    """The direction of each action, (down, right): its most frequent move among the cells where it moves."""
    here = np.arange(problem.states)
    place: Callable[[np.ndarray], np.ndarray] = lambda x: np.stack([x // grid.width, x % grid.width], -1)
    if "landing" in problem.coordinates:
        aims = np.asarray(problem.coordinates["landing"])
    else:
        P = at_step(problem.P, 0)
        if isinstance(P, Factored):
            likely = (P.phi @ P.mu).argmax(-1)
        else:
            likely = np.take_along_axis(P.states, P.probabilities.argmax(-1)[..., None], -1)[..., 0]
        aims = place(likely)
    moves = []
    for a in range(problem.actions):
        step = (aims[:, a] - place(here)).astype(int)
        found, times = np.unique(step[(np.abs(step).sum(-1) == 1)], axis=0, return_counts=True)
        moves.append((int(found[times.argmax()][0]), int(found[times.argmax()][1])) if len(found) else (0, 0))
    return moves
