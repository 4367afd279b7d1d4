"""Inputs that are environments which misbehave, for `es.train`, `es.logged.from_env`, `everystep train` and `evaluate`.

Everything about an environment is drawn from one number, so that a module of a line, imported by the processes of the
command, makes the same one. From one of its first episodes on it errs: in what it returns, or in what it does.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.cases import FOREIGN, LEAST_MEMORY, Bench, Case, value

Values = tuple[Any, ...]


class _OddError(BaseException):
    """Neither an error nor Ctrl-C."""


class _Text(str):
    """A text of another class."""


class Misbehaving:
    """An environment whose step returns five usual values, of which `change` makes something else from then on."""

    render_mode = "rgb_array"

    def __init__(self, seed: int, at_once: bool = False) -> None:
        from gymnasium import spaces

        self.bench = Bench(np.random.default_rng([seed, 2]), Path(), Path())
        self.deed = self.bench.pick(sorted(DEEDS))
        self.change, self.first, self.episode = DEEDS[self.deed], int(self.bench.rng.integers(0, 4)), 0
        self.observation_space, self.action_space = spaces.Box(-1, 1, (2,), np.float64), spaces.Discrete(2)
        self.x, self.steps = np.zeros(2), 0
        if at_once and self.first == 0 and self.deed in AT_ONCE:
            self.change(self, (self.x, 0.0, False, False, {}))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.episode += 1
        self.x[:] = 0  # the same array again and again
        values: Values = (self.x, 0.0, False, False, {})
        if self.first == 0 and self.episode > 1:
            values = self.change(self, values)
        return (values[0], values[4]) if isinstance(values, tuple) and len(values) == 5 else values

    def step(self, action: int) -> Any:
        self.steps += 1
        self.x[:] = np.clip(self.x + [0.4 * action, 0.1], -1, 1)
        values = (self.x, float(action), bool(self.x[1] > 0.25), False, {"constraint": self.x[0] - 0.5})
        return self.change(self, values) if self.episode >= self.first else values

    def render(self) -> Any:
        if self.deed != "pictures":
            return np.zeros((4, 4, 3), np.uint8)
        n = int(self.bench.rng.integers(1, 9))
        return self.bench.pick([
            None, "x", np.zeros((n, n)), np.zeros((0, 0, 3), np.uint8), np.full((n, n, 3), np.nan), [[[1, 2, 3]]],
            np.zeros((n, n, 4), np.uint8), np.zeros((1, 100_000, 3), np.uint8), np.zeros((n, n, 3), complex), 10**400,
            np.ma.masked_all((n, n, 3)), np.zeros((n, n, 3), object), np.zeros((n, n, 3), np.uint8),
        ])  # fmt: skip

    def close(self) -> None:
        if self.deed == "closing" and self.first:
            raise OSError("on purpose")


def _with(values: Values, place: int, new: Any) -> Values:
    return (*values[:place], new, *values[place + 1 :])


ODD = (
    np.ma.array([0.1, 0.2], mask=[True, False]), np.nan, -0.0, 1e300, np.zeros(3), np.zeros((2, 1)), 10**400, None,
    np.zeros(0), np.float16(3), np.array(["a", "b"]), np.array([1, None], object), 1e101, "1", b"1", 1j, [[1], [2, 3]],
    np.ma.masked, np.datetime64("2020-01-01"), np.zeros((1, 2)), np.longdouble(1), {"a": 1}, iter([1.0, 2.0]),
)  # fmt: skip
INFOS: tuple[Any, ...] = (
    None, [], "x", 3, {}, {1: 2}, {"constraint": None}, {"cost": "x"}, {"constraint": {}}, {"constraint": iter([1])},
    {"constraint": np.ma.masked}, {"constraint": [0.1, np.ma.masked]}, {"cost": 10**400}, {"constraint": [[1], [2, 3]]},
    {_Text("constraint"): 0.1}, {"constraint": np.array(0.1, object)}, {"cost": True}, {"constraint": lambda: 1.0},
    {"constraint": np.zeros(100_000)}, {"final_info": 3, "_final_info": 3, "constraint": 0.1}, {"episode": "x"},
)  # fmt: skip


def _replaced(env: Misbehaving, values: Values) -> Values:
    return _with(values, int(env.bench.rng.integers(5)), value(env.bench))


def _odd(env: Misbehaving, values: Values) -> Values:
    return _with(values, int(env.bench.rng.integers(5)), env.bench.pick(ODD))


def _info(env: Misbehaving, values: Values) -> Values:
    strange = {env.bench.pick(("constraint", "cost", "mean_constraint")): value(env.bench)}
    return _with(values, 4, env.bench.pick((*INFOS, strange)))


def _shapes(env: Misbehaving, values: Values) -> Values:
    return _with(values, 0, np.zeros(1 + env.steps % 3))


def _constraints(env: Misbehaving, values: Values) -> Values:
    return _with(values, 4, {"constraint": [0.1] * (1 + env.steps % 3)})


def _raises(env: Misbehaving, values: Values) -> Values:
    errors = [ValueError, SystemExit, GeneratorExit, MemoryError, _OddError, StopIteration, RecursionError, OSError]
    errors += [KeyError, UnicodeError, BrokenPipeError, AssertionError, Warning, ImportError, TimeoutError]
    raise env.bench.pick(errors)(env.bench.pick(("on purpose", "", "\x1b[31m", "a\nb", "x" * 5000)))


def _exits(env: Misbehaving, values: Values) -> Values:
    return sys.exit(env.bench.pick((0, 1, 2, None, "words", 130)))


def _writes(env: Misbehaving, values: Values) -> Values:
    print("a word of the environment")
    return values


def _threads(env: Misbehaving, values: Values) -> Values:
    threading.Thread(target=time.sleep, args=(0.01,), daemon=env.bench.chance(0.5)).start()
    return values


def _moves(env: Misbehaving, values: Values) -> Values:
    os.chdir(env.bench.pick(("/", "..", os.environ["TMPDIR"])))
    return values


def _streams(env: Misbehaving, values: Values) -> Values:
    deeds: list[Callable[[], Any]] = [
        lambda: sys.stdout.close(), lambda: sys.stderr.close(), lambda: os.close(1), lambda: os.close(0),
        lambda: setattr(sys, "stdout", None), lambda: setattr(sys, "stderr", None),
        lambda: setattr(sys, "stdout", open(os.devnull, "w", encoding="utf-8")),  # noqa: SIM115
    ]  # fmt: skip
    if env.steps < 20:
        with contextlib.suppress(OSError, AttributeError):  # it was closed before
            env.bench.pick(deeds)()
    return values


def _state(env: Misbehaving, values: Values) -> Values:
    """What belongs to everybody: generators, warnings, errors of NumPy, how arrays are printed."""
    env.bench.pick([
        lambda: np.random.seed(0), lambda: random.seed(0), lambda: np.seterr(all="raise"),  # noqa: NPY002
        lambda: warnings.simplefilter("error"), lambda: setattr(sys, "argv", []),
        lambda: np.set_printoptions(threshold=1, precision=0),
    ])()  # fmt: skip
    return values


def _spaces(env: Misbehaving, values: Values) -> Values:
    from gymnasium import spaces

    env.action_space = env.bench.pick([spaces.Discrete(5), None, spaces.Box(-1, 1, (2,))])
    env.observation_space = env.bench.pick([spaces.Discrete(5), None, spaces.Box(-1, 1, (3,))])
    return values


def _drawn(env: Misbehaving, values: Values) -> Values:
    return _with(values, 0, np.frombuffer(os.urandom(2), np.uint8) / 255)


def _kept(env: Misbehaving, values: Values) -> Values:
    """An array that changes after it was returned."""
    threading.Timer(0.0, lambda: env.x.fill(np.nan)).start()
    return values


DEEDS: dict[str, Callable[[Misbehaving, Values], Any]] = {
    "replaced": _replaced, "replaced again": _replaced, "odd": _odd, "odd again": _odd, "info": _info,
    "raises": _raises, "exits": _exits, "writes": _writes, "threads": _threads, "moves": _moves, "streams": _streams,
    "state": _state, "spaces": _spaces, "drawn": _drawn, "kept": _kept, "shapes": _shapes,
    "constraints": _constraints,
    "fewer": lambda env, values: values[: int(env.bench.rng.integers(5))],
    "more": lambda env, values: (*values, 1), "a list": lambda env, values: list(values),
    "none": lambda env, values: None, "a generator": lambda env, values: (each for each in values),
    "forever": lambda env, values: _with(_with(values, 2, False), 3, False),
    "pictures": lambda env, values: values, "closing": lambda env, values: values,
    "huge": lambda env, values: _with(values, 0, np.zeros(2**22)),
}  # fmt: skip
AT_ONCE = ("raises", "exits", "threads", "moves", "streams", "state")  # also while the environment is made
COMMAND_ONLY = ("streams",)  # of which the command opens its own again
MODULE = """
from fuzz.misbehaving import Misbehaving
def make():
    return Misbehaving({seed}, at_once=True)
