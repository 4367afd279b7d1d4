"""Environments that publish a transition table, as gymnasium's toy-text ones do, as finite problems with exact optima.

The table: `P[x][a]` is a list of (probability, x_next, reward, terminated).

    P(x' | x, a) = sum of the probabilities of outcomes that lead to x'
    r(x, a)      = sum over outcomes of probability * reward
    g(x, a)      = sum over outcomes of probability * constraint(x, a, x', info)

An episode of the environment may end early, one of a FiniteCMDP lasts H steps. So a state in which the environment
terminates becomes absorbing, with r = 0 and g = -1 for every action: there are no more rewards and no violations, and
the value of a policy is that in the environment truncated after H steps. States that no episode enters need no safe
action. Departure: rewards and constraints are observed on arrival; where two outcomes of one action lead to the same
state with different values, their mean is observed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from everystep.environments.play.constraints import Constraint, observed
from everystep.environments.play.making import environment_name
from everystep.errors import EverystepError, shown, whole_number
from everystep.mdp.cmdp import FiniteCMDP, Grid, Noise
from everystep.mdp.validation import numbers_or_integers
from everystep.problems.grids import ACTIONS, cell_name, grid_coordinates, landing_cells

G_AFTER_END = -1.0  # g in states in which an episode is over


class TableOutcome(NamedTuple):
    """One possible outcome of an action, from the table."""

    x: int
    a: int
    probability: float
    x_next: int
    reward: float
    terminated: bool


def from_toy_text(
    env: object,
    horizon: int,
    constraint: Constraint | None = None,
    tolerance: float = 0.5,
    start: ArrayLike | None = None,
    scale: bool | ArrayLike | None = None,
) -> FiniteCMDP:
    """The problem of an environment that publishes its table: FrozenLake-v1, CliffWalking-v1, Taxi-v3, custom ones.

    horizon     H; gymnasium's limit on steps is not part of the table.
    constraint  a function of (obs, action, obs_next, info), one number or several in [-1, 1], safe iff <= 0, where info
                is {"prob", "reward", "terminated"} of the outcome. Without one, an environment with a map (`desc`, as
                FrozenLake-v1) has its holes as constraint: g > 0 iff the probability of falling in exceeds `tolerance`.
                The observed constraint is (1 - tolerance) / scale in a hole and -tolerance / scale elsewhere, where
                scale = max(tolerance, 1 - tolerance): +1 and -1 for a tolerance of 0.5.
    start       as for FiniteCMDP; by default the environment's own (`initial_state_distrib`).
    scale       as for FiniteCMDP: True for a constraint in any other unit than [-1, 1].

    >>> import gymnasium
    >>> lake = es.gym.from_toy_text(gymnasium.make("FrozenLake-v1"), horizon=20)
    >>> lake.states, lake.actions, round(es.planner.solve(lake).value, 3)
    (16, 4, 0.199)
    """
    horizon = whole_number("horizon", horizon)
    table = _table(env)
    lines = list(_outcomes(table))
    S, A = len(table), len(table[0])
    start = _start(env, start, S)
    over, entered = _over(lines, S, start)
    desc = _desc(env, S)
    if constraint is None:
        constraint = _holes(desc, tolerance)

    chance = np.zeros((S, A, S))
    earned = np.zeros((S, A, S))
    seen: list[np.ndarray] = []
    for line in lines:
        if over[line.x]:
            continue
        at = (line.x, line.a, line.x_next)
        info = {"prob": line.probability, "reward": line.reward, "terminated": line.terminated}
        g = observed(constraint, line.x, line.a, line.x_next, info)
        seen = seen or [np.zeros((S, A, S)) for _ in g]
        if len(g) != len(seen):
            raise EverystepError(
                f"constraint returns {len(seen)} numbers and then {len(g)}; return the same number every time."
            )
        chance[at] += line.probability
        earned[at] += line.probability * line.reward
        for each, value in zip(seen, g, strict=True):
            each[at] += line.probability * value
    if not seen:
        raise EverystepError("every state of the table is an end; give an environment in which something happens.")

    possible = chance > 0
    on_arrival = lambda total: np.divide(total, chance, out=np.zeros_like(total), where=possible)
    P = chance.copy()
    P[over] = np.eye(S)[over][:, None, :]
    costs = np.stack([on_arrival(each) for each in seen])
    after = np.full(len(costs), G_AFTER_END) if scale is None else G_AFTER_END * np.abs(costs).max((1, 2, 3))
    costs[:, over] = after[:, None, None, None]
    rewards = on_arrival(earned)
    problem = FiniteCMDP(
        P,
        (P * rewards).sum(-1),
        (P * costs).sum(-1),
        start=start,
        horizon=horizon,
        noise=Noise(reward_on_arrival=rewards, cost_on_arrival=costs),
        name=environment_name(env),
        exempt=~entered,
        scale=scale,
        **({} if desc is None else _map(desc, over)),
    )
    problem.check()
    return problem


def _table(env: object) -> list[list[Any]]:
    """P as nested lists by state and action; raises if it is incomplete."""
    P = getattr(getattr(env, "unwrapped", env), "P", None)
    if P is None or not hasattr(P, "keys"):
        raise EverystepError(
            f"{environment_name(env)} publishes no table P of outcomes; learn on it instead, with es.train."
        )
    try:
        table = [[P[x][a] for a in range(len(P[x]))] for x in range(len(P))]
    except (KeyError, TypeError, IndexError):
        table = []
    if not table or {len(row) for row in table} != {len(table[0])} or not table[0]:
        raise EverystepError(
            f"the table P of {environment_name(env)} is incomplete; list every action of every state, numbered from 0."
        )
    return table


def _outcomes(table: list[list[Any]]) -> Iterator[TableOutcome]:
    for x, row in enumerate(table):
        for a, outcomes in enumerate(row):
            for outcome in outcomes:
                try:
                    probability, x_next, reward, terminated = outcome
                    line = TableOutcome(x, a, float(probability), int(x_next), float(reward), bool(terminated))
                    ok = 0 <= line.x_next < len(table)
                except (TypeError, ValueError):
                    ok = False
                if not ok:
                    raise EverystepError(
                        f"P[{x}][{a}] has the outcome {outcome}; "
                        f"give (probability, next state from 0 to {len(table) - 1}, reward, terminated)."
                    )
                if line.probability > 0:
                    yield line


def _over(lines: list[TableOutcome], S: int, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(S,) each: terminal states, which some arrival terminates in; and states that some episode enters.

    Taxi's table enters some terminal states without terminating, but only from states that no episode enters.
    """
    over = np.zeros(S, bool)
    over[[line.x_next for line in lines if line.terminated]] = True
    onward = np.zeros((S, S), bool)
    for line in lines:
        onward[line.x, line.x_next] |= not line.terminated
    on = np.zeros(S, bool)  # states of episodes that are not over
    if np.issubdtype(start.dtype, np.integer):
        on[start.reshape(-1)] = True
    else:
        on |= start > 0
    while ((new := onward[on].any(0)) & ~on).any():
        on |= new
    if (both := over & on).any():
        raise EverystepError(
            f"state {int(both.argmax())} ends an episode on one arrival and not on another; "
            "add a separate terminal state to the table."
        )
    return over, on | over


