"""Inputs that are environments which misbehave, for `es.train`: from one of their first episodes on they err."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import numpy as np

from fuzz.cases import PYTHON_API, Bench, Case, value


class _OddError(BaseException):
    """Neither an error nor Ctrl-C."""


class Misbehaving:
    """An environment whose step returns five usual values, of which `change` makes something else from then on."""

    def __init__(self, change: Any, first: int) -> None:
        from gymnasium import spaces

        self.observation_space, self.action_space = spaces.Box(-1, 1, (2,), np.float64), spaces.Discrete(2)
        self.change, self.first, self.episode = change, first, 0
        self.x = np.zeros(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.episode += 1
        self.x[:] = 0  # the same array again and again
        return self.x, {}

    def step(self, action: int) -> Any:
        self.x[:] = np.clip(self.x + [0.4 * action, 0.1], -1, 1)
        values = (self.x, float(action), bool(self.x[1] > 0.25), False, {"constraint": self.x[0] - 0.5})
        return self.change(values) if self.episode >= self.first else values


def _raise(error: type[BaseException]) -> Any:
    raise error("on purpose")


@PYTHON_API.kind("misbehaving", 25)
def environment(bench: Bench) -> Case:
    """One of five values replaced by a strange one, another number of them, or a deed."""
    strange, place = value(bench), int(bench.rng.integers(5))
    masked = np.ma.array([0.1, 0.2], mask=[True, False])
    replaced = lambda new: lambda values: (*values[:place], new, *values[place + 1 :])
    info = lambda new: lambda values: (*values[:4], {bench.pick(("constraint", "cost", "mean_constraint")): new})
    deeds = [
        replaced(strange),
        replaced(bench.pick([masked, np.nan, -0.0, 1e300, np.zeros(3), np.zeros((2, 1)), 10**400, None])),
        info(strange),
        info(bench.pick([masked, np.nan, -0.0, 1e300, [], [1, "a"], 10**400, [0.1, masked]])),
        lambda values: values[:place],
        lambda values: (*values, strange),
        lambda values: _raise(bench.pick([ValueError, SystemExit, GeneratorExit, MemoryError, _OddError])),
        lambda values: os.chdir("/") or values,
        lambda values: threading.Thread(target=lambda: None).start() or values,
        lambda values: sys.exit(int(bench.rng.integers(3))),
        lambda values: (np.frombuffer(os.urandom(2), np.uint8) / 255, *values[1:]),
    ]
    which = int(bench.rng.integers(len(deeds)))

    def train() -> None:
        import everystep as es

        env = Misbehaving(deeds[which], int(bench.rng.integers(1, 4)))
        if bench.quick:
            es.logged.from_env(env, None, episodes=4)
            return
        es.train(
            env,
            "lsvi-ae",
            features=es.features.polynomial(1),
            horizon=3,
            episodes=4,
            out="out",
            progress=lambda more: None,
        )

    return Case(call=train, shown=f"deed {which}, place {place}", written=["out"], kept=["out"])
