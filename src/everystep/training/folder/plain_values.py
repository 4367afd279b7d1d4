"""Values as JSON and plain arrays, and back: what a checkpoint of a training is made of. Nothing is pickled.

    arrays = {}
    content = to_plain(value, arrays)        JSON, and the arrays that it names
    from_plain(content, arrays, like)        the same value

Known are None, numbers, texts, lists, tuples, dictionaries, arrays, NumPy's generators, the records below, pytrees of
JAX arrays, and objects of this library. The last two are restored into `like`, a new object of the same kind: a file
never decides which class is made. A list of many similar items becomes a few arrays, not many: a training has a row,
and a record, for each of its episodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from everystep.environments.play.batch import Batch
from everystep.errors import EverystepError, shown
from everystep.training.diagnosis.fit import EpisodeFit

RECORDS: dict[str, Any] = {each.__name__: each for each in (Batch, EpisodeFit)}  # dataclasses that lists may hold
GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
NUMBERS = {bool: np.bool_, int: np.int64, float: np.float64}  # whose lists become arrays
Arrays = dict[str, np.ndarray]


class UnknownContentError(EverystepError):
    """A value, or the content of a file, is of no known kind."""


# --- to JSON and arrays -----------------------------------------------------------------------------------------------
def to_plain(value: Any, arrays: Arrays, path: str = "") -> Any:
    """JSON for a value; its arrays are added to `arrays` under names that begin with `path`."""
    value = value.item() if isinstance(value, np.generic) else value
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if isinstance(value, np.ndarray):
        return {"array": _named(value, arrays, path)}
    if isinstance(value, np.random.Generator):
        return {"generator": to_plain(value.bit_generator.state, arrays, path)}
    if kind.__name__ in RECORDS:
        return {"record": _items([value], arrays, path)}
    if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(value)):
        leaves = jax.tree_util.tree_flatten_with_path(value)[0]
        names = ((jax.tree_util.keystr(at), leaf) for at, leaf in leaves)
        return {"tree": {name: _named(np.asarray(leaf), arrays, path + name) for name, leaf in names}}
    if kind is list or kind is tuple:
        return {kind.__name__: _items(list(value), arrays, path)}
    if kind is dict:
        parts = (("keys", value), ("values", value.values()))
        return {"dict": {name: _items(list(each), arrays, f"{path}.{name}") for name, each in parts}}
    if kind.__module__.startswith("everystep.") and hasattr(value, "__dict__"):
        return {"object": fields_but(value, (), arrays, path)}
    raise UnknownContentError(f"{path} is {shown(value)} ({kind.__name__}), which cannot be saved without pickle.")


def fields_but(thing: object, left_out: tuple[str, ...], arrays: Arrays, path: str) -> dict[str, Any]:
    """The fields of an object but some."""
    return {
        name: to_plain(value, arrays, f"{path}.{name}") for name, value in vars(thing).items() if name not in left_out
    }


def _named(array: np.ndarray, arrays: Arrays, path: str) -> str:
    if array.dtype.kind not in "biuf":
        raise UnknownContentError(f"{path} holds entries of type {array.dtype}, which cannot be saved without pickle.")
    arrays[path] = array
    return path


def _items(items: list[Any], arrays: Arrays, path: str) -> Any:
    """A list, as a few arrays if its items are alike."""
    kinds = {type(each) for each in items}
    if len(kinds) == 1 and all(isinstance(each, np.generic) for each in items):
        return {"scalars": _named(np.array(items), arrays, path)}
    if type(None) in kinds and len(kinds) > 1:
        present = np.array([each is not None for each in items])
        rest = _items([each for each in items if each is not None], arrays, f"{path}.rest")
        return {"present": _named(present, arrays, f"{path}.present"), "rest": rest}
    items = [each.item() if isinstance(each, np.generic) else each for each in items]
    kinds = {type(each) for each in items}
    if len(kinds) == 1:
        (kind,) = kinds
        if kind in NUMBERS and all(-(2**63) <= each < 2**63 or kind is float for each in items):
            return {"numbers": _named(np.array(items, NUMBERS[kind]), arrays, path)}
        if kind is bytes:
            return {"bytes": _items([np.frombuffer(each, np.uint8) for each in items], arrays, path)}
        if kind.__name__ in RECORDS:
            columns = {
                each.name: _items([getattr(item, each.name) for item in items], arrays, f"{path}.{each.name}")
                for each in fields(kind)
            }
            return {"records": kind.__name__, "columns": columns, "count": len(items)}
        if kind is np.ndarray and len({each.dtype for each in items}) == 1:
            if len({each.shape for each in items}) == 1:
                return {"stacked": _named(np.stack(items), arrays, path)}
            if all(each.ndim for each in items) and len({each.shape[1:] for each in items}) == 1:
                lengths = np.array([len(each) for each in items])
                joined = _named(np.concatenate(items), arrays, path)
                return {"joined": joined, "lengths": _named(lengths, arrays, f"{path}.lengths")}
    return {"each": [to_plain(each, arrays, f"{path}.{i}") for i, each in enumerate(items)]}


# --- and back ---------------------------------------------------------------------------------------------------------
def from_plain(content: Any, arrays: Mapping[str, np.ndarray], like: Any = None) -> Any:
    """The value that `to_plain` was given; objects and pytrees are restored into `like`.

    Raises KeyError, TypeError or ValueError if the content was not written by `to_plain`, or by another version.
    """
    if not isinstance(content, dict):
        return content
    kind = next(iter(content))
    inner = content[kind]
    if kind == "array":
        return arrays[inner]
    if kind == "generator":
        return generator(from_plain(inner, arrays))
    if kind == "record":
        return _from_items(inner, arrays)[0]
    if kind == "tree":
        return _tree(inner, arrays, like)
    if kind == "object":
        set_fields(like, (), inner, arrays)
        return like
    if kind == "dict":
        return dict(zip(*(_from_items(inner[name], arrays) for name in ("keys", "values")), strict=True))
    made = _from_items(inner, arrays, like if isinstance(like, list | tuple) else ())
    return {"list": list, "tuple": tuple}[kind](made)


def set_fields(
    thing: object, left_out: tuple[str, ...], content: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    """Set the fields of an object, which was just made, to those that `fields_but` returned."""
    now = {name: value for name, value in vars(thing).items() if name not in left_out}
    if set(now) != set(content):
        raise ValueError("other fields")
    made = {name: alike(from_plain(each, arrays, now[name]), now[name]) for name, each in content.items()}
    vars(thing).update(made)


def generator(state: Mapping[str, Any]) -> np.random.Generator:
    """A generator in this state."""
    name = state["bit_generator"]
    if name not in GENERATORS:
        raise ValueError(name)
    made = np.random.Generator(getattr(np.random, name)())
    made.bit_generator.state = dict(state)
    return made


def _tree(names: Mapping[str, str], arrays: Mapping[str, np.ndarray], like: Any) -> Any:
    """A pytree of the structure of `like`. Sizes may differ: those of slots grow."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    if {jax.tree_util.keystr(at) for at, _ in leaves} != set(names):
        raise ValueError("another structure")
    found = [arrays[names[jax.tree_util.keystr(at)]] for at, _ in leaves]
    for array, (_, leaf) in zip(found, leaves, strict=True):
        if array.dtype != leaf.dtype or array.ndim != leaf.ndim:
            raise ValueError("another kind of array")
    with jax.enable_x64(True):  # copies: the state is updated in place
        return jax.tree.unflatten(structure, [jnp.array(array, copy=True) for array in found])