def _start(env: object, start: ArrayLike | None, S: int) -> np.ndarray:
    if start is None:
        start = getattr(getattr(env, "unwrapped", env), "initial_state_distrib", None)
        if start is None:
            raise EverystepError(
                f"{environment_name(env)} has no initial_state_distrib; give start=, a state or probabilities."
            )
        start = np.asarray(start, np.float64)
        if start.shape == (S,) and (start == 1).sum() == 1 == (start > 0).sum():
            return np.array([int(start.argmax())])
    # FiniteCMDP checks the rest of a start.
    start = numbers_or_integers("start", start)
    integers = np.issubdtype(start.dtype, np.integer)
    if (integers and ((start < 0) | (start >= S)).any()) or (not integers and start.shape != (S,)):
        raise EverystepError(
            f"start is {shown(start)}; give a state from 0 to {S - 1}, or {S} probabilities that sum to 1."
        )
    return start


def _desc(env: object, S: int) -> np.ndarray | None:
    """The letters of a lake's map, if the environment has one."""
    desc = getattr(getattr(env, "unwrapped", env), "desc", None)
    letters = None if desc is None else np.asarray(desc)
    if letters is None or letters.ndim != 2 or letters.size != S or letters.dtype.kind != "S":
        return None
    letters = letters.astype(str)
    return letters if set(letters.flat) <= set("SFHG") else None


def _holes(desc: np.ndarray | None, tolerance: float) -> Constraint:
    if desc is None:
        raise EverystepError("the environment has no map with holes; give constraint=, a function that returns g.")
    if not isinstance(tolerance, int | float) or not 0 <= tolerance < 1:
        raise EverystepError(f"tolerance is {tolerance}; give a probability from 0 to below 1.")
    hole = desc.reshape(-1) == "H"
    scale = max(tolerance, 1 - tolerance)
    return lambda obs, action, obs_next, info: (float(hole[obs_next]) - tolerance) / scale


def _map(desc: np.ndarray, over: np.ndarray) -> dict[str, Any]:
    """The map and the names of a lake; its actions are those of grids.py."""
    landing = landing_cells(np.zeros(desc.shape, bool))
    landing = np.where(over[:, None], np.arange(desc.size)[:, None], landing)
    return {
        "grid": Grid(tuple("".join(row) for row in desc)),
        "action_names": ACTIONS,
        "state_names": tuple(cell_name(x, desc.shape[1]) for x in range(desc.size)),
        "coordinates": grid_coordinates(landing, desc.shape[1]),
    }
