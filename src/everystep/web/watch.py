"""Frames of an agent as it learns: visited states, its plan, its certificates, and its unsafe steps.

A scene is the fixed part (the map); a Frame is one agent after k episodes. Both are ready for JSON and hold everything
that a page needs to draw a problem on a grid. They come from the run itself: the engine is paused (`local.advance`),
and a probe returns the trajectory of every episode, so the numbers are those of `everystep run`, bit for bit.

A frame after k episodes shows the visits of all k episodes; the plan and the labels that follow from them, which the
agent uses in episode k + 1; and the unsafe steps since the previous frame.
"""

from __future__ import annotations

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
from everystep.lsvi.algorithm import Agent, Plan, PlanInfo, State
from everystep.lsvi.choices.ties import ties
from everystep.lsvi.episode import Episode
from everystep.lsvi.loop import Carry
from everystep.mdp import certificates, planner
from everystep.mdp.cmdp import FiniteCMDP
from everystep.mdp.world import Sizes, World
from everystep.web import harm
from everystep.web.assets import as_base64
from everystep.web.drawing import MIXED, SAFE, UNKNOWN, UNSAFE, Drawing

SUMMED = ("return", "regret", "violation", "unsafe_steps")


# --- the fixed part ---------------------------------------------------------------------------------------------------
def scene(problem: FiniteCMDP) -> dict[str, Any] | None:
    """The map of a problem, its actions as directions, the truly safe actions, and the most likely optimal safe path.

    None for a problem that is not drawn on a grid. Names are not escaped here: the page does that.
    """
    if problem.grid is None:
        return None
    best, letters, drawing = planner.solve(problem), "".join(problem.grid.rows), Drawing(problem)
    cells_with: Callable[[str], list[int]] = lambda letter: [x for x, found in enumerate(letters) if found == letter]
    heights = problem.grid.heights
    with_harm = {"harm": found} if (found := _harm(problem, drawing)) is not None else {}
    return {
        "name": problem.name,
        "rows": list(problem.grid.rows),
        "width": problem.grid.width,
        "height": len(problem.grid.rows),
        "horizon": problem.horizon,
        "starts": drawing.cells(np.flatnonzero(planner.start_distribution(problem) > 0).tolist()),
        "goals": cells_with("G"),
        "hazards": cells_with("H"),
        "walls": cells_with("#"),
        "heights": None if heights is None else np.asarray(heights, float).ravel().tolist(),
        "actions": [move._asdict() for move in drawing.moves],
        "top_speed": drawing.top_speed,
        "safe": as_base64(drawing.safe(truly_safe(problem)), "u1"),
        "route": drawing.cells(planner.most_likely_states(problem, best)),
        "optimal_value": best.value,
        **with_harm,
    }


def _harm(problem: FiniteCMDP, drawing: Drawing) -> dict[str, Any] | None:
    """The exact harm-to-go on the map, with the states of each cell; None where every state has a safe action."""
    if drawing.exact_harm is None:
        return None
    start = int(np.argmax(planner.start_distribution(problem)))
    return {
        **drawing.exact_harm,
        "velocities": [velocity._asdict() for velocity in drawing.velocities],
        "at_start": int((drawing.states == start).any(1).argmax()),
        "states": drawing.states.reshape(-1).tolist(),
        "actions": problem.actions,
        "moves": as_base64(drawing.move_of_action, "u1"),
    }


def truly_safe(problem: FiniteCMDP) -> np.ndarray:
    """(S, A): 1 where g <= 0 at every step for every constraint, else 0."""
    return np.asarray((problem.g <= 0).all((0, 1)), np.uint8)