def alike(value: Any, like: Any) -> Any:
    """`value`, if it is of the kind of `like`, which was just made; any kind may take the place of None."""
    kinds: dict[type, tuple[type, ...]] = {bool: (bool,), int: (int,), float: (int, float), str: (str,)}
    kinds |= {each: (each,) for each in (list, dict, tuple, np.ndarray, np.random.Generator)}
    own = (type(like),) if type(like).__module__.startswith("everystep.") else None
    wanted = kinds.get(type(like), own)
    if wanted is not None and (not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted)):
        raise ValueError("another kind of value")
    if isinstance(like, tuple) and len(value) == len(like):
        for each, one in zip(value, like, strict=True):
            alike(each, one)
    return value


def _from_items(content: Mapping[str, Any], arrays: Mapping[str, np.ndarray], like: Any = ()) -> list[Any]:
    kind = next(iter(content))
    inner = content[kind]
    if kind == "numbers":
        return list(arrays[inner].tolist())
    if kind == "scalars":
        return list(arrays[inner])
    if kind == "bytes":
        return [each.tobytes() for each in _from_items(inner, arrays)]
    if kind == "stacked":
        return [arrays[inner][i, ...] for i in range(len(arrays[inner]))]  # arrays, also where they have no axis
    if kind == "joined":
        return np.split(arrays[inner], np.cumsum(arrays[content["lengths"]])[:-1])
    if kind == "present":
        rest = iter(_from_items(content["rest"], arrays))
        return [next(rest) if present else None for present in arrays[inner]]
    if kind == "records":
        columns = {name: _from_items(column, arrays) for name, column in content["columns"].items()}
        rows = zip(*columns.values(), strict=True) if content["count"] else ()
        return [RECORDS[inner](**dict(zip(columns, row, strict=True))) for row in rows]
    likes = like if len(like) == len(inner) else [None] * len(inner)
    return [from_plain(each, arrays, one) for each, one in zip(inner, likes, strict=True)]