"""


@FOREIGN.kind("environments", 30)
def environment(bench: Bench) -> Case:
    """Training, logging and evaluating in an environment that misbehaves, from Python or by the command."""
    seed = int(bench.rng.integers(2**31))
    how = "log" if bench.quick else bench.pick(("train", "train", "log", "command", "command", "several", "evaluate"))
    if how in ("log", "train"):
        seed = next(n for n in range(seed, seed + 1000) if deed_of(n) not in COMMAND_ONLY)
    (bench.here / "strange.py").write_text(MODULE.format(seed=seed), encoding="utf-8")
    case = _case(bench, how, seed)
    case.shown, case.memory = f"{how}: {deed_of(seed)} {' '.join(case.words)}", LEAST_MEMORY
    case.any_words = deed_of(seed) in ("state",)
    return case


def deed_of(seed: int) -> str:
    return str(Bench(np.random.default_rng([seed, 2]), Path(), Path()).pick(sorted(DEEDS)))


def _case(bench: Bench, how: str, seed: int) -> Case:
    import everystep as es

    if how == "log":
        return Case(call=lambda: es.logged.from_env(Misbehaving(seed), None, episodes=4, length=5))
    if how == "train":
        options: dict[str, Any] = {"horizon": 3, "length": 4, "episodes": 4}
        options |= {"out": str(bench.here / "out")} if bench.chance(0.5) else {}
        options |= {"evaluate": 1} if bench.chance(0.3) else {}
        features = es.features.polynomial(1)
        return Case(
            call=lambda: es.train(Misbehaving(seed), features=features, **options), written=["out"], kept=["out"]
        )
    if how == "evaluate":
        shutil.copytree(bench.templates / "foreign" / "finished", bench.here / "run")
        words = ["evaluate", "run", "--env", "strange:make", "--episodes", "2"]
        words += ["--gif", "film.gif"] if bench.chance(0.3) else []
        return Case(words, written=["run", "film.gif", ".everystep.sha256"])
    words = ["train", "--env", "strange:make", "--features", "polynomial(1)", "--horizon", "3", "--length", "4"]
    words += ["--episodes", "4", "--out", "out", "--evaluate", bench.pick(("0", "1"))]
    words += ["--seeds", "2", "--jobs", "2"] if how == "several" else ["--jobs", "1"]
    return Case(words, written=["out"], kept=["out"])
