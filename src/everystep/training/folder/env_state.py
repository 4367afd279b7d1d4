"""The state that an environment keeps between episodes, so that a resumed training has the same episodes.

    generators   NumPy's, as attributes of the environment, of its wrappers and of its copies: gymnasium's np_random,
                 and others; their states are saved and put back
    own state    an environment with `checkpoint_state()`, which returns numbers, texts, lists or arrays, and
                 `restore_state(state)`, which takes them back
    nothing      with `reseed`, where every episode begins with reset(seed=...)

If neither is found, nothing is restored, and a remark reports it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from everystep.environments.play.rollout import Stage, calls
from everystep.environments.protocols import AnyEnv
from everystep.errors import EverystepError, shown
from everystep.training.folder.plain_values import Arrays, from_plain, generator, to_plain

DEEPEST = 100  # wrappers around an environment


def save(stage: Stage, arrays: Arrays) -> dict[str, Any]:
    """The state between two episodes."""
    found = {path: each.bit_generator.state for path, each in generators(stage.env)}
    own = {path: layer.checkpoint_state() for path, layer in _with_own_state(stage.env)}
    untouched = [np.random.default_rng(stage.seed + i).bit_generator.state for i in range(stage.copies)]
    return {
        "begun": stage.begun,
        "generators": to_plain(found, arrays, "environment.generators"),
        "own": to_plain(own, arrays, "environment.own"),
        "drawn": any(not any(same(state, each) for each in untouched) for state in found.values()),
    }


def restore(stage: Stage, saved: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str | None:
    """Bring a new environment to the state of the saved one; a remark if this was not possible.

    The environment is reset once, because some environments make their generators in `reset`.
    """
    if not saved["begun"]:
        return None
    if stage.reseed:
        stage.begun = True
        return None
    stage.reset(0)
    wanted, own = from_plain(saved["generators"], arrays), from_plain(saved["own"], arrays)
    there, layers = dict(generators(stage.env)), dict(_with_own_state(stage.env))
    if set(there) != set(wanted) or set(layers) != set(own):
        return f"the environment was not restored (it holds other generators than before): {DIFFER}"
    for path, state in wanted.items():
        _put_back(there[path], state)
    for path, state in own.items():
        with calls("restore_state"):
            layers[path].restore_state(state)
    if not wanted and not own:
        return f"the environment was not restored (no generator of NumPy was found in it): {DIFFER}"
    if not own and not saved["drawn"]:
        return f"the environment never drew from its np_random; if it draws elsewhere, {DIFFER}"
    return None


DIFFER = (
    "the episodes after resuming differ from those of an uninterrupted training; reseed=True makes them equal if an "
    "episode depends on nothing but its seed"
)


def generators(env: AnyEnv) -> Iterator[tuple[str, np.random.Generator]]:
    """The generators in the attributes of an environment, its wrappers and copies, each once, by where they are."""
    seen: set[int] = set()
    for path, layer in _layers(env):
        for name, value in sorted(_attributes(layer).items()):
            if isinstance(value, np.random.Generator) and id(value) not in seen:
                seen.add(id(value))
                yield f"{path}.{name}", value


def _with_own_state(env: AnyEnv) -> Iterator[tuple[str, Any]]:
    for path, layer in _layers(env):
        if all(callable(getattr(type(layer), name, None)) for name in ("checkpoint_state", "restore_state")):
            yield path, layer


def _layers(env: object) -> Iterator[tuple[str, Any]]:
    """An environment, what it wraps, and its copies if it is a vector environment."""
    waiting: list[tuple[str, object]] = [("env", env)]
    for _ in range(DEEPEST):
        if not waiting:
            return
        path, layer = waiting.pop(0)
        yield path, layer
        inside = _attributes(layer)
        if "env" in inside:
            waiting.append((f"{path}.env", inside["env"]))
        if isinstance(copies := inside.get("envs"), list | tuple):
            for i, copy in enumerate(copies):
                yield from ((f"{path}.envs[{i}]{at[3:]}", each) for at, each in _layers(copy))


def _attributes(layer: object) -> dict[str, Any]:
    return dict(getattr(layer, "__dict__", {}))


def _put_back(there: np.random.Generator, state: Mapping[str, Any]) -> None:
    """Set the state in place, because other parts of the environment may hold the same generator."""
    if there.bit_generator.state["bit_generator"] != state["bit_generator"]:
        raise EverystepError(
            f"the environment draws from {there.bit_generator.state['bit_generator']}, and drew from "
            f"{shown(state['bit_generator'])} before; make it as it was made before."
        )
    there.bit_generator.state = generator(state).bit_generator.state


def same(one: object, other: object) -> bool:
    """Whether two values, some of whose parts may be arrays, are equal; NaN equals NaN."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return set(one) == set(other) and all(same(each, other[key]) for key, each in one.items())
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    a, b = np.asarray(one), np.asarray(other)
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == b.dtype.kind == "f"))
