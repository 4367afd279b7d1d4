"""What an application is, and one run of one system on it.

A system is anything that learns: ours (`ours.py`) and those that people would use instead (`deep.py`). All of them take
the same number of steps in the same environment, with the same seeds, and are measured by the same `Recorder`: harm is
the sum over all training steps of max(g, 0), with g = info["constraint"].
"""

from __future__ import annotations

import json
import math
import platform
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

import gymnasium
import numpy as np

EVALUATED = 20  # episodes of the final policy, each with a seed of its own that no training has
SHARES = 100  # points of the curves
Choose = Callable[[np.ndarray, int], int]  # (observation, step of the episode from 0) to an action


@dataclass(frozen=True)
class Application:
    """A simulator with its limit, and what was chosen by hand for each system.

    make        a new environment: observations are a Box, actions Discrete, info["constraint"] is g, safe iff <= 0
    unit        of harm
    low, high   of observations, for features and networks
    length      the most steps of an episode
    horizon     steps that our agents look ahead, unless `ours` has another "horizon"
    ours        by system: "features" of `everystep.features.fourier`, or of a function "of"; settings of the agent
    rivals      by algorithm, or by system (one price of it): settings of stable-baselines3
    oracle      the environment to the actions that are safe, by knowledge that no learner has
    controller  the environment to the action of a controller that knows the model
    """

    name: str
    title: str
    make: Callable[[], gymnasium.Env]
    unit: str
    low: tuple[float, ...]
    high: tuple[float, ...]
    length: int
    steps: int
    horizon: int
    ours: Mapping[str, Mapping[str, Any]]
    rivals: Mapping[str, Mapping[str, Any]]
    oracle: Callable[[gymnasium.Env], np.ndarray] | None = None
    controller: Callable[[gymnasium.Env], int] | None = None
    packages: tuple[str, ...] = field(default=())


class Recorder(gymnasium.Wrapper):
    """Records reward and harm of every step.

    price    is subtracted from the reward for each unit of harm
    scaled   whether observations are scaled to [-1, 1], for networks
    """

    def __init__(self, app: Application, price: float = 0.0, scaled: bool = False) -> None:
        super().__init__(app.make())
        self.price = price
        self.bounds = (np.array(app.low), np.array(app.high)) if scaled else None
        if scaled:
            self.observation_space = gymnasium.spaces.Box(-2.0, 2.0, (len(app.low),), np.float32)
        self.rewards: list[float] = []
        self.harm: list[float] = []
        self.ends: list[int] = [0]  # steps at the end of each finished episode

    def seen(self, x: np.ndarray) -> np.ndarray:
        if self.bounds is None:
            return x
        low, high = self.bounds
        return np.clip((2 * x - low - high) / (high - low), -2, 2).astype(np.float32)

    def reset(self, **given: Any) -> Any:
        x, info = self.env.reset(**given)
        return self.seen(x), info

    def step(self, action: Any) -> Any:
        x, reward, terminated, truncated, info = self.env.step(int(action))
        harm = max(float(info["constraint"]), 0.0)
        self.rewards.append(float(reward))
        self.harm.append(harm)
        if terminated or truncated:
            self.ends.append(len(self.harm))
        return self.seen(x), float(reward) - self.price * harm, terminated, truncated, info

    def returns(self) -> np.ndarray:
        return np.diff(np.cumsum([0.0, *self.rewards])[self.ends])


@dataclass(frozen=True)
class System:
    """learn: train for `steps` steps in environments that are recorders, and return the final policy.

    kind     "ours", "rival", or "reference": one that knows what the others have to learn
    """

    name: str
    kind: str
    learn: Callable[[Application, Recorder, int, int, Mapping[str, Any]], Choose]
    settings: Callable[[Application], Mapping[str, Any]]
    price: float = 0.0
    scaled: bool = False
    runs_on: Callable[[Application], bool] = lambda app: True


def run(app: Application, system: System, seed: int, steps: int | None = None, **changed: Any) -> dict[str, Any]:
    """Train, then play the final policy: one row of the results (docs/reference/files.md)."""
    began, steps = time.perf_counter(), steps or app.steps
    settings = {**system.settings(app), **changed}
    recorder = Recorder(app, system.price, system.scaled)
    recorder.reset(seed=seed)  # seeds generators that agents do not know of, such as NumPy's own
    choose = system.learn(app, recorder, steps, seed, settings)
    seconds = time.perf_counter() - began
    final = play(Recorder(app, scaled=system.scaled), choose)
    harm = np.array(recorder.harm[:steps])
    unsafe = np.flatnonzero(harm > 0)
    return {
        "system": system.name,
        "problem": app.name,
        "seed": seed,
        "steps": steps,
        "harm": float(harm.sum()),
        "unsafe_steps": len(unsafe),
        "last_violation": int(unsafe[-1]) + 1 if len(unsafe) else 0,
        "final_return": float(final.returns().mean()),
        "final_harm": float(np.sum(final.harm) / EVALUATED),
        "final_episodes": EVALUATED,
        "kind": system.kind,
        "settings": json.dumps(settings, sort_keys=True, default=lambda each: getattr(each, "__name__", str(each))),
        "seconds": round(seconds, 1),
        "harm_curve": np.array([0.0, *harm.cumsum()])[steps * np.arange(1, SHARES + 1) // SHARES].tolist(),
        "return_curve": return_curve(recorder, steps),
        "versions": json.dumps(versions(app)),
        "command": command(app, system, seed, steps),
    }


def play(final: Recorder, choose: Choose) -> Recorder:
    """Episodes of a policy, without exploration."""
    for episode in range(EVALUATED):
        (x, _), step, over = final.reset(seed=1_000_000 + episode), 0, False
        choose.env = final  # type: ignore[attr-defined]  # for those that know the simulator
        while not over:
            x, _, terminated, truncated, _ = final.step(choose(x, step))
            step, over = step + 1, terminated or truncated
    return final


def return_curve(recorder: Recorder, steps: int) -> list[float]:
    """The mean return of the episodes that ended in each tenth of the training; NaN where none did."""
    ends, returns = np.array(recorder.ends[1:]), recorder.returns()
    tenth = np.minimum((10 * (ends - 1)) // steps, 10)
    return [float(returns[tenth == i].mean()) if (tenth == i).any() else math.nan for i in range(10)]


def command(app: Application, system: System, seed: int, steps: int) -> str:
    """What runs this again."""
    words = ["python", f"examples/applications/{app.name.replace('-', '_')}.py", "--systems", system.name]
    words += ["--seeds", f"{seed}:{seed + 1}"] + ([] if steps == app.steps else ["--steps", str(steps)])
    return shlex.join(words)


def versions(app: Application) -> dict[str, str]:
    names = ("everystep", "jax", "numpy", "gymnasium", "torch", "stable-baselines3", "sb3-contrib", *app.packages)
    found = {"python": platform.python_version()}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            import importlib

            found[name] = getattr(importlib.import_module(name), "__version__", "?") if name == "everystep" else "?"
    return found