# --- one agent --------------------------------------------------------------------------------------------------------
class Frame(NamedTuple):
    """One agent after `episode` episodes.

    visits (S,); policy (H, S): the action of the plan, MIXED where no action has a probability above 1/2; labels
    (S, A), None for agents without a cost model; violations: the unsafe steps since the previous frame, each (episode,
    h, x, a, sum over constraints of max(g, 0)), episode and h from 1; totals since the first episode; harm: the
    estimates of an agent that looks ahead, on problems with states without a safe action.
    """

    episode: int
    visits: np.ndarray
    policy: np.ndarray
    labels: np.ndarray | None
    violations: list[tuple[int, int, int, int, float]]
    totals: dict[str, float]
    harm: harm.Belief | None = None

    def to_json(self, drawing: Drawing) -> dict[str, Any]:
        """With cells and moves in place of states and actions; policy and labels are base64 of bytes.

        Where harm-to-go is shown, also the plan (H, S) by states, and the state of each cell whose plan is drawn.
        """
        by_state = {
            "actions": as_base64(self.policy, "u1"),
            "typical": drawing.typical(self.visits).tolist(),
            "harm": None if self.harm is None else self.harm.to_json(),
        }
        return {
            "episode": self.episode,
            "visits": drawing.visits(self.visits).tolist(),
            "policy": as_base64(drawing.policy(self.policy, self.visits), "u1"),
            "labels": None if self.labels is None else as_base64(drawing.labels(self.labels), "u1"),
            "path": drawing.path(self.policy),
            "violations": [list(violation) for violation in drawing.violations(self.violations)],
            "totals": self.totals,
            **(by_state if drawing.shows_harm else {}),
        }


class Segment(NamedTuple):
    """Consecutive episodes of one agent: its recorded columns, (n,) each, and Z_h before each episode, (n, m, H)."""

    columns: dict[str, np.ndarray]
    prices: np.ndarray


class Trajectory(NamedTuple):
    """The states and actions of an episode, and the price before it."""

    x: Int[Array, " H"]
    a: Int[Array, " H"]
    price: Float[Array, "m H"]


class TrajectoryProbe(NamedTuple):
    """Returns what the run computes anyway (see `loop.run_episode`)."""

    def __call__(
        self, agent: Agent, world: World, before: State, after: State, plan: Plan, episode: Episode
    ) -> Trajectory:
        return Trajectory(episode.x, episode.a, before.price)


class Player:
    """One agent of an experiment on one seed, advanced by any number of episodes at a time.

    It may be used from any thread, but by one thread at a time. Agents of equal structure share compiled programs.
    """

    def __init__(self, experiment: Experiment, label: str, seed: int) -> None:
        self.problem, self.label = experiment.problem, label
        self.episodes: int = experiment.spec["episodes"]
        self.has_costs = experiment.has_costs(label)
        self._baseline = planner.solve(self.problem).baseline
        self._seeds = np.asarray([seed], np.uint32)
        self._totals = dict.fromkeys(SUMMED, 0.0)
        self._violation = self.problem.g.clip(min=0).sum(0)  # (T, S, A)
        with jax.enable_x64(True):
            built = experiment.agents[label].build()
            self._cell = local.AgentOnProblem(self.problem, built, TrajectoryProbe(), experiment.certify)
            self._job = self._cell.job()
            self._reached = local.initial_state(self._cell, 1)

    @property
    def done(self) -> int:
        return self._reached.done

    def advance(self, count: int) -> tuple[Segment, Frame]:
        """Run `count` more episodes, or as many as are left; 0 returns the present frame."""
        until, first = min(self.done + count, self.episodes), self.done
        parts: list[loop.Metrics] = []
        with jax.enable_x64(True):
            while self.done < until or not parts:
                if self.done == self.episodes or count == 0:
                    return self._no_episodes(), self._frame([])
                [self._reached], [metrics] = local.advance(
                    [self._cell], [self._job], [self._reached], self._seeds, until, self.episodes
                )
                parts.append(metrics)
            metrics = jax.tree.map(lambda *leaves: np.concatenate(leaves, 1)[0], *parts)
            recorded = recorded_columns(metrics, self._baseline, self.has_costs)
            for name in SUMMED:
                self._totals[name] += float(recorded[name].sum())
            frame = self._frame(self._violations(first, metrics.probed))
        return Segment(recorded, metrics.probed.price), frame

    def ending(self) -> local.FinalState:
        """What a run folder keeps besides the columns, as of now."""
        with jax.enable_x64(True):
            return local.final_state(self._cell, self._reached)

    def _no_episodes(self) -> Segment:
        prices = self._job.agent.prices(self.problem.constraints)  # one for all constraints, if it looks ahead
        return Segment({}, np.zeros((0, prices, self.problem.horizon)))

    def _violations(self, first: int, path: Trajectory) -> list[tuple[int, int, int, int, float]]:
        steps = np.arange(self.problem.horizon) if len(self._violation) > 1 else np.zeros(self.problem.horizon, int)
        violation = self._violation[steps, path.x, path.a]  # (n, H)
        return [
            (first + int(k) + 1, int(h) + 1, int(path.x[k, h]), int(path.a[k, h]), float(violation[k, h]))
            for k, h in zip(*np.nonzero(violation), strict=True)
        ]

    def _frame(self, violations: list[tuple[int, int, int, int, float]]) -> Frame:
        carry = self._reached.carry
        with self._cell.in_precision():
            agent, world = self._job.agent, self._job.world
            policy, labels, G = _plan_and_labels(
                agent, world, self.problem.sizes, harm.is_shown(self.problem), carry, self._seeds[0]
            )
        return Frame(
            self.done,
            np.asarray(carry.visits)[0],
            np.asarray(policy),
            np.asarray(labels) if self.has_costs else None,
            violations,
            dict(self._totals),
            harm.belief_of(agent, G, self.problem),
        )


