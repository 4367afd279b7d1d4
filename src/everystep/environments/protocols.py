"""What this library uses of a Gymnasium environment, and of one that has several copies.

Environments are recognised by their attributes, so they need not derive from classes of Gymnasium. What only some of
them have (`spec`, `metadata`, `render`, `close`, `unwrapped`) is read where it is used, with a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, SupportsFloat, SupportsIndex, TypeGuard

import numpy as np

from everystep.features.spaces import Space

__all__ = ["AnyEnv", "Env", "Info", "Space", "VectorEnv", "is_vector"]

Info = Mapping[str, Any]  # what an environment reports beside an observation


class Env(Protocol):
    """A `gymnasium.Env`: one environment."""

    @property
    def observation_space(self) -> Space: ...

    @property
    def action_space(self) -> Space: ...

    def reset(self, *, seed: int | None = None) -> tuple[Any, Info]:
        """Begin an episode; return its first observation and an info."""

    def step(self, action: Any, /) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        """Take one action; return the next observation, the reward, terminated, truncated and an info."""


class VectorEnv(Protocol):
    """A `gymnasium.vector.VectorEnv`: several copies of an environment, which are stepped together."""

    @property
    def num_envs(self) -> SupportsIndex: ...

    @property
    def single_observation_space(self) -> Space: ...

    @property
    def single_action_space(self) -> Space: ...

    def reset(self, *, seed: int | None = None) -> tuple[Any, Info]:
        """Begin an episode in every copy."""

    def step(self, actions: Any, /) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, Info]:
        """Take one action in every copy; every returned value has an entry for each copy."""


AnyEnv = Env | VectorEnv


def is_vector(env: object) -> TypeGuard[VectorEnv]:
    """Whether an environment has several copies."""
    return hasattr(env, "num_envs")
