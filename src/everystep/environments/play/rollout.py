"""Episodes played in a gymnasium environment, or in several copies of it at once: the one loop over steps.

An error in the environment, the constraint function or an observation ends the round with one sentence that names the
step; the transitions before it stay in the builders.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike

from everystep.environments.play import constraints
from everystep.environments.play.action_sets import ActionSet, Candidates, candidates
from everystep.environments.play.batch import BatchBuilder, check_observation
from everystep.environments.play.constraints import Constraint, signed
from everystep.environments.play.global_draws import GlobalDraws
from everystep.environments.protocols import AnyEnv, Info, Space, is_vector
from everystep.errors import EverystepError, as_number, is_masked, shown, user_code, whole_number
from everystep.features.spaces import Coordinates, flatten

Choose = Callable[[int, list[object], np.ndarray], np.ndarray]  # (step, observations, their arrays) to actions from 0


# Observations, rewards, terminated, truncated and infos after a step, one for each copy.
Steps = tuple[list[object], np.ndarray, np.ndarray, np.ndarray, list[Info]]


class Transition(NamedTuple):
    """One step of one copy, as it happens; the action and the step of the episode count from 0."""

    copy: int
    step: int
    observation: np.ndarray
    action: int
    reward: float
    cost: np.ndarray
    next_observation: np.ndarray
    terminated: bool


OnStep = Callable[[Transition], None]

FAR_OUTSIDE = 10  # widths of its range by which a coordinate may leave it before it counts as broken


class StepError(EverystepError):
    """A round that ended early; its sentence begins with the step."""


class Stage:
    """An environment, or n copies of it behind a vector environment, stepped together.

    `to_array` turns one observation into the array that is stored; it must copy, as environments reuse their arrays.
    The environment is seeded once, before its first episode; with `reseed` before every episode, by its number.
    `actions` are those to choose among, as `es.actions` gives them. Agents know an action by its number, from 0.
    """

    def __init__(
        self,
        env: AnyEnv,
        constraint: Constraint | None,
        seed: int,
        to_array: Callable[[object], np.ndarray] = flatten,
        reseed: bool = False,
        actions: ActionSet | Candidates | None = None,
    ) -> None:
        self.env, self.constraint, self.to_array = env, constraint, to_array
        self.is_vector = is_vector(env)
        self.copies = whole_number("num_envs of the environment", env.num_envs) if is_vector(env) else 1
        constraints.check(constraint)
        prefix = "single_" if self.is_vector else ""
        names = (f"{prefix}action_space", f"{prefix}observation_space")
        if not all(hasattr(env, name) for name in (*names, "reset", "step")):
            raise EverystepError(f"env is {shown(env)}; give a gymnasium environment, or the id of one.")
        space, self.observation_space = (getattr(env, name) for name in names)
        self.candidates = candidates(space, actions)
        self.actions, self.first_action = self.candidates.count, self.candidates.first
        about = getattr(env, "metadata", None)
        mode = str(about.get("autoreset_mode", "")).lower() if isinstance(about, Mapping) else ""
        if "disabled" in mode:
            raise EverystepError(
                "the vector environment never resets its copies; make it with autoreset_mode NEXT_STEP."
            )
        self._same_step = "same" in mode
        self.seed, self.reseed = seed, reseed
        self.begun = False  # whether the first episode was
        self.global_draws = GlobalDraws()
        self._low, self._high = _reach(self.observation_space)

    @property
    def action_points(self) -> int | np.ndarray:
        """The actions as features receive them: their number, or their coordinates (A, k)."""
        points = self.candidates.points
        return self.actions if points is None else points

    def reset(self, episode: int) -> list[object]:
        """The first observation of each copy."""
        seed = None if self.begun else self.seed
        if self.reseed:
            seed = int(np.random.SeedSequence([self.seed, episode]).generate_state(1)[0])
        self.begun = True
        with calls("reset"):
            with self.global_draws.in_reset(seed is not None):
                observations, _ = self.env.reset(seed=seed)
            return self._split(observations)

    def step(self, actions: np.ndarray) -> Steps:
        """Next observations, rewards, terminated, truncated and infos, one for each copy; actions count from 0."""
        given = self.candidates.several(actions) if self.is_vector else self.candidates.action(actions[0])
        with calls("step"):
            with self.global_draws.in_step():
                values: Sequence[Any] = self.env.step(given)
            if len(values) != 5:
                raise EverystepError(
                    f"the environment's step returns {len(values)} values, not five; "
                    "wrap it in es.gym.FromSixValueStep if it returns six."
                )
            return self._several(*values) if self.is_vector else self.single(*values)

    def array_of(self, observation: object) -> np.ndarray:
        """An observation as an array of finite numbers inside its space, up to a small tolerance."""
        array = self.to_array(observation)
        check_observation(array)
        numbers = array.reshape(-1)
        if numbers.shape != self._low.shape:
            return array  # an unknown space, or a wrong number of coordinates, which the features refuse
        if (wrong := (numbers < self._low) | (numbers > self._high)).any():
            raise EverystepError(
                f"an observation is {numbers[wrong][0]:g} at coordinate {int(wrong.argmax())}, outside of its space "
                f"{shown(self.observation_space)}; correct the environment or its observation space."
            )
        return array

    def single(self, after: object, reward: SupportsFloat, terminated: bool, truncated: bool, info: Info) -> Steps:
        """The values of a step of one environment, checked, as `step` returns them."""
        ends = (np.array([_flag("terminated", terminated)]), np.array([_flag("truncated", truncated)]))
        return [after], np.array([_reward(reward)]), *ends, [_info(info)]

    def _several(
        self, after: Sequence[object], reward: np.ndarray, terminated: np.ndarray, truncated: np.ndarray, info: Info
    ) -> Steps:
        rewards = np.array([_reward(each) for each in self._each("the rewards", reward)])
        terminated = np.array([_flag("terminated", each) for each in self._each("terminated", terminated)])
        truncated = np.array([_flag("truncated", each) for each in self._each("truncated", truncated)])
        infos: list[Info] = [_info_of_copy(_info(info), i) for i in range(self.copies)]
        observations = self._split(after)
        over = terminated | truncated
        if self._same_step:  # a copy that is over has already been reset; info holds its last step
            last = lambda i, key, now: infos[i].get(key, now) if over[i] else now
            observations = [last(i, "final_obs", x) for i, x in enumerate(observations)]
            infos = [last(i, "final_info", info) for i, info in enumerate(infos)]
        return observations, rewards, terminated, truncated, infos

    def _each(self, name: str, values: np.ndarray) -> np.ndarray:
        """The values of a vector environment, one for each copy."""
        if np.ndim(values) != 1 or len(values) != self.copies:
            raise EverystepError(f"{name} of the vector environment are {shown(values)}; return one for each copy.")
        return values

    def _split(self, observations: Sequence[Any] | np.ndarray | Mapping[str, Any]) -> list[object]:
        """The observations of each copy."""
        if not self.is_vector:
            return [observations]
        if isinstance(observations, Mapping):
            return [{key: each[i] for key, each in observations.items()} for i in range(self.copies)]
        if isinstance(observations, tuple):
            return [tuple(each[i] for each in observations) for i in range(self.copies)]
        if len(observations) != self.copies:
            raise EverystepError(f"there are {len(observations)} observations of {self.copies} copies; return as many.")
        return list(observations)


def play(
    stage: Stage,
    builders: Sequence[BatchBuilder],
    choose: Choose,
    *,
    length: int | None = None,
    episode: int = 0,
    on_step: OnStep | None = None,
) -> None:
    """Play one episode in every copy, of at most `length` steps, and add its transitions to the copy's builder.

    A copy whose episode is over is ignored until all are. `on_step` is called after every step of a copy. An error
    names its step.
    """
    # The constraint function gets the previous observation, whose arrays the environment may have reused by then.
    keep = copy.deepcopy if stage.constraint is not None else lambda observations: observations
    t, over = 0, [False] * stage.copies
    try:
        observations = stage.reset(episode)
        x = _stacked([stage.array_of(each) for each in observations])
        observations = keep(observations)
        while not all(over) and t != length:
            actions = choose(t, observations, x)
            after, reward, terminated, truncated, infos = stage.step(actions)
            x_next = [stage.array_of(each) for each in after]
            for i, builder in enumerate(builders):
                if over[i]:
                    continue
                action = int(actions[i])
                given = stage.candidates.action(action)
                cost, mean_cost = observed_costs(stage, observations[i], given, after[i], infos[i])
                builder.add(
                    observation=x[i],
                    action=action,
                    reward=reward[i],
                    cost=cost,
                    next_observation=x_next[i],
                    terminated=bool(terminated[i]),
                    step=t,
                    episode=episode,
                    mean_cost=mean_cost,
                )
                if on_step is not None:
                    ended = bool(terminated[i])
                    on_step(Transition(i, t, x[i], action, float(reward[i]), cost, x_next[i], ended))
                over[i] = bool(terminated[i] or truncated[i])
                builder.over = over[i] or t + 1 == length
            t += 1
            if not all(over) and t != length:
                observations, x = keep(after), _stacked(x_next)
    except EverystepError as error:
        raise StepError(f"step {t + 1}: {error}") from error


def observed_costs(
    stage: Stage, before: object, action: object, after: object, info: Info
) -> tuple[np.ndarray, np.ndarray]:
    """The constraints (m,) of one step as observed, and their true means where only the environment reports both."""
    cost = constraints.observed(stage.constraint, before, action, after, info)
    knows_mean = stage.constraint is None and "mean_constraint" in info
    return cost, _mean_cost(info["mean_constraint"], len(cost)) if knows_mean else cost


def calls(method: str) -> user_code:
    """A block that calls a method of an environment."""
    return user_code(lambda name, words: f"the environment's {method} raised {name}: {words.rstrip('.')}.")


def _reach(space: Space) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest number that each coordinate of an observation may have; empty for unknown spaces.

    Measurements may be a little outside of their range, and are clipped then; numbers of a list may not.
    """
    try:
        at = Coordinates.of(space)
    except EverystepError:
        return np.empty(0), np.empty(0)
    width = np.where(np.isfinite(at.high - at.low), np.maximum(at.high - at.low, 1.0), 0.0) * (at.sizes is None)
    return at.low - FAR_OUTSIDE * width, at.high + FAR_OUTSIDE * width


