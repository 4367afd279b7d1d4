"""The baselines: PPO and DQN from stable-baselines3. A price on violations is subtracted from their reward."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from everystep.errors import EverystepError


def learn(algorithm: str, env: Any, steps: int, seed: int, settings: Mapping[str, Any]) -> Callable[[Any], int]:
    """Train for `steps` steps and return the greedy policy."""
    try:
        import stable_baselines3 as sb3
        import torch
    except ImportError:
        raise EverystepError("the baselines need stable-baselines3; install everystep[rivals].") from None
    torch.set_num_threads(1)  # the networks are small, and seeds run in parallel
    kind = {"DQN": sb3.DQN, "PPO": sb3.PPO}[algorithm]
    model = kind("MlpPolicy", env, seed=seed, device="cpu", **settings).learn(steps)
    return lambda seen: int(model.predict(seen, deterministic=True)[0])