def _plan_ahead(
    agent: Agent, world: World, sizes: Sizes, carry: Carry, seed: UInt32[Array, ""]
) -> tuple[Plan, PlanInfo]:
    """The plan of the next episode. With rare plans, the info is that of the plan which could be made now."""
    word = loop.draws(world, sizes, seed, carry.agent.k).tie_word
    plan_now: Callable[[], tuple[Plan, PlanInfo]] = lambda: algorithm.plan(
        agent, carry.agent, ties(word, sizes.horizon, sizes.states)
    )
    if carry.planned is None:
        return plan_now()
    plan = lax.cond(loop.is_due(agent, carry), lambda: plan_now()[0], lambda: carry.planned.plan)  # type: ignore[union-attr]
    return plan, plan_now()[1]  # not computed if it is not used


def _traced_plan_and_labels(
    agent: Agent, world: World, sizes: Sizes, with_harm: bool, carries: Carry, seed: UInt32[Array, ""]
) -> tuple[UInt8[Array, "H S"], UInt8[Array, "S A"], Float[Array, "H S A"] | None]:
    """The next plan of the only seed in `carries`: its actions, the worst label of each pair over steps, and Ghat."""
    carry = jax.tree.map(lambda leaf: leaf[0], carries)
    plan, info = _plan_ahead(agent, world, sizes, carry, seed)
    likeliest: Callable[[], Array] = lambda: jnp.where(plan.policy.max(1) > 0.5, plan.policy.argmax(1), MIXED)
    actions = likeliest() if plan.actions is None else plan.actions
    label = certificates.labels(*loop.bounds(agent, carry.agent))  # (T, A, S)
    unsafe, safe = (label == certificates.UNSAFE).any(0), (label == certificates.SAFE).all(0)
    worst = jnp.where(unsafe, UNSAFE, jnp.where(safe, SAFE, UNKNOWN))
    G = harm.traced_belief(agent, carry.agent, info) if with_harm else None
    return actions.astype(jnp.uint8), worst.T.astype(jnp.uint8), G


_plan_and_labels = jax.jit(_traced_plan_and_labels, static_argnames=("sizes", "with_harm"))


# --- films of runs ----------------------------------------------------------------------------------------------------
class Film(NamedTuple):
    """One agent's run on one seed: its frames, all its columns (K,), and Z_h before each episode (K, m, H)."""

    frames: list[Frame]
    columns: dict[str, np.ndarray]
    prices: np.ndarray


def moments(episodes: int, at_most: int) -> list[int]:
    """The episodes after which to take a frame: from 0 to the last, denser at the beginning (quadratic)."""
    spread = np.linspace(0, 1, max(at_most, 2)) ** 2 * episodes
    return [int(k) for k in np.unique(np.ceil(spread))]


def film(player: Player, when: Sequence[int], advanced: Callable[[int], None] | None = None) -> Film:
    """A run from its beginning to its end, with frames after these episodes; `advanced(n)` is called after n more."""
    parts = []
    for until in when:
        before = player.done
        parts.append(player.advance(until - before))
        if advanced is not None:
            advanced(player.done - before)
    recorded = [segment.columns for segment, _ in parts if segment.columns]
    joined = {name: np.concatenate([columns[name] for columns in recorded]) for name in recorded[0]}
    return Film([frame for _, frame in parts], joined, np.concatenate([segment.prices for segment, _ in parts]))
