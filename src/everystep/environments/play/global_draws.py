"""Does an environment draw from a generator that its seed does not set? Then no training on it can be repeated.

Gymnasium seeds `self.np_random`. An environment may draw from NumPy's or Python's global generator instead; the state
of that generator then differs after a reset or a step. Nothing is drawn and nothing is reset to find out.

An environment that seeds a global generator in reset(seed=...) repeats. It is recognised by a state that cannot be
reached by draws alone: both generators are Mersenne twisters, whose key changes in a known way once it is used up.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

WATCHED = 200  # steps; every reset is watched
NAMES = {"numpy": "NumPy's global generator (np.random)", "python": "Python's global generator (random)"}
FRESH = 624  # the position of a key that was not used yet
MOST_KEYS = 100  # that a reset may use up


class State(NamedTuple):
    """A Mersenne twister: its key, the next position in it, and a normal number that is kept for the next draw."""

    key: bytes
    position: int
    kept: object

    def leads_to(self, other: State) -> bool:
        """Whether draws alone lead from this state to the other."""
        if self.key == other.key:
            return self.position <= other.position
        twin = np.random.RandomState(0)
        twin.set_state(("MT19937", np.frombuffer(self.key, np.uint32), FRESH, 0, 0.0))
        for _ in range(MOST_KEYS):
            twin.bytes(4)  # one number of the next key
            key = _numpy_state(twin.get_state(legacy=False)).key
            if key == other.key:
                return True
            twin.set_state(("MT19937", np.frombuffer(key, np.uint32), FRESH, 0, 0.0))
        return False


States = dict[str, State]


class GlobalDraws:
    """The global generators that an environment draws from."""

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
            self._seeded |= {name for name in before if name in after and not before[name].leads_to(after[name])}
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

    def _compare(self, before: States, after: States) -> None:
        moved = [name for name in before if before[name] != after.get(name) and name not in self._seeded]
        self.found += [name for name in moved if name not in self.found]


def _states() -> States:
    """The global generators; that of NumPy is left out if the user has replaced it by one of another kind."""
    numpy = dict(np.random.get_state(legacy=False))  # noqa: NPY002
    words, gauss = random.getstate()[1:]
    found = {"python": State(np.array(words[:-1], np.uint32).tobytes(), words[-1], gauss)}
    return found | ({"numpy": _numpy_state(numpy)} if numpy["bit_generator"] == "MT19937" else {})


def _numpy_state(state: Mapping[str, Any]) -> State:
    return State(state["state"]["key"].tobytes(), state["state"]["pos"], (state["has_gauss"], state["gauss"]))
