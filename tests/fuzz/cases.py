"""What inputs are made of: the registry of their kinds, and strange numbers, texts and values to draw from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Generator = np.random.Generator


@dataclass
class Case:
    """One input: the words after `everystep`, or (for the Python API) a function to call.

    written   paths, relative to the working folder, that the input may create or change if it succeeds or is stopped
    kept      those that it may create or change even if it fails, because the sentence says how to go on with them
    serves    whether it goes on until it is stopped, as a server does
    own       exceptions that the input itself raises, which may come back out of the library
    statuses  other statuses than 0 and 2 with which it may end
    any_words whether other programs may add words to standard error, such as Python's about a variable
    mute      whether standard error is closed, so that no error can be read
    memory    bytes that it may take, if they are fewer than usual
    """

    words: Sequence[str] = ()
    call: Callable[[], Any] | None = None
    shown: str = ""
    written: Sequence[str] = ()
    kept: Sequence[str] = ()
    serves: bool = False
    own: tuple[type[BaseException], ...] = ()
    statuses: Sequence[int] = ()
    any_words: bool = False
    mute: bool = False
    memory: int | None = None


@dataclass
class Bench:
    """What a maker of inputs works with.

    rng        decides everything
    here       the working folder of the input, empty
    templates  finished and unfinished run folders, made once for all inputs (`folders.make_templates`)
    quick      whether only inputs that need no compiled program are wanted
    """

    rng: Generator
    here: Path
    templates: Path
    quick: bool = False

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def pick(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def some(self, options: Sequence[Any], most: int | None = None) -> list[Any]:
        """A few different ones, in any order; at least one."""
        count = int(self.rng.integers(1, (most or len(options)) + 1))
        return [options[int(i)] for i in self.rng.permutation(len(options))[:count]]

    def path(self, name: str, content: bytes | str) -> str:
        """The name of a new file in the working folder."""
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        (self.here / name).write_bytes(data)
        return name


Maker = Callable[[Bench], Case]


@dataclass
class Suite:
    """The kinds of inputs of one suite with their shares of it."""

    makers: dict[str, Maker] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)

    def kind(self, name: str, share: float) -> Callable[[Maker], Maker]:
        def add(make: Maker) -> Maker:
            self.makers[name], self.shares[name] = make, share
            return make

        return add

    def kind_of(self, seed: int, number: int) -> str:
        """The kind of an input: drawn apart from the rest, so that kinds can be selected without making inputs."""
        at = np.random.default_rng([seed, number, 0]).random() * sum(self.shares.values())
        for name, share in self.shares.items():
            at -= share
            if at < 0:
                return name
        return name


COMMAND, PYTHON_API, FOREIGN = Suite(), Suite(), Suite()
SUITES = {"command": COMMAND, "api": PYTHON_API, "foreign": FOREIGN}
LEAST_MEMORY = 2 * 2**30  # bytes that what others made may take


def draw(suite: str, seed: int, number: int, here: Path, templates: Path, quick: bool = False) -> Case:
    """Make the input with this number."""
    chosen = SUITES[suite]
    rng = np.random.default_rng([seed, number, 1])
    return chosen.makers[chosen.kind_of(seed, number)](Bench(rng, here, templates, quick))


# --- strange things ---------------------------------------------------------------------------------------------------
NUMBERS = (
    "0", "-1", "-0", "+1", "1.0", "1.5", "1e0", "nan", "inf", "-inf", "", " ", " 1 ", "1 2", "0x10", "0b1", "1_000",
    "1e3",
    "1e18", "1e308", "1e309", "-1e308", "1e-308", "5e-324", "9" * 30, "9" * 400, "9" * 5000, "1e5000", "\u0661",
    "\uff11\uff12", "\u00b2",
    "\u2160", "\u96f6", "1,5", "1'000", "one", "None", "True", "true", "[]", "()", "{}", "1+1", "1j", "--1",
    "\x1b[31m1", "1\n", "1\t",
    "\u200b1", "\u202e1", "\ud800", "\udcff", "4294967296", "4294967295", "2147483648", "9223372036854775808",
    "18446744073709551616",
)  # fmt: skip
TEXTS = (
    "", " ", "\t", "\n", "a\nb", "\r", ".", "..", "/", "-", "--", "--help", "-h", "=", "==", "a=", "=a", ",", ",,",
    ";", "'", '"', "`",
    "$(id)", "%s", "%n%n", "{0}", "{}", "{x.__class__}", "\\", "\\x00", "\u0000"[:0], "\x7f", "\x1b[2J", "\ud800",
    "\udcff\udcfe",
    "\u202eabc", "e\u0301", "\U0001f600", "\u00df", "\u0130", "\ufeff", "nan", "None", "null", "a" * 300,
    "\u96ea" * 100, "x" * 70_000,
    "lsvi-ae", "lsvi", "frozen-lake", "LSVI-AE", "lsvi_ae", "gp", "auto", "counts",
)  # fmt: skip


class Unruly:
    """An object whose every conversion fails with an exception of its own."""

    class Failed(RuntimeError):  # noqa: N818
        pass

    def _fail(self, *_: Any, **__: Any) -> Any:
        raise self.Failed("this object cannot be converted")

    __float__ = __int__ = __index__ = __len__ = __iter__ = __bool__ = __array__ = __hash__ = __eq__ = _fail
    __str__ = __repr__ = __call__ = __getitem__ = __lt__ = __fspath__ = __format__ = _fail


class Other:
    """An object that is nothing in particular."""


def value(bench: Bench, depth: int = 0) -> Any:
    """A value that an argument would hardly expect."""
    rng = bench.rng
    kind = int(rng.integers(16 if depth < 2 else 12))
    if kind == 0:
        return bench.pick([None, True, False, Ellipsis, NotImplemented])
    if kind == 1:
        return bench.pick(
            [0, 1, -1, 2, 3, 7, 10**6, 10**9, 10**12, 2**31, 2**32, 2**63, 2**64, 10**18, 10**400, -(10**400)]
        )
    if kind == 2:
        return bench.pick([0.0, -0.0, 0.5, 1.5, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 1e-9, 1e18])
    if kind == 3:
        return bench.pick(NUMBERS)
    if kind == 4:
        return bench.pick(TEXTS)
    if kind == 5:
        return array(bench)
    if kind == 6:
        return bench.pick(
            [
                np.int64(3),
                np.float32(1.5),
                np.bool_(True),
                np.array(2),
                np.array("a"),
                np.datetime64("2020-01-01"),
                np.nan,
            ]
        )
    if kind == 7:
        return bench.pick([b"", b"bytes", bytearray(b"x"), memoryview(b"x"), 1j, complex("nan")])
    if kind == 8:
        return bench.pick([Other(), Other, Unruly(), Unruly, object(), type, len, np, math])
    if kind == 9:
        return bench.pick(
            [lambda: None, lambda *a, **k: None, lambda *a: math.nan, lambda *a: "x", lambda *a: [1, 2], print]
        )
    if kind == 10:
        return bench.pick(
            [Path(), Path("missing"), Path("a.npz"), range(3), range(0), slice(3), frozenset({1}), iter([1, 2])]
        )
    if kind == 11:
        return bench.pick([[], (), {}, set(), [[]], [[], [1]], [None], {"a": 1}, {1: 2}, "abc", ["a", "b"], [1, "a"]])
    many = int(rng.integers(0, 4))
    if kind == 12:
        return [value(bench, depth + 1) for _ in range(many)]
    if kind == 13:
        return tuple(value(bench, depth + 1) for _ in range(many))
    if kind == 14:
        return {bench.pick(("a", "beta", "name", "", "1")): value(bench, depth + 1) for _ in range(many)}
    return (value(bench, depth + 1) for _ in range(many))


DTYPES = (
    "float64",
    "float32",
    "float16",
    "int64",
    "int8",
    "uint8",
    "uint64",
    "bool",
    "complex128",
    "U3",
    "S3",
    "object",
    "M8[s]",
    "longdouble",
)


def array(bench: Bench) -> np.ndarray:
    """An array of any small shape and type, at times with values that are not finite."""
    rng = bench.rng
    shape = tuple(int(n) for n in rng.integers(0, 4, rng.integers(0, 5)))
    found = (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4)).astype("float64")
    if found.ndim and found.size and bench.chance(0.4):
        found.flat[int(rng.integers(found.size))] = bench.pick([math.nan, math.inf, -math.inf, 1e308, 1e-320])
    with np.errstate(all="ignore"):
        try:
            return found.astype(bench.pick(DTYPES))
        except Exception:  # NumPy has no such conversion
            return found
