"""What the applications of uppaal-gym share: `is_safe` is the limit, and NumPy's global generator the chance."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np


class Uppaal(gymnasium.Wrapper):
    """g = 1 where the state is not safe, which ends the episode, else -1. Subclasses say `state` and `reward`."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            np.random.seed(seed)  # noqa: NPY002
        x, info = self.env.reset(seed=seed)
        return self.seen(x), info

    def step(self, action: Any) -> Any:
        x, _, _, truncated, info = self.env.step(action)
        safe = bool(self.unwrapped.is_safe(self.state()))  # type: ignore[attr-defined]
        return self.seen(x), self.reward(x), not safe, truncated, {**info, "constraint": -1.0 if safe else 1.0}

    def seen(self, x: np.ndarray) -> np.ndarray:
        return x

    def state(self) -> tuple[float, ...]:
        raise NotImplementedError

    def reward(self, x: np.ndarray) -> float:
        raise NotImplementedError
