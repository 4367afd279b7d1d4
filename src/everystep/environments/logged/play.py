"""Batches collected by playing in an environment."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from everystep.environments.constraints import Constraint, observed
from everystep.environments.logged.batch import Batch
from everystep.errors import EverystepError, number_below, whole_number
from everystep.features.spaces import flatten


def from_env(
    env: Any,
    policy: Callable[[Any], Any] | None,
    episodes: int,
    seed: int = 0,
    constraint: Constraint | None = None,
    horizon: int | None = None,
) -> Batch:
    """A batch collected by playing `policy`, a function from observation to action; None walks at random.

    horizon: the most steps of an episode, for environments that have no end. All randomness of the environment and of
    the random walk comes from `seed`. If the environment or the policy breaks, the error's `kept` holds what was
    collected before.
    """
    episodes, seed = whole_number("episodes", episodes), whole_number("seed", seed, at_least=0)
    most = None if horizon is None else whole_number("horizon", horizon)
    count = number_of_actions(getattr(env, "action_space", None))
    rng = np.random.default_rng(seed)
    act = policy if policy is not None else lambda obs: int(rng.integers(count))
    rows = Rows()
    k = h = 0
    try:
        for k in range(episodes):
            obs, _ = env.reset(seed=seed if k == 0 else None)
            h, over = 0, False
            while not over:
                action = number_below("the policy's action", act(obs), count)
                values = env.step(action)
                if len(values) != 5:
                    raise EverystepError(
                        f"the environment's step gives {len(values)} values; wrap it in es.gym.FromSixValueStep."
                    )
                after, reward, terminated, truncated, info = values
                g = observed(constraint, obs, action, after, info)
                rows.add(obs, action, reward, g, after, terminated, h, k)
                obs, h = copy.deepcopy(after), h + 1  # the environment may use its arrays again
                over = bool(terminated or truncated or h == most)
    except Exception as error:
        words = str(error) if isinstance(error, EverystepError) else f"{type(error).__name__}: {error}"
        kept = rows.batch(count) if len(rows) else None
        more = "" if kept is None else f" The {len(kept)} steps before it are in this error's `kept`."
        broken = EverystepError(f"step {h + 1} of episode {k + 1} broke: {words.rstrip('.')}.{more}")
        broken.kept = kept
        raise broken from error
    return rows.batch(count)


class Rows:
    """Transitions one by one, until they are a batch."""

    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {field.name: [] for field in fields(Batch)}

    def __len__(self) -> int:
        return len(self.columns["rewards"])

    def add(
        self, obs: Any, action: Any, reward: Any, g: np.ndarray, after: Any, terminated: Any, h: int, k: int
    ) -> None:
        before, after, reward = _array(obs), _array(after), float(reward)
        # Said before the row is added, so that what came before is whole.
        for name, value in (("observations", before), ("next_observations", after), ("rewards", reward)):
            number = isinstance(value, float) or value.dtype.kind in "biuf"
            if not number or not np.isfinite(value).all():
                raise EverystepError(f"{name} are {value} at step {h}; give finite numbers, or arrays of them.")
        if len(self):
            columns = self.columns
            for name, shape in (("observations", before.shape), ("next_observations", after.shape), ("costs", g.shape)):
                if columns[name][0].shape != shape:
                    raise EverystepError(
                        f"{name} have shape {shape} after {columns[name][0].shape}; give the same at every step."
                    )
        row = (before, action, reward, g, after, bool(terminated), h, k)
        for column, value in zip(self.columns.values(), row, strict=True):
            column.append(value)

    def batch(self, action_count: int) -> Batch:
        if not len(self):
            raise EverystepError("there are no steps in it; give at least one episode.")
        return Batch.of(**self.columns, action_count=action_count)


def _array(obs: Any) -> np.ndarray:
    """A copy, for arrays may be used again; observations of several parts in one row."""
    return flatten(obs) if isinstance(obs, Mapping | tuple) else np.array(obs)


def number_of_actions(space: Any) -> int:
    """The number of actions."""
    try:
        from gymnasium.spaces import Discrete
    except ImportError:
        raise EverystepError(
            "environments need gymnasium, which is not installed; install it with pip install 'everystep[gym]'."
        ) from None
    if not isinstance(space, Discrete) or int(space.start) != 0:
        raise EverystepError(
            f"the action space is {space}; give one that is Discrete and starts at 0, "
            "by a wrapper that picks from a list of actions."
        )
    return int(space.n)