def _reward(value: object) -> float:
    """The reward of one step; its size is checked where it is stored."""
    number = as_number(value)
    if number is None or isinstance(value, str):
        raise EverystepError(f"the reward is {shown(value)}; return one number.")
    try:
        return float(number)
    except OverflowError:
        return np.inf


def _flag(name: str, value: object) -> bool:
    """Whether an episode is over: true or false, or 1 or 0."""
    kind = getattr(getattr(value, "dtype", None), "kind", "i" if isinstance(value, int) else "")
    single = getattr(value, "shape", ()) == () and kind in ("b", "i", "u") and not is_masked(value)
    if single and value in (0, 1):
        return bool(value)
    raise EverystepError(f"{name} is {shown(value)}; return True or False.")


def _info(value: object) -> Info:
    if not isinstance(value, Mapping):
        raise EverystepError(f"info is {shown(value)}; return a dictionary, which may be empty.")
    return value


def _mean_cost(value: ArrayLike, constraints: int) -> np.ndarray:
    """The true means of the constraints (m,) that an environment reports beside the observed ones."""
    mean = signed(value, lambda: f"info['mean_constraint'] is {shown(value)}")
    if len(mean) != constraints:
        raise EverystepError(f"info['mean_constraint'] has {len(mean)} numbers for {constraints} constraints.")
    return mean


def _info_of_copy(info: Info, i: int) -> dict[str, Any]:
    """The info of one copy; a key with an underscore tells which copies have it."""
    has = lambda key: f"_{key}" not in info or bool(np.asarray(info[f"_{key}"])[i])
    own = lambda value: _info_of_copy(value, i) if isinstance(value, Mapping) else value[i]
    return {key: own(value) for key, value in info.items() if not key.startswith("_") and has(key)}


def _stacked(each: list[np.ndarray]) -> np.ndarray:
    """The observations of all copies in rows."""
    for x in each:
        if x.shape != each[0].shape:
            raise EverystepError(
                f"the copies have observations of shapes {each[0].shape} and {x.shape}; make them the same."
            )
    return np.stack(each)
