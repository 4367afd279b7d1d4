"""Racetracks: a car with inertia, walls, and states in which no action is safe.

A state is a cell and a velocity. One decision changes the velocity by at most one cell per step, so a car that is
too fast for the wall ahead cannot avoid it: to be safe, an agent must brake earlier.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, cast

import numpy as np

from everystep.errors import EverystepError, one_of, real_number, shown, whole_number
from everystep.files import name_from
from everystep.mdp.cmdp import FiniteCMDP, Grid, Noise, Successors
from everystep.problems.grids import cell_name, check_letters, map_rows, read_map, remarks_on_route, steps_to
from everystep.problems.registry import Comparison, register
from everystep.runtime import memory

Finish = Literal["landing", "crossing"]
CELLS = "SF.G#"
FILES = (".track", ".txt")  # a file that ends in .txt is a lake unless it is given as `map`
FASTEST = 7  # of top_speed: pages number the 15 x 15 moves in bytes
ACCELERATIONS = tuple((down, right) for down in (-1, 0, 1) for right in (-1, 0, 1))
NAMES = ("up left", "up", "up right", "left", "coast", "right", "down left", "down", "down right")


class Track(NamedTuple):
    """A map of this module, with the settings that suit it."""

    rows: tuple[str, ...]
    top_speed: int
    horizon: int
    finish: Finish


MAPS = {
    "small": Track(
        (
            "##########",
            "#S...#...#",
            "#....#...#",
            "#........#",
            "#....#..G#",
            "##########",
        ),
        top_speed=2,
        horizon=16,
        finish="landing",
    ),
    # Up a straight that widens, through a bend to the right, over a finish line of four cells.
    "classic": Track(
        (
            "###############",
            "####.........G#",
            "###..........G#",
            "##...........G#",
            "##...........G#",
            "##.....########",
            "##....#########",
            "##....#########",
            "#.....#########",
            "#.....#########",
            "#.....#########",
            "#....##########",
            "#....##########",
            "#SSSS##########",
            "###############",
        ),
        top_speed=3,
        horizon=20,
        finish="crossing",
    ),
}


@register("racetrack", gym_id="everystep/Racetrack-v0", compared=Comparison(episodes=1000))
def racetrack(
    map: str | Path | Sequence[str] = "small",
    top_speed: int | None = None,
    failure: float = 0.0,
    horizon: int | None = None,
    finish: Finish | None = None,
) -> FiniteCMDP:
    """A car with inertia: reach the goal without hitting a wall, which requires braking in time.

    States      (cell, velocity) for every free cell of the map, cell by cell. A velocity is -top_speed, ..., top_speed
                cells per step down and right: the small map has 29 cells and 25 velocities, 725 states.
    Actions     9 accelerations: -1, 0 or 1 down and right (0 up left, 1 up, ..., 4 coast, ..., 8 down right).
    Transitions the acceleration is added to the velocity, which is clipped at top_speed; then the car moves by its new
                velocity. With probability `failure` the acceleration is 0 instead. A move by (down, right) has n =
                max(|down|, |right|) parts and passes, after part i, the cell nearest to i/n of it; halfway between two
                cells, the one nearer to the start. A wall there stops the car: it is at rest in the last free cell.
                Beyond the edge of the map there are walls. The goals are absorbing.
    Reward      1 on the step that enters a goal. With finish="landing" a move enters the goal that it ends on, with
                "crossing" the first one that it passes, where it ends.
    Constraint  g = P(the move hits a wall) where that is possible, else -1. The observation is 1 if it did, 0 if it
                could have (which only differs if accelerations fail), and -1 if it could not.
    Start       S at rest; on a map with several, each with the same probability.
    Optimum     1 under the constraint and without it, after 4 steps at best: safety costs no reward, but 107 of the 725
                states have no safe action. From the start no violation is unavoidable. With failure=0.1 a car is never
                in danger only if it never moves: the optimum is 0, and 1.000 with a tolerance of 0.05 (by
                `planner.solve`) and 0.012 violations per episode.
    Origin      the racetrack of Barto, Bradtke and Singh (1995), also in Sutton and Barto's book; both maps were drawn
                for this library. There the car returns to the start where it leaves the track; here that is unsafe.

    `map` is "small", "classic" (a start line, a bend, a finish line; top_speed=3, horizon=20, finish="crossing"), a
    text file, or rows of text: S start, F or . free, G goal, # wall, one or more of S and G.
    Coordinates of (x, a), all as if no acceleration failed: `position`, the cell; `velocity`, the new velocity;
    `landing`, the cell aimed at; `path`, the cells passed, on which g depends, filled up with the last one; and, if
    accelerations fail, `drift`, the path without acceleration.

    >>> track = es.problems.racetrack()
    >>> track.states, track.dead_ends.states, es.planner.solve(track).value
    (725, 107, 1.0)
    """
    track, name, rows, file = MAPS["small"], "racetrack", cast(Sequence[str], map), None
    if isinstance(map, str) and map in MAPS:
        track, name = MAPS[map], "racetrack" if map == "small" else f"racetrack-{map}"
        rows = track.rows
    elif isinstance(map, str | os.PathLike) and "\n" not in str(map):
        file = _map_file(map)
    try:
        return racetrack_from(
            rows if file is None else read_map(file),
            track.top_speed if top_speed is None else top_speed,
            failure,
            track.horizon if horizon is None else horizon,
            track.finish if finish is None else finish,
            name if file is None else name_from(file),
        )
    except EverystepError as error:
        raise (error if file is None else EverystepError(f"problem '{map}': {error}")) from None


def racetrack_from(
    rows: Sequence[str],
    top_speed: int = 2,
    failure: float = 0.0,
    horizon: int = 16,
    finish: Finish = "landing",
    name: str = "racetrack",
) -> FiniteCMDP:
    """A racetrack from rows of text: S start, F or . free, G goal, # wall; see `racetrack`.

    >>> track = es.problems.racetrack_from(["S..G"], top_speed=1, horizon=6)
    >>> track.states, es.planner.solve(track).value
    (36, 1.0)
    """
    rows, horizon = map_rows(rows), whole_number("horizon", horizon)
    top_speed, failure = whole_number("top_speed", top_speed, 1, FASTEST), real_number("failure", failure, most=1.0)
    one_of("finish", finish, ("landing", "crossing"))
    check_letters(rows, CELLS, "S, F or ., G and #")
    if not any("S" in row for row in rows):
        raise EverystepError("the map has no cell S. Give it a start.")
    free = sum(len(row) - row.count("#") for row in rows)
    memory.check_problem(numbers_of, cells=free, top_speed=top_speed)
    return _problem(Moves(rows, top_speed, finish), failure, horizon, name)


def numbers_of(cells: float, top_speed: float) -> float:
    """Numbers of 8 bytes that a racetrack takes while it is made and checked.

    For each state and action 85 of them at a top speed of 6, with failures; that grows with the coordinates of a path.
    """
    return cells * (2 * top_speed + 1) ** 2 * len(ACCELERATIONS) * (80 + 5 * top_speed)


class Moves:
    """What each velocity does in each free cell.

    cells      (F,) the free cells, row * width + column
    velocities (V, 2) down and right, in the order of states
    end        (F, V) the free cell, by its number in `cells`, where a move by this velocity ends
    hit        (F, V) whether it hits a wall
    path       (F, V, top_speed, 2) rows and columns of the cells it passes, filled up with the last one
    """

    def __init__(self, rows: tuple[str, ...], top_speed: int, finish: Finish) -> None:
        self.rows, self.width, self.top_speed = rows, len(rows[0]), top_speed
        letters = np.array([list(row) for row in rows]).reshape(-1)
        self.cells = np.flatnonzero(letters != "#")
        self.goal, self.starts = letters[self.cells] == "G", np.flatnonzero(letters[self.cells] == "S")
        speeds = np.arange(-top_speed, top_speed + 1)
        self.velocities = np.stack(np.meshgrid(speeds, speeds, indexing="ij"), -1).reshape(-1, 2)

        # Numbers of the free cells on the map, with -1 for walls; around it as many walls as a move can reach.
        number = np.full(letters.size, -1)
        number[self.cells] = np.arange(len(self.cells))
        number = np.pad(number.reshape(len(rows), -1), top_speed, constant_values=-1)
        place = np.stack([self.cells // self.width, self.cells % self.width], -1)
        self.place = place
        shape = len(self.cells), len(self.velocities)
        self.end, self.hit = np.zeros(shape, np.int64), np.zeros(shape, bool)
        self.path = np.zeros((*shape, top_speed, 2), np.int64)
        for w, velocity in enumerate(self.velocities):
            now, stopped = np.arange(len(self.cells)), np.zeros(len(self.cells), bool)
            parts = cells_passed(velocity)
            for i in range(top_speed):
                self.path[:, w, i] = place + (parts[min(i, len(parts) - 1)] if len(parts) else 0)
            for part in parts:
                down, right = (place + part + top_speed).T
                there = number[down, right]
                self.hit[:, w] |= ~stopped & (there < 0)
                stopped |= there < 0
                now = np.where(stopped, now, there)
                if finish == "crossing":
                    stopped |= self.goal[now]
            self.end[:, w] = now

    def changed(self) -> np.ndarray:
        """(V, A): the number of the velocity that follows each velocity and acceleration."""
        added = self.velocities[:, None] + np.array(ACCELERATIONS)
        down, right = np.moveaxis(added.clip(-self.top_speed, self.top_speed) + self.top_speed, -1, 0)
        return np.asarray(down * (2 * self.top_speed + 1) + right)


def cells_passed(velocity: np.ndarray) -> np.ndarray:
    """(n, 2): the cells that a move passes, relative to its start; a coordinate halfway between two is rounded to 0."""
    n = int(np.abs(velocity).max())
    covered = 2 * np.arange(1, n + 1)[:, None] * np.abs(velocity)  # in cells, times 2 n
    return np.asarray(np.sign(velocity) * -((n - covered) // (2 * max(n, 1))))


def _problem(moves: Moves, failure: float, horizon: int, name: str) -> FiniteCMDP:
    F, V, A = len(moves.cells), len(moves.velocities), len(ACCELERATIONS)
    S, at_rest = F * V, V // 2
    new = moves.changed()  # (V, A)
    at_goal = np.repeat(moves.goal, V)

    def outcomes(new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The next state and whether a wall is hit, (S, A), if the new velocities are `new` (V, A)."""
        hit = moves.hit[:, new]
        arrived = moves.end[:, new] * V + np.where(hit, at_rest, new)
        hit[moves.goal] = False
        own = np.arange(S)[:, None]
        return np.where(at_goal[:, None], own, arrived.reshape(S, A)), hit.reshape(S, A)

    drift = np.broadcast_to(np.arange(V)[:, None], (V, A))
    states, hits = (np.stack(both, -1) for both in zip(outcomes(new), outcomes(drift), strict=True))
    chances = np.array([1 - failure, failure])
    entered = (at_goal[states] & ~at_goal[:, None, None]).astype(float)
    risk = hits @ chances
    # Both outcomes may lead to the same state, one with a hit: what is observed there is the mean of the two.
    same = (states[..., 0] == states[..., 1])[..., None]
    seen = np.where((risk > 0)[..., None], np.where(same, risk[..., None], hits), -1.0)
    fails = failure > 0

    place = np.broadcast_to(moves.place[:, None, None], (F, V, A, 2)).reshape(S, A, 2)
    velocity = np.broadcast_to(moves.velocities[new], (F, V, A, 2)).copy()
    velocity[moves.goal] = 0
    path: Callable[[np.ndarray], np.ndarray] = lambda new: np.where(
        at_goal[:, None, None, None], place[:, :, None], moves.path[:, new].reshape(S, A, -1, 2)
    )
    coordinates = {
        "position": place,
        "velocity": velocity.reshape(S, A, 2),
        "landing": place + velocity.reshape(S, A, 2),
        "path": path(new).reshape(S, A, -1),
    }
    if fails:
        coordinates["drift"] = path(drift).reshape(S, A, -1)
    starts = moves.starts * V + at_rest
    uniform = np.zeros(S)
    uniform[starts] = 1 / len(starts)
    track = FiniteCMDP(
        Successors(states, np.broadcast_to(chances, states.shape)),
        entered @ chances,
        np.where(risk > 0, risk, -1.0),
        start=int(starts[0]) if len(starts) == 1 else uniform,
        horizon=horizon,
        noise=Noise(reward_on_arrival=entered, cost_on_arrival=seen) if fails else Noise(),
        name=name,
        state_names=_state_names(moves),
        action_names=NAMES,
        grid=Grid(
            tuple(row.replace("F", ".") for row in moves.rows),
            cells=np.repeat(moves.cells, V),
            moves=velocity.reshape(S, A, 2),
        ),
        remarks=remarks_on_route(steps_to(at_goal, states[..., 0])[starts].min(), horizon) if failure < 1 else (),
        coordinates=coordinates,
        kernel="categorical(on=path)*categorical(on=drift)" if fails else "categorical(on=path)",
    )
    track.check()
    return track


def _state_names(moves: Moves) -> tuple[str, ...]:
    driven = [f"velocity ({down:+d}, {right:+d})" if down or right else "rest" for down, right in moves.velocities]
    return tuple(f"{cell_name(int(x), moves.width)}, at {each}" for x in moves.cells for each in driven)


def _map_file(given: str | os.PathLike[str]) -> Path:
    path = Path(given)
    if path.suffix in FILES:
        return path
    endings = " or ".join(FILES)
    raise EverystepError(
        f"map is '{shown(given)}'; give {', '.join(MAPS)}, a file that ends in {endings}, or rows of text."
    )
