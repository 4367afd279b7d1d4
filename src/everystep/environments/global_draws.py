"""Does an environment draw from a generator that its seed does not set? Then no training on it can be repeated.

Gymnasium seeds `self.np_random`. An environment may draw from NumPy's or Python's global generator instead; the state
of that generator then differs after a reset or a step. Nothing is drawn and nothing is reset to find out.

An environment that seeds a global generator in reset(seed=...) repeats. It is recognised by the key of the generator,
which a seed replaces, while a few draws only move its position.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from everystep.environments.diagnosis import Finding

WATCHED = 200  # steps; every reset is watched
NAMES = {"numpy": "NumPy's global generator (np.random)", "python": "Python's global generator (random)"}
KEY = 624  # words of both generators that a seed replaces


class GlobalDraws:
    """What an environment was seen to draw from."""

    def __init__(self) -> None:
        self._left = WATCHED
        self._seeded: set[str] = set()
        self.found: list[str] = []

    @contextmanager
    def in_reset(self, seeded: bool) -> Iterator[None]:
        before = _states()
        yield
        after = _states()
        if seeded:
            self._seeded |= {name for name in NAMES if before[name][:KEY] != after[name][:KEY]}
        self._compare(before, after)

    @contextmanager
    def in_step(self) -> Iterator[None]:
        if self._left <= 0 or self.found:
            yield
            return
        self._left -= 1
        before = _states()
        yield
        self._compare(before, _states())

    def _compare(self, before: dict[str, tuple[object, ...]], after: dict[str, tuple[object, ...]]) -> None:
        moved = [name for name in NAMES if before[name] != after[name] and name not in self._seeded]
        self.found += [name for name in moved if name not in self.found]

    def finding(self) -> Finding | None:
        """That the environment does not repeat, if it was seen to draw so."""
        if not self.found:
            return None
        return Finding(
            "seeds",
            f"the environment draws from {' and '.join(NAMES[each] for each in self.found)}, which its seed does not "
            "set, so the same seed gives other episodes",
            "let it draw from self.np_random",
        )


def _states() -> dict[str, tuple[object, ...]]:
    _, key, *position = np.random.get_state(legacy=True)  # noqa: NPY002  the global one is what is watched
    _, words, gauss = random.getstate()
    return {"numpy": (*np.asarray(key).tolist(), *position), "python": (*words, gauss)}
