"""Can the constraint be kept by one decision, by looking ahead, or not at all? Tried in a simulator before training.

Every other episode is played at random, the others at random among safe actions, as far as these are known. Other
actions are tried in copies of the environment, or in replays of it (docs/gymnasium.md). A state is then

    free      some action keeps every g <= 0
    trapped   none does, although every step before was safe: one decision cannot keep the constraint
    after     none does, but an earlier step of the episode was unsafe: this is inconclusive, and only counted

From the states 1, 2, 4, ... steps before a trapped one, and from the start, a depth-first search (the lowest g first)
looks for a sequence of actions that stays safe past the trap, by as many steps as the search began before it and at
least MARGIN. The first distance at which it finds one determines how far ahead an agent must look
(`look_ahead.horizon_for`). A copy draws the random numbers that the original would have drawn.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from everystep.agents.registry import BY_NETWORKS, LOOKS_AHEAD, suited_to
from everystep.environments.play import constraints
from everystep.environments.play.action_sets import ActionSet
from everystep.environments.play.constraints import Constraint
from everystep.environments.play.making import episode_limit, made
from everystep.environments.play.rollout import Stage, calls
from everystep.environments.protocols import AnyEnv
from everystep.errors import EverystepError, seed_number, shown, whole_number
from everystep.features.spaces import flatten
from everystep.training.arguments import is_listed
from everystep.training.diagnosis.look_ahead import MARGIN, horizon_for
from everystep.training.diagnosis.played import global_draws
from everystep.training.folder.env_state import same
from everystep.training.learner import LOOK_AHEAD
from everystep.training.learnt.limit import limit_of

MOST_STEPS = 200  # of an episode
MOST_TRAPS = 20  # that are searched
MOST_TRIED = 400  # steps of copies in one search
MOST_REPLAYED = 4000  # steps of replays in one search
MOST_COPIES = 50_000  # steps of copies and replays in all
FEWEST_STATES = 10  # below which nothing is concluded once the effort has reached its bound
EARLIEST = 64  # steps before a trap at which the last search begins
COMPARED = 5  # steps in which a copy must equal its original
REPEATED = 10  # steps that must repeat under the same seed
COMPARED_WITH_LIMIT = 100  # steps, to see whether the constraint is a function of observations
CALLED = "the constraint is a function of observations, so lsvi-nets calls it on imagined steps and need not learn it"
NOT_CALLED = (
    "the constraint depends on more than observations (the info or the environment), so agents have to learn it"
)
COPIES, REPLAYS = "copies", "replays"


@dataclass(frozen=True)
class ConstraintCheck:
    """What was found; printed as a few sentences.

    verdict     "one decision", "look ahead", "not kept", "never active" or "unknown"
    steps       played; `unsafe` of them broke the constraint
    states      in which every action was tried; `trapped` of them had no safe action, nor `after` an unsafe step
    avoidable   for up to 20 traps, the steps before it from which it could be avoided; None: from none that was tried
    lowest, highest   of each constraint, over all steps and copies
    example     the observation of a trapped state
    agent       the agent to train: lsvi-ae if one decision is enough, else the one that es.train selects
    horizon     the number of steps to look ahead: the fewest that suffice where this was found, else the default

    >>> env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
    >>> found = es.check_constraint(env, episodes=2)
    >>> found.verdict, found.agent, found.horizon, found.steps, found.lowest, found.highest
    ('one decision', 'lsvi-ae', 4, 8, (-1.0,), (1.0,))
    """

    verdict: str
    steps: int
    unsafe: int
    states: int
    trapped: int
    after: int
    avoidable: tuple[int | None, ...]
    lowest: tuple[float, ...]
    highest: tuple[float, ...]
    example: object
    agent: str
    horizon: int
    remarks: tuple[str, ...]

    def __str__(self) -> str:
        played = f"{self.steps} steps played, {self.unsafe} of them unsafe"
        notes = (f"note: {each}" for each in self.remarks)
        first = f"{SENTENCES[self.verdict]} ({played})."
        return "\n".join([first, *self._details(), self._advice(), *notes])

    def _details(self) -> list[str]:
        if not self.states or self.verdict == "never active":
            return []
        free = self.states - self.trapped - self.after
        found = [f"In {free} of {self.states} states some action kept every g <= 0."]
        if self.after:
            found.append(f"{self.after} states without one came after an unsafe step.")
        if self.trapped:
            found.append(f"{self.trapped} came after safe steps alone, for example {shown(self.example)}.")
            earlier = [each for each in self.avoidable if each is not None]
            words = f", by other actions {min(earlier)} to {max(earlier)} steps earlier" if earlier else ""
            found.append(f"Of {len(self.avoidable)} of these, {len(earlier)} could be avoided{words}.")
        return found

    def _advice(self) -> str:
        if self.verdict == "one decision":
            return f'Train "{self.agent}"; its horizon matters for rewards alone (the default is {self.horizon}).'
        more = " or more" * (self.verdict == "look ahead")
        ahead = f'"{LOOKS_AHEAD}" with horizon={self.horizon}{more}'
        if self.agent == BY_NETWORKS:
            return f'Train "{self.agent}", which needs no features and no horizon, or {ahead}.'
        return f"Train {ahead}" + ("." if more else ": where one decision is enough, it plans as lsvi-ae does.")


SENTENCES = {
    "one decision": "One decision can keep the constraint wherever it was met: lsvi-ae fits",
    "look ahead": "One decision cannot keep the constraint, but earlier ones can: look ahead",
    "not kept": "Nothing that was tried keeps the constraint: loosen it, or change where episodes start",
    "never active": "The constraint never exceeded 0, whatever was tried: it is easy, random actions do not come near "
    "it, or its sign or scale is wrong",
    "unknown": "It is unknown whether other actions would have been safe",
}


def check_constraint(
    env: AnyEnv | str,
    constraint: Constraint | None = None,
    episodes: int = 10,
    seed: int = 0,
    actions: ActionSet | None = None,
) -> ConstraintCheck:
    """Play at random, try other actions in the same states, and report whether and how the constraint can be kept.

    env         a gymnasium environment, or the id of one; it is reset and stepped
    constraint  (obs, action, obs_next, info) -> one number or several, safe iff <= 0; None: from `info`
    actions     the candidates where the action space is a Box: es.actions.grid(5), ...

    >>> env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
    >>> es.check_constraint(env, episodes=2).verdict
    'one decision'
    """
    episodes, seed = whole_number("episodes", episodes), seed_number("seed", seed)
    stage = Stage(made(env, 1), constraint, seed, actions=actions)
    if stage.is_vector:
        raise EverystepError("the constraint is checked in one environment, not in a vector environment; give one.")
    return _Check(stage, np.random.default_rng(seed)).run(episodes)


@dataclass
class _Visited:
    """A state that was met: what is observed there, and the environment as a copy, or how it was reached."""

    observation: object
    env: AnyEnv | None = None
    episode: int = 0
    actions: tuple[int, ...] = ()


class _NotRepeatedError(Exception):
    """The same seed and the same actions led to another observation."""


class _Check:
    """The state of a check while episodes are played."""

    def __init__(self, stage: Stage, rng: np.random.Generator) -> None:
        self.stage, self.rng = stage, rng
        self.steps = self.unsafe = self.states = self.trapped = self.after = self.copies = 0
        self.by: str | None = None  # how other actions are tried
        self.seen: list[np.ndarray] = []
        self.avoidable: list[int | None] = []
        self.example: object = None
        self.remarks: list[str] = []
        self.limit = limit_of(stage.constraint, stage.observation_space, stage.candidates)
        self.transitions: list[tuple[np.ndarray, np.ndarray, int, np.ndarray]] = []

    def run(self, episodes: int) -> ConstraintCheck:
        repeats = self._repeats()
        self.by = COPIES if self._can_be_copied() else REPLAYS if repeats else None
        try:
            self._play_all(episodes)
        except _NotRepeatedError:
            self.remarks.append(NOT_REPEATED)
            self.by = None
            self._play_all(episodes)
        if self.copies >= MOST_COPIES:
            self.remarks.append(f"the effort was bounded: {MOST_COPIES} steps of copies")
        low, high = np.min(self.seen, 0), np.max(self.seen, 0)
        self.remarks += [
            f"constraint {i + 1} never exceeded 0"
            if len(high) > 1 and high[i] <= 0 < high.max()
            else f"constraint {i + 1} is {low[i]:g} everywhere"
            for i in range(len(high))
            if (len(high) > 1 and high[i] <= 0 < high.max()) or low[i] == high[i]
        ]
        if self.limit is not None:
            called = self.limit.agrees(*map(np.array, zip(*self.transitions, strict=True)))
            self.remarks.append(CALLED if called else NOT_CALLED)
        earlier = [each for each in self.avoidable if each is not None]
        verdict, limit = self._verdict(bool((high <= 0).all()), earlier), episode_limit(self.stage.env)
        return ConstraintCheck(
            verdict=verdict,
            steps=self.steps,
            unsafe=self.unsafe,
            states=self.states,
            trapped=self.trapped,
            after=self.after,
            avoidable=tuple(self.avoidable),
            lowest=tuple(map(float, low)),
            highest=tuple(map(float, high)),
            example=self.example,
            agent="lsvi-ae" if verdict == "one decision" else self._suited(),
            horizon=horizon_for(max(earlier), limit) if earlier else min(LOOK_AHEAD, limit or LOOK_AHEAD),
            remarks=tuple(self.remarks),
        )

    def _suited(self) -> str:
        return suited_to(is_listed(self.stage.observation_space), self.stage.candidates.points is None, False)

    def _verdict(self, never: bool, earlier: list[int]) -> str:
        if never:
            return "never active"
        if self.by is None:
            return "unknown"
        if not self.trapped:
            few = self.copies >= MOST_COPIES and self.states < FEWEST_STATES
            return "unknown" if few else "one decision"
        return "look ahead" if earlier else "not kept" if self.avoidable else "unknown"

    def _repeats(self) -> bool:
        """Whether the same seed and the same actions give the same steps; a remark says if not."""
        played = []
        for _ in range(2):
            self.stage.begun, rng = False, np.random.default_rng(self.stage.seed)
            steps: list[Any] = [copy.deepcopy(self.stage.reset(0)[0])]
            for a in rng.integers(self.stage.actions, size=REPEATED):
                try:
                    with self.stage.global_draws.in_step():
                        steps.append(copy.deepcopy(self.stage.env.step(self.stage.candidates.action(a))[:4]))
                    if steps[-1][2] or steps[-1][3]:
                        break
                except Exception:  # the error is raised where episodes are played
                    break
            played.append(tuple(steps))
        self.stage.begun = False
        repeats, drawn = same(*played), global_draws(self.stage.global_draws)
        if drawn is not None or not repeats:
            self.remarks.append(NOT_REPEATED if drawn is None else drawn.remark)
        return repeats

    def _can_be_copied(self) -> bool:
        """Whether a copy of the environment takes equal steps; a remark says why not."""
        try:
            self.stage.reset(0)
            if not self._take_equal_steps([self.stage.env, copy.deepcopy(self.stage.env)]):
                self.remarks.append("a copy of the environment took other steps than the environment itself")
                return False
        except (KeyboardInterrupt, EverystepError):
            raise
        except BaseException as error:
            self.remarks.append(f"copying the environment failed ({type(error).__name__})")
            return False
        if self._is_random():
            self.remarks.append("chance decides: an action counts as safe if it was with what was drawn in that step")
        return True

    def _is_random(self) -> bool:
        """Whether copies with other generators take other steps."""
        self.stage.reset(0)
        twins = [copy.deepcopy(self.stage.env) for _ in range(3)]
        for seed, twin in enumerate(twins):
            inner: Any = getattr(twin, "unwrapped", twin)
            inner.np_random = np.random.default_rng(seed)
        return not self._take_equal_steps(twins)

    def _take_equal_steps(self, envs: list[Any]) -> bool:
        """Whether the same random actions have the same outcomes in all of them."""
        for _ in range(COMPARED):
            a, action = self.rng.integers(self.stage.actions), self.stage.candidates.action
            first, *others = (tuple(each.step(action(a))[:4]) for each in envs)
            if not all(same(first, each) for each in others):
                return False
            if first[2] or first[3]:
                break
        return True

    def _play_all(self, episodes: int) -> None:
        self.steps = self.unsafe = self.states = self.trapped = self.after = 0
        self.avoidable = []
        self.stage.reseed = self.by == REPLAYS
        for episode in range(episodes):
            self._play(episode, MOST_COPIES * (episode + 1) // episodes)
        if self.by == REPLAYS and self.states:
            self.remarks.append("other actions were tried where an action was unsafe, by replaying episodes")

    def _play(self, episode: int, most_replayed: int) -> None:
        """One episode, which ends where the replays so far have used up their share of the effort."""
        number, env = episode + 1, self.stage.env
        observation = self.stage.reset(number)[0]
        path: list[_Visited] = []
        safe_so_far, a = True, 0
        for _ in range(MOST_STEPS):
            actions, here = list(range(self.stage.actions)), None
            if self.by is not None and self.copies < MOST_COPIES:
                kept = copy.deepcopy(env) if self.by == COPIES else None
                before = () if not path else (*path[-1].actions, a)
                here = _Visited(copy.deepcopy(observation), kept, number, before)
                path.append(here)
                if self.by == COPIES:
                    safe = self._try_all(path, safe_so_far)
                    actions = safe if safe and episode % 2 == 1 else actions
            a = actions[int(self.rng.integers(len(actions)))]
            observation, g, over = self._step(env, observation, a)
            if here is not None and self.by == REPLAYS and safe_so_far and (g > 0).any():
                safe = self._try_all(path, safe_so_far)
                a = safe[int(self.rng.integers(len(safe)))] if safe and episode % 2 == 1 else a
                after, g, over = self._branch(here, a)  # back to where it was
                observation = after.observation
            self.steps += 1
            self.unsafe += bool((g > 0).any())
            safe_so_far = safe_so_far and bool((g <= 0).all())
            if over or (self.by == REPLAYS and self.copies >= most_replayed):
                return

    def _step(self, env: AnyEnv, observation: object, a: int) -> tuple[Any, np.ndarray, bool]:
        """One step: the next observation, the constraints, and whether the episode is over."""
        action, here = self.stage.candidates.action, copy.deepcopy(observation)
        with calls("step"):
            after, _, terminated, truncated, info = env.step(action(a))
        g = constraints.observed(self.stage.constraint, here, action(a), after, info)
        if self.seen and len(g) != len(self.seen[0]):
            raise EverystepError(
                f"there are {len(g)} constraints, and {len(self.seen[0])} before; give the same number."
            )
        self.seen = [np.minimum(self.seen[0], g), np.maximum(self.seen[1], g)] if self.seen else [g, g]
        if self.limit is not None and len(self.transitions) < COMPARED_WITH_LIMIT:
            self.transitions.append((flatten(here), flatten(after), a, g))
        return after, g, bool(terminated or truncated)

    def _try_all(self, path: list[_Visited], safe_so_far: bool) -> list[int]:
        """The safe actions in the last state of the path; earlier ones are searched if there are none."""
        self.states += 1
        safe = [a for a in range(self.stage.actions) if (self._branch(path[-1], a)[1] <= 0).all()]
        if not safe and not safe_so_far:
            self.after += 1
        elif not safe:
            self.trapped += 1
            self.example = path[-1].observation if self.example is None else self.example
            if len(self.avoidable) < MOST_TRAPS and self.copies < MOST_COPIES:
                self.avoidable.append(self._distance(path))
        return safe

    def _branch(self, state: _Visited, a: int) -> tuple[_Visited, np.ndarray, bool]:
        """An action in a state that was met: what follows."""
        self.copies += 1 if self.by == COPIES else 1 + len(state.actions)
        env = self._replayed(state) if state.env is None else copy.deepcopy(state.env)
        after, g, over = self._step(env, state.observation, a)
        kept = env if self.by == COPIES else None
        return _Visited(copy.deepcopy(after), kept, state.episode, (*state.actions, a)), g, over

    def _replayed(self, state: _Visited) -> AnyEnv:
        """The environment, brought to the state again."""
        observation = self.stage.reset(state.episode)[0]
        try:
            for a in state.actions:
                observation = self.stage.env.step(self.stage.candidates.action(a))[0]
        except Exception as error:  # it raised none before
            raise _NotRepeatedError from error
        if not same(observation, state.observation):
            raise _NotRepeatedError
        return self.stage.env

    def _distance(self, path: list[_Visited]) -> int | None:
        """The steps before the end of the path from which a safe sequence leads past it; None if none was found."""
        farthest = min(len(path) - 1, EARLIEST)
        distances = [1 << i for i in range(farthest.bit_length()) if 1 << i < farthest]
        for distance in [*distances, farthest]:
            if distance and self._safe_for(path[-1 - distance], distance + max(distance, MARGIN)):
                return distance
        return None

    def _safe_for(self, start: _Visited, steps: int) -> bool:
        """Whether some sequence of actions stays safe for that many steps, or until the episode is over."""
        stack, failed = [(start, 0)], set[tuple[int, int]]()  # numbered states from which it was tried already
        most = min(self.copies + (MOST_TRIED if self.by == COPIES else MOST_REPLAYED), MOST_COPIES)
        while stack and self.copies < most:
            state, depth = stack.pop()
            if depth == steps:
                return True
            if (number := _numbers(state.observation)).ndim == 0:
                if (depth, int(number)) in failed:
                    continue
                failed.add((depth, int(number)))
            next_states = []
            for a in range(self.stage.actions):
                after, g, over = self._branch(state, a)
                if (g <= 0).all():
                    if over:
                        return True
                    next_states.append((float(g.max()), a, after))
            by_margin: Callable[[tuple[float, int, _Visited]], float] = lambda each: -each[0]
            stack += [(after, depth + 1) for _, _, after in sorted(next_states, key=by_margin)]
        return False


NOT_REPEATED = (
    "the environment does not repeat: the same seed and the same actions gave other steps; let it draw from "
    "self.np_random"
)


def _numbers(observation: object) -> np.ndarray:
    """An observation as one array; empty if it has no numbers."""
    try:
        return flatten(observation)
    except EverystepError:
        return np.empty(0)
