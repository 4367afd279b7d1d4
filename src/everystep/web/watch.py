"""An agent watched while it learns, frame by frame: where it went, what it plans and certifies, where it did harm.

A Scene is what stays (the map); a Frame is one agent after k episodes. Both are ready for JSON and are all that a page
needs to draw a problem on a grid. They come from the run itself: the engine is paused (`local.advance`), and a watcher
hands out the way of every episode, so the numbers are those of `everystep run`, bit for bit.

What a frame shows after k episodes: visits of all k; the plan and the labels that follow from them, which is what the
agent goes by in episode k + 1; and the unsafe steps since the frame before.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, UInt8, UInt32

from everystep.experiments.engines import local
from everystep.experiments.experiment import Experiment
from everystep.experiments.result import recorded_columns
from everystep.lsvi import algorithm, loop
from everystep.lsvi.algorithm import Agent, Plan, State
from everystep.lsvi.choices.ties import ties
from everystep.lsvi.episode import Episode
from everystep.lsvi.loop import Carry
from everystep.mdp import certificates, planner
from everystep.mdp.cmdp import FiniteCMDP
from everystep.mdp.world import Sizes, World, at_step

UNKNOWN, SAFE, UNSAFE = 0, 1, 2  # of an action in a frame
MIXED = 255  # in place of an action, where a plan mixes several
DIRECTIONS = {(0, -1): "left", (1, 0): "down", (0, 1): "right", (-1, 0): "up", (0, 0): "stay"}
SUMMED = ("return", "regret", "violation", "unsafe_steps")


# --- what stays -------------------------------------------------------------------------------------------------------
def scene(problem: FiniteCMDP) -> dict[str, Any] | None:
    """The map of a problem, its actions as directions, what is truly safe, and the likeliest way of the safe optimum.

    None for a problem that is not drawn on a grid. Names are as the problem has them: whoever shows them escapes them.
    """
    if problem.grid is None:
        return None
    best, letters = planner.solve(problem), "".join(problem.grid.rows)
    having = lambda letter: [x for x, each in enumerate(letters) if each == letter]
    heights = problem.grid.heights
    moves = _moves(problem)
    names = problem.action_names or [DIRECTIONS[move] for move in moves]
    return {
        "name": problem.name,
        "rows": list(problem.grid.rows),
        "width": problem.grid.width,
        "height": len(problem.grid.rows),
        "horizon": problem.horizon,
        "starts": np.flatnonzero(planner.start_distribution(problem) > 0).tolist(),
        "goals": having("G"),
        "hazards": having("H"),
        "walls": having("#"),
        "heights": None if heights is None else np.asarray(heights, float).ravel().tolist(),
        "actions": [
            {"name": name, "down": down, "right": right} for name, (down, right) in zip(names, moves, strict=True)
        ],
        "safe": packed(really_safe(problem)),
        "route": planner.likeliest_way(problem, best),
        "optimal_value": best.value,
    }


def really_safe(problem: FiniteCMDP) -> np.ndarray:
    """(S, A): 1 where g <= 0 at every step for every constraint, else 0."""
    return np.asarray((problem.g <= 0).all((0, 1)), np.uint8)


def _moves(problem: FiniteCMDP) -> list[tuple[int, int]]:
    """Where each action goes, (down, right): what it does in most of the cells where it does anything."""
    assert problem.grid is not None
    width, A = problem.grid.width, problem.actions
    here = np.arange(problem.states)
    place = lambda x: np.stack([x // width, x % width], -1)
    if "landing" in problem.coordinates:
        aims = np.asarray(problem.coordinates["landing"])
    else:
        P = at_step(problem.P, 0)
        chances = P if isinstance(P, np.ndarray) else P.phi @ P.mu
        aims = place(chances.argmax(-1))
    moves = []
    for a in range(A):
        step = (aims[:, a] - place(here)).astype(int)
        found, times = np.unique(step[(np.abs(step).sum(-1) == 1)], axis=0, return_counts=True)
        moves.append((int(found[times.argmax()][0]), int(found[times.argmax()][1])) if len(found) else (0, 0))
    return moves


def packed(array: np.ndarray) -> str:
    """Small whole numbers as base64 of bytes, in order."""
    return base64.b64encode(np.ascontiguousarray(array, np.uint8).tobytes()).decode("ascii")


# --- what changes -----------------------------------------------------------------------------------------------------
class Frame(NamedTuple):
    """One agent after `episode` episodes.

    visits (S,), policy (H, S): the action of the plan, MIXED where none is likelier than not; labels (S, A), None of an
    agent that judges no costs; violations: the unsafe steps since the frame before, each (episode, h, x, a, sum over
    constraints of max(g, 0)), episode and h from 1; totals since the first episode.
    """

    episode: int
    visits: np.ndarray
    policy: np.ndarray
    labels: np.ndarray | None
    violations: list[tuple[int, int, int, int, float]]
    totals: dict[str, float]

    def told(self) -> dict[str, Any]:
        """Ready for JSON; policy and labels are base64 of bytes."""
        return {
            "episode": self.episode,
            "visits": self.visits.tolist(),
            "policy": packed(self.policy),
            "labels": None if self.labels is None else packed(self.labels),
            "violations": [list(each) for each in self.violations],
            "totals": self.totals,
        }


class Stretch(NamedTuple):
    """Some episodes of one agent: its recorded columns, (n,) each, and Z_h before each of them, (n, m, H)."""

    columns: dict[str, np.ndarray]
    prices: np.ndarray


class Way(NamedTuple):
    """Where an episode went, what was done there, and the price on harm before it."""

    x: Int[Array, " H"]
    a: Int[Array, " H"]
    price: Float[Array, "m H"]


class WayWatch(NamedTuple):
    """Hands out what the run computes anyway (see `drive.run_episode`)."""

    def __call__(self, agent: Agent, world: World, before: State, after: State, plan: Plan, episode: Episode) -> Way:
        return Way(episode.x, episode.a, before.price)


class Player:
    """One agent of an experiment on one seed, advanced as far as one wishes at a time.

    It may be used from any thread, by one at a time. Agents of the same structure share their compiled programs.
    """

    def __init__(self, experiment: Experiment, label: str, seed: int) -> None:
        self.problem, self.label = experiment.problem, label
        self.episodes: int = experiment.spec["episodes"]
        self.has_costs = experiment.has_costs(label)
        self._optimal = planner.solve(self.problem).V[0]
        self._seeds = np.asarray([seed], np.uint32)
        self._totals = dict.fromkeys(SUMMED, 0.0)
        self._harm = self.problem.g.clip(min=0).sum(0)  # (T, S, A)
        with jax.enable_x64(True):
            built = experiment.agents[label].build()
            self._cell = local.AgentOnProblem(self.problem, built, WayWatch(), experiment.certify)
            self._job = self._cell.job()
            self._reached = local.initial_state(self._cell, 1)

    @property
    def done(self) -> int:
        return self._reached.done

    def advance(self, count: int) -> tuple[Stretch, Frame]:
        """`count` episodes more, or as many as are left; none shows what there is now."""
        until, first = min(self.done + count, self.episodes), self.done
        parts: list[loop.Metrics] = []
        with jax.enable_x64(True):
            while self.done < until or not parts:
                if self.done == self.episodes or count == 0:
                    return self._nothing(), self._frame([])
                [self._reached], [metrics] = local.advance(
                    [self._cell], [self._job], [self._reached], self._seeds, until, self.episodes
                )
                parts.append(metrics)
            metrics = jax.tree.map(lambda *each: np.concatenate(each, 1)[0], *parts)
            recorded = recorded_columns(metrics, self._optimal, self.has_costs)
            for name in SUMMED:
                self._totals[name] += float(recorded[name].sum())
            frame = self._frame(self._violations(first, metrics.watched))
        return Stretch(recorded, metrics.watched.price), frame

    def ending(self) -> local.FinalState:
        """What is kept of the run so far beside its columns."""
        with jax.enable_x64(True):
            return local.final_state(self._cell, self._reached)

    def _nothing(self) -> Stretch:
        H, m = self.problem.horizon, self.problem.constraints
        return Stretch({}, np.zeros((0, m, H)))

    def _violations(self, first: int, way: Way) -> list[tuple[int, int, int, int, float]]:
        steps = np.arange(self.problem.horizon) if len(self._harm) > 1 else np.zeros(self.problem.horizon, int)
        harm = self._harm[steps, way.x, way.a]  # (n, H)
        return [
            (first + int(k) + 1, int(h) + 1, int(way.x[k, h]), int(way.a[k, h]), float(harm[k, h]))
            for k, h in zip(*np.nonzero(harm), strict=True)
        ]

    def _frame(self, violations: list[tuple[int, int, int, int, float]]) -> Frame:
        carry = self._reached.carry
        with self._cell.in_precision():
            policy, labels = _shown(self._job.agent, self._job.world, self.problem.sizes, carry, self._seeds[0])
        return Frame(
            self.done,
            np.asarray(carry.visits)[0],
            np.asarray(policy),
            np.asarray(labels) if self.has_costs else None,
            violations,
            dict(self._totals),
        )


def _plan_ahead(agent: Agent, world: World, sizes: Sizes, carry: Carry, seed: UInt32[Array, ""]) -> Plan:
    """The plan that the coming episode will go by."""
    word = loop.draws(world, sizes, seed, carry.agent.k).tie_word
    anew = lambda: algorithm.plan(agent, carry.agent, ties(word, sizes.horizon, sizes.states))[0]
    if carry.planned is None:
        return anew()
    return lax.cond(loop.is_due(agent, carry), anew, lambda: carry.planned.plan)  # type: ignore[union-attr]


def _look(
    agent: Agent, world: World, sizes: Sizes, carries: Carry, seed: UInt32[Array, ""]
) -> tuple[UInt8[Array, "H S"], UInt8[Array, "S A"]]:
    """What the only seed of `carries` goes by: its actions, and the worst label of each over steps."""
    carry = jax.tree.map(lambda leaf: leaf[0], carries)
    plan = _plan_ahead(agent, world, sizes, carry, seed)
    mixed = lambda: jnp.where(plan.policy.max(1) > 0.5, plan.policy.argmax(1), MIXED)
    actions = mixed() if plan.actions is None else plan.actions
    label = certificates.labels(*loop.bounds(agent, carry.agent))  # (T, A, S)
    unsafe, safe = (label == certificates.UNSAFE).any(0), (label == certificates.SAFE).all(0)
    worst = jnp.where(unsafe, UNSAFE, jnp.where(safe, SAFE, UNKNOWN))
    return actions.astype(jnp.uint8), worst.T.astype(jnp.uint8)


_shown = jax.jit(_look, static_argnames="sizes")


# --- a run as a film --------------------------------------------------------------------------------------------------
class Film(NamedTuple):
    """One agent's run on one seed: its frames, all its columns (K,), and Z_h before each episode (K, m, H)."""

    frames: list[Frame]
    columns: dict[str, np.ndarray]
    prices: np.ndarray


def moments(episodes: int, at_most: int) -> list[int]:
    """After which episodes to take a frame: from 0 to the last, closer together at the beginning (quadratic)."""
    spread = np.linspace(0, 1, max(at_most, 2)) ** 2 * episodes
    return [int(k) for k in np.unique(np.ceil(spread))]


def film(player: Player, when: Sequence[int], advanced: Callable[[int], None] | None = None) -> Film:
    """A run from its beginning to its end, with frames after these episodes; `advanced(n)` is told of n more."""
    shots = []
    for until in when:
        before = player.done
        shots.append(player.advance(until - before))
        if advanced is not None:
            advanced(player.done - before)
    recorded = [stretch.columns for stretch, _ in shots if stretch.columns]
    joined = {name: np.concatenate([each[name] for each in recorded]) for name in recorded[0]}
    return Film([frame for _, frame in shots], joined, np.concatenate([stretch.prices for stretch, _ in shots]))
