"""What people would use instead: PPO, DQN and QR-DQN with a price on harm, PPO-Lagrangian, and references."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from application import Application, Choose, Recorder, System
from ppo_lagrangian import PPOLagrangian
from sb3_contrib import QRDQN, MaskablePPO
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

PRICES = (0.0, 1.0, 10.0, 100.0)
ALGORITHMS = {"PPO": PPO, "DQN": DQN, "QR-DQN": QRDQN, "PPO-Lagrangian": PPOLagrangian}
DQN_SETTINGS = {
    "learning_rate": 1e-3, "learning_starts": 200, "batch_size": 64, "train_freq": 4, "gradient_steps": 4,
    "target_update_interval": 100, "exploration_fraction": 0.3, "exploration_final_eps": 0.02, "gamma": 0.98,
    "normalise": True,
}  # fmt: skip
PPO_SETTINGS = {
    "learning_rate": 1e-3, "n_steps": 250, "batch_size": 50, "n_epochs": 10, "gae_lambda": 0.9, "gamma": 0.98,
    "normalise": True,
}  # fmt: skip
USUAL = {
    "DQN": DQN_SETTINGS,
    "QR-DQN": {**DQN_SETTINGS, "policy_kwargs": {"n_quantiles": 50}},
    "PPO": PPO_SETTINGS,
    "PPO-Lagrangian": {**PPO_SETTINGS, "multiplier_rate": 0.1},
}


def learn_deep(algorithm: str) -> Any:
    def learn(app: Application, recorder: Recorder, steps: int, seed: int, settings: Mapping[str, Any]) -> Choose:
        torch.set_num_threads(1)  # the networks are small, and seeds run in parallel
        settings = dict(settings)
        env: Any = DummyVecEnv([lambda: recorder])
        if settings.pop("normalise", False):  # rewards by their running deviation: prices change their size
            env = VecNormalize(env, norm_obs=False, norm_reward=True, gamma=settings["gamma"])
        model = ALGORITHMS[algorithm]("MlpPolicy", env, seed=seed, device="cpu", **settings).learn(steps)
        return lambda x, step: int(model.predict(x, deterministic=True)[0])

    return learn


class Masked(gymnasium.Wrapper):
    """Scaled observations around a shield, which sees those of the environment."""

    def __init__(self, app: Application, env: Any, mask: Any) -> None:
        super().__init__(env)
        self.app, self.mask = app, mask
        self.observation_space = gymnasium.spaces.Box(-2.0, 2.0, (len(app.low),), np.float32)

    def scaled(self, x: np.ndarray) -> np.ndarray:
        low, high = np.array(self.app.low), np.array(self.app.high)
        return np.clip((2 * x - low - high) / (high - low), -2, 2).astype(np.float32)

    def reset(self, **given: Any) -> Any:
        x, info = self.env.reset(**given)
        return self.scaled(x), info

    def step(self, action: Any) -> Any:
        x, *rest = self.env.step(int(action))
        return (self.scaled(x), *rest)

    def action_masks(self) -> np.ndarray:
        return self.mask()


def learn_masked(app: Application, env: Any, steps: int, seed: int, settings: dict[str, Any], frozen: Any) -> Choose:
    """MaskablePPO, with the masks of a shield (`frozen`, as a policy) or of the oracle."""
    torch.set_num_threads(1)
    settings.pop("normalise", None)
    masked = Masked(app, env, env.action_masks if frozen is not None else lambda: app.oracle(env))
    model = MaskablePPO("MlpPolicy", masked, seed=seed, device="cpu", **settings).learn(steps)

    def choose(x: np.ndarray, step: int) -> int:
        allowed = frozen.admissible(x, step + 1) if frozen is not None else app.oracle(choose.env)  # type: ignore[attr-defined]
        return int(model.predict(masked.scaled(x), action_masks=allowed, deterministic=True)[0])

    return choose


def learn_with_oracle(
    app: Application, recorder: Recorder, steps: int, seed: int, settings: Mapping[str, Any]
) -> Choose:
    return learn_masked(app, recorder, steps, seed, dict(settings), frozen=None)


def learn_nothing(act: Any) -> Any:
    """A controller, or chance: it plays, and is counted as the others are."""

    def learn(app: Application, recorder: Recorder, steps: int, seed: int, settings: Mapping[str, Any]) -> Choose:
        random, over = np.random.default_rng(seed), True

        def choose(x: np.ndarray, step: int) -> int:
            return act(app, choose.env, random)  # type: ignore[attr-defined]

        choose.env = recorder  # type: ignore[attr-defined]
        while len(recorder.harm) < steps:
            if over:
                recorder.reset()
            _, _, terminated, truncated, _ = recorder.step(choose(None, 0))  # type: ignore[arg-type]
            over = terminated or truncated
        return choose

    return learn


def settings_of(algorithm: str, name: str = "") -> Any:
    return lambda app: {**USUAL[algorithm], **app.rivals.get(algorithm, {}), **app.rivals.get(name, {})}


def priced(algorithm: str, price: float) -> System:
    name = f"{algorithm}, price {price:g}"
    return System(name, "rival", learn_deep(algorithm), settings_of(algorithm, name), price, scaled=True)


def by_chance(app: Application, env: gymnasium.Env, random: np.random.Generator) -> int:
    return int(random.integers(env.action_space.n))  # type: ignore[attr-defined]


SYSTEMS = [
    *(priced(algorithm, price) for algorithm in ("PPO", "DQN", "QR-DQN") for price in PRICES),
    System("PPO-Lagrangian", "rival", learn_deep("PPO-Lagrangian"), settings_of("PPO-Lagrangian"), scaled=True),
    System("random", "rival", learn_nothing(by_chance), lambda app: {}),
    System(
        "MaskablePPO, oracle",
        "reference",
        learn_with_oracle,
        settings_of("PPO"),
        runs_on=lambda app: app.oracle is not None,
    ),
    System(
        "controller",
        "reference",
        learn_nothing(lambda app, env, random: app.controller(env)),
        lambda app: {},
        runs_on=lambda app: app.controller is not None,
    ),
]
