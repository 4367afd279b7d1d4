"""Episodes played in a gymnasium environment, or in several copies of it at once, by an agent that plans between them.

Whatever goes wrong in somebody else's code (the environment, the constraint function) ends the round in one sentence,
and what was seen before it is handed back.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from everystep.environments import constraints
from everystep.environments.constraints import Constraint
from everystep.environments.logged.batch import Batch
from everystep.errors import EverystepError
from everystep.features.spaces import flatten

Choose = Callable[[int, np.ndarray], np.ndarray]  # (step, observations) to actions
Told = Callable[[int, np.ndarray, int, np.ndarray], None]  # (step, observation, action, costs)


class Stage:
    """An environment, or n copies of it behind a vector environment, stepped together."""

    def __init__(self, env: Any, constraint: Constraint | None, seed: int) -> None:
        self.env, self.constraint = env, constraint
        self.many = hasattr(env, "num_envs")
        self.copies = int(env.num_envs) if self.many else 1
        names = (
            ("single_action_space", "single_observation_space") if self.many else ("action_space", "observation_space")
        )
        if not all(hasattr(env, name) for name in (*names, "reset", "step")):
            raise EverystepError(f"env is {env!r}; give a gymnasium environment, or the id of one.")
        space = env.single_action_space if self.many else env.action_space
        self.actions = discrete_actions(space)
        self.first_action = int(getattr(space, "start", 0))
        self.observation_space = env.single_observation_space if self.many else env.observation_space
        mode = str((getattr(env, "metadata", None) or {}).get("autoreset_mode", "")).lower()
        if "disabled" in mode:
            raise EverystepError(
                "the vector environment never resets its copies; make it with autoreset_mode NEXT_STEP."
            )
        self._same_step = "same" in mode
        self._seed: int | None = seed

    def reset(self) -> list[Any]:
        seed, self._seed = self._seed, None
        observations, _ = self.env.reset(seed=seed)
        return self._split(observations)

    def step(self, actions: np.ndarray) -> tuple[list[Any], np.ndarray, Any, Any, list[Any]]:
        """Next observations, rewards, terminated, truncated and infos, one for each copy."""
        if not self.many:
            after, reward, terminated, truncated, info = self.env.step(int(actions[0]) + self.first_action)
            return [after], np.array([reward], float), np.array([terminated]), np.array([truncated]), [info]
        after, reward, terminated, truncated, info = self.env.step(actions + self.first_action)
        infos: list[Any] = [_of_copy(info, i) for i in range(self.copies)]
        after = self._split(after)
        over = terminated | truncated
        if self._same_step:  # a copy that is over has started again already; its last step is kept aside
            last = lambda i, key, now: infos[i].get(key, now) if over[i] else now
            after = [last(i, "final_obs", x) for i, x in enumerate(after)]
            infos = [last(i, "final_info", info) for i, info in enumerate(infos)]
        return after, np.asarray(reward, float), terminated, truncated, infos

    def _split(self, observations: Any) -> list[Any]:
        """The observations of each copy."""
        if not self.many:
            return [observations]
        if isinstance(observations, Mapping):
            return [{key: each[i] for key, each in observations.items()} for i in range(self.copies)]
        if isinstance(observations, tuple):
            return [tuple(each[i] for each in observations) for i in range(self.copies)]
        return list(observations)


def discrete_actions(space: Any) -> int:
    """How many actions there are; other spaces than Discrete are refused with what to do."""
    if hasattr(space, "n") and getattr(space, "shape", ()) == ():
        return int(space.n)
    raise EverystepError(
        f"the action space is {space}; everystep chooses among finitely many actions: make it Discrete, for instance "
        "with gymnasium.wrappers.TransformAction(env, lambda i: LIST[i], gymnasium.spaces.Discrete(len(LIST)))."
    )


def _of_copy(info: Mapping[str, Any], i: int) -> dict[str, Any]:
    """What a vector environment says of one copy; a key with an underscore says which copies have it."""
    has = lambda key: f"_{key}" not in info or bool(np.asarray(info[f"_{key}"])[i])
    own = lambda value: _of_copy(value, i) if isinstance(value, Mapping) else value[i]
    return {key: own(value) for key, value in info.items() if not key.startswith("_") and has(key)}


@dataclass
class Played:
    """The transitions of one copy in one round."""

    observations: list[np.ndarray] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    costs: list[np.ndarray] = field(default_factory=list)
    means: list[np.ndarray] = field(default_factory=list)  # of the constraints, where known, else as seen
    after: list[np.ndarray] = field(default_factory=list)
    terminated: list[bool] = field(default_factory=list)
    over: bool = False

    def add(
        self,
        observation: np.ndarray,
        action: int,
        reward: float,
        cost: np.ndarray,
        mean: np.ndarray,
        after: np.ndarray,
        terminated: bool,
    ) -> None:
        """One transition more."""
        self.observations.append(observation)
        self.actions.append(action)
        self.rewards.append(reward)
        self.costs.append(cost)
        self.means.append(mean)
        self.after.append(after)
        self.terminated.append(terminated)

    def batch(self, episode: int) -> Batch:
        """What there is to learn from it."""
        n = len(self.actions)
        return Batch(
            np.stack(self.observations),
            np.array(self.actions),
            np.array(self.rewards),
            np.stack(self.costs),
            np.stack(self.after),
            np.array(self.terminated),
            np.arange(n),
            np.full(n, episode),
        )


@dataclass
class Round:
    """What came of one round: an episode from each copy, and what broke it off, if anything did."""

    played: list[Played]
    broken: EverystepError | None = None


def play(stage: Stage, length: int, choose: Choose, told: Told | None = None) -> Round:
    """At most `length` steps in every copy from a fresh start; a copy whose episode is over is looked at no more."""
    played = [Played() for _ in range(stage.copies)]
    doing, t = "start", 0
    try:
        keep = copy.deepcopy if stage.constraint is not None else lambda seen: seen  # nobody else asks for them again
        seen = keep(stage.reset())
        doing = "observe"
        x = _rows([flatten(each) for each in seen])
        for t in range(length):
            doing = "observe"
            actions = choose(t, x)
            doing = "step"
            after, reward, terminated, truncated, infos = stage.step(actions)
            doing = "observe"
            x_next = [flatten(each) for each in after]
            for i, each in enumerate(played):
                if each.over:
                    continue
                action = int(actions[i]) + stage.first_action
                cost = constraints.observed(stage.constraint, seen[i], action, after[i], infos[i])
                known = stage.constraint is None and "mean_constraint" in infos[i]
                mean = np.asarray(infos[i]["mean_constraint"], float) if known else cost
                _check(reward[i], x[i], x_next[i], each.costs, cost)
                if told is not None:
                    told(t, x[i], int(actions[i]), cost)
                each.add(x[i], int(actions[i]), float(reward[i]), cost, mean, x_next[i], bool(terminated[i]))
                each.over = bool(terminated[i] or truncated[i])
            if all(each.over for each in played):
                break
            seen, x = keep(after), _rows(x_next)  # copies: the environment may use its arrays again
    except EverystepError as error:
        return Round(played, EverystepError(f"step {t + 1}: {error}"))
    except Exception as error:
        if doing == "observe":
            raise
        where = "did not start" if doing == "start" else f"broke at step {t + 1}"
        return Round(played, EverystepError(f"the environment {where} ({type(error).__name__}: {error})."))
    return Round(played)


def _rows(each: list[np.ndarray]) -> np.ndarray:
    """The observations of all copies in rows."""
    for x in each:
        if x.shape != each[0].shape or not np.isfinite(x).all():
            raise EverystepError(f"the observation {x} is not finite, or of another shape; mend the environment.")
    return np.stack(each)


def _check(reward: float, x: np.ndarray, x_next: np.ndarray, before: list[np.ndarray], cost: np.ndarray) -> None:
    if not np.isfinite(reward):
        raise EverystepError(f"the reward is {reward}; it must be a finite number.")
    if not np.isfinite(x_next).all() or x_next.shape != x.shape or x_next.dtype != x.dtype:
        raise EverystepError(
            f"the observation {x_next} after {x} is not finite, or of another shape or type; mend the environment."
        )
    if before and len(before[0]) != len(cost):
        raise EverystepError(f"the constraint gave {len(cost)} numbers, before it gave {len(before[0])}; give as many.")
