"""Feature maps: psi(x) of a state, crossed with actions, or phi(x, a) of both. Norm at most 1, for a batch at a time.

Frozen dataclasses of arrays and numbers, saved as JSON and plain arrays and read back (`rebuild`) without pickle. The
functions that users call to ask for features are in `specs.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from everystep.errors import UNLIKE, EverystepError, is_masked, raised
from everystep.features import spaces
from everystep.features.spaces import Scale

ROUNDING = 1e-9  # by which a norm may exceed 1


# --- features of a state ---------------------------------------------------------------------------------------------
class StateFeatures:
    """psi(x), norm at most 1: `size` numbers for each observation of a batch."""

    @property
    def size(self) -> int:
        raise NotImplementedError

    def __call__(self, obs: np.ndarray) -> Float[np.ndarray, "n e"]:
        raise NotImplementedError

    @property
    def remarks(self) -> tuple[str, ...]:
        return _remarks(self)


@dataclass(frozen=True, eq=False)
class OneHot(StateFeatures):
    """psi(x) = e_x: nothing is shared between states."""

    sizes: tuple[int, ...]
    first: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.sizes)

    def __call__(self, obs: np.ndarray) -> Float[np.ndarray, "n e"]:
        place = spaces.listed(obs, self.sizes, self.first)
        psi = np.zeros((len(place), self.size))
        psi[np.arange(len(place)), place] = 1
        return psi


@dataclass(frozen=True, eq=False)
class StateTable(StateFeatures):
    """psi(x) = values[x], from a table."""

    values: Float[np.ndarray, "S e"]
    sizes: tuple[int, ...]
    first: tuple[int, ...]
    divided_by: float = 1.0

    @property
    def size(self) -> int:
        return int(self.values.shape[1])

    def __call__(self, obs: np.ndarray) -> Float[np.ndarray, "n e"]:
        return np.asarray(self.values[spaces.listed(obs, self.sizes, self.first)])


@dataclass(frozen=True, eq=False)
class Intercept(StateFeatures):
    """psi(x) = 1: a constant common to all states."""

    @property
    def size(self) -> int:
        return 1

    def __call__(self, obs: np.ndarray) -> Float[np.ndarray, "n e"]:
        return np.ones((len(obs), 1))


@dataclass(frozen=True, eq=False)
class Fourier(StateFeatures):
    """psi(x) = sqrt(1 / n) [cos W x, sin W x], norm exactly 1, with the rows of W drawn from N(0, 1 / lengthscale^2).

    <psi(x), psi(y)> = mean of cos(w (x - y)), an unbiased estimate of exp(-|x - y|^2 / (2 lengthscale^2)) whose error
    falls as 1 / sqrt(n) (Rahimi and Recht 2007, their form with both sine and cosine). n is `size` of `fourier`.
    """

    scale: Scale
    frequencies: Float[np.ndarray, "f o"]

    @property
    def size(self) -> int:
        return 2 * len(self.frequencies)

    def __call__(self, obs: np.ndarray) -> Float[np.ndarray, "n e"]:
        angle = self.scale(obs) @ self.frequencies.T
        return np.concatenate([np.cos(angle), np.sin(angle)], 1) / math.sqrt(len(self.frequencies))


@dataclass(frozen=True, eq=False)
class Centres(StateFeatures):
    """psi_i(x) ~ exp(-|(x - c_i) / lengthscale|^2 / 2), divided by its norm, so that the norm is exactly 1.

    Divided by the norm rather than by the sum: then the width of an untried state is the same everywhere, however many
    centres are near. |x|^2 is common to all i and therefore omitted.
    """

    scale: Scale
    centres: Float[np.ndarray, "e o"]  # in the scale [-1, 1]
    lengthscale: Float[np.ndarray, " o"]

    @property
    def size(self) -> int:
        return len(self.centres)

    def __call__(self, obs: np.ndarray) -> Float[np.ndarray, "n e"]:
        c = self.centres / self.lengthscale
        exponent = (self.scale(obs) / self.lengthscale) @ c.T - (c**2).sum(1) / 2
        psi = np.exp(exponent - exponent.max(1, keepdims=True))
        return np.asarray(psi / np.linalg.norm(psi, axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Polynomial(StateFeatures):
    """psi(x) = all products of at most `degree` coordinates, including 1, divided by sqrt(their number)."""

    scale: Scale
    powers: Int[np.ndarray, "e o"]

    @property
    def size(self) -> int:
        return len(self.powers)

    def __call__(self, obs: np.ndarray) -> Float[np.ndarray, "n e"]:
        x = self.scale(obs)
        psi = np.full((len(x), self.size), 1 / math.sqrt(self.size))
        for j in range(x.shape[1]):
            psi *= x[:, j, None] ** self.powers[:, j]
        return psi


@dataclass(frozen=True, eq=False)
class Tiles(StateFeatures):
    """Tile coding: in each of n tilings the one tile that holds x is 1 / sqrt(n), all others 0; norm exactly 1.

    Tiling t is shifted by (t (2 j + 1) / n mod 1) of a tile along coordinate j, so that tilings differ along every
    direction; one more tile per coordinate covers what the shift leaves over. Every tile is stored; without hashing, no
    two tiles share a feature by accident.
    """

    scale: Scale
    bins: tuple[int, ...]
    offsets: Float[np.ndarray, "n o"]

    @property
    def _tiles(self) -> tuple[int, ...]:
        return tuple(b + 1 for b in self.bins)

    @property
    def size(self) -> int:
        return len(self.offsets) * math.prod(self._tiles)

    def __call__(self, obs: np.ndarray) -> Float[np.ndarray, "n e"]:
        along = (self.scale(obs) + 1) / 2 * np.array(self.bins)
        psi = np.zeros((len(along), self.size))
        for t, offset in enumerate(self.offsets):
            tile = np.ravel_multi_index(tuple(np.floor(along + offset).astype(np.int64).T), self._tiles)
            psi[np.arange(len(along)), t * math.prod(self._tiles) + tile] = 1 / math.sqrt(len(self.offsets))
        return psi


@dataclass(frozen=True, eq=False)
class CustomStateFeatures(StateFeatures):
    """psi(x) by a custom function, checked at every call."""

    function: Callable[[Any], Any]
    length: int
    cut: bool

    @property
    def size(self) -> int:
        return self.length

    def __call__(self, obs: np.ndarray) -> Float[np.ndarray, "n e"]:
        return values_at(self.function, obs, (self.length,), self.cut)


@dataclass(frozen=True, eq=False)
class Joined(StateFeatures):
    """Several features concatenated, divided by sqrt(their number)."""

    parts: tuple[StateFeatures, ...]

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    def __call__(self, obs: np.ndarray) -> Float[np.ndarray, "n e"]:
        return np.concatenate([part(obs) for part in self.parts], 1) / math.sqrt(len(self.parts))


# --- features of a state and an action -------------------------------------------------------------------------------
class Features:
    """phi(x, a), norm at most 1, for all actions at once.

    >>> import gymnasium
    >>> box = gymnasium.spaces.Box(0.0, 2.0, (1,))
    >>> phi = es.features.bind(es.features.polynomial(1), box, 3)
    >>> phi.d, phi(np.array([[1.0]])).shape, phi.state(np.array([[1.0]])).shape
    (6, (1, 3, 6), (1, 2))
    >>> phi.rows(np.array([[1.0], [2.0]]), np.array([0, 2])).shape
    (2, 6)
    >>> phi.remarks
    ('observations were scaled to [-1, 1] from 0 to 2, and clipped outside',)
    >>> sorted(phi.to_json()), sorted(phi.arrays())
    (['actions', 'kind', 'psi'], ['psi.powers', 'psi.scale.high', 'psi.scale.low'])
    """

    actions: int
    crossed: ClassVar[bool] = False
    joint: ClassVar[bool] = False

    @property
    def d(self) -> int:
        """The length of phi(x, a)."""
        raise NotImplementedError

    def rows(self, obs: np.ndarray, actions: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n d"]:
        """phi(x, a) of one action for each observation, by its number."""
        return np.asarray(self(obs)[np.arange(len(actions)), actions])

    def __call__(self, obs: np.ndarray) -> Float[np.ndarray, "n A d"]:
        raise NotImplementedError

    def state(self, obs: np.ndarray) -> Float[np.ndarray, "n e"]:
        """psi(x), where phi is crossed with actions."""
        raise EverystepError("these features depend on (x, a) jointly; there are none of the state alone.")

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was scaled, divided or cut, one sentence each."""
        return _remarks(self)

    def to_json(self) -> dict[str, Any]:
        """Everything but the arrays, ready for JSON."""
        return _to_json(self)

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays, by name."""
        return _arrays(self)


@dataclass(frozen=True, eq=False)
class Crossed(Features):
    """phi(x, a) = e_a (x) psi(x): each action has its own copy of psi, so Lambda has one block per action."""

    psi: StateFeatures
    actions: int
    crossed: ClassVar[bool] = True

    @property
    def d(self) -> int:
        return self.actions * self.psi.size

    def __call__(self, obs: np.ndarray) -> Float[np.ndarray, "n A d"]:
        psi, A = self.state(obs), self.actions
        phi = np.zeros((len(psi), A, A, self.psi.size))
        phi[:, np.arange(A), np.arange(A)] = psi[:, None]
        return phi.reshape(len(psi), A, self.d)

    def state(self, obs: np.ndarray) -> Float[np.ndarray, "n e"]:
        return self.psi(obs)


@dataclass(frozen=True, eq=False)
class Joint(Features):
    """phi(x, a) of the coordinates of both, so that actions close to each other learn from each other.

    For each action it is linear in features of the state, psi(x) = own(x)[pick]:

        phi_i(x, a) = factor_i(a) psi_i(x) + cross_i(a) psi_{other_i}(x)

    Fourier features by the addition theorem, with u = W_x x, v = W_a a, and cosine and sine of each as the other:

        cos(u + v) = cos v cos u - sin v sin u,   sin(u + v) = cos v sin u + sin v cos u

    Products of coordinates, radial functions around a grid and tiles are factor(a) psi(x), so cross is 0. What depends
    on actions is computed once. `other` is its own inverse: pairs, or each feature alone.
    """

    own: StateFeatures
    points: Float[np.ndarray, "A k"]  # the actions, in the scale [-1, 1]
    pick: Int[np.ndarray, " d"]
    other: Int[np.ndarray, " d"]
    factor: Float[np.ndarray, "A d"]
    cross: Float[np.ndarray, "A d"]
    joint: ClassVar[bool] = True

    @property
    def actions(self) -> int:  # type: ignore[override]
        return len(self.points)

    @property
    def d(self) -> int:
        return len(self.pick)

    def __call__(self, obs: np.ndarray) -> Float[np.ndarray, "n A d"]:
        psi = self.state(obs)[:, None]
        return np.asarray(self.factor * psi + self.cross * psi[..., self.other])

    def state(self, obs: np.ndarray) -> Float[np.ndarray, "n d"]:
        return self.own(obs)[:, self.pick]

    def rows(self, obs: np.ndarray, actions: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n d"]:
        psi = self.state(obs)
        return np.asarray(self.factor[actions] * psi + self.cross[actions] * psi[:, self.other])


@dataclass(frozen=True, eq=False)
class Mirrored(Features):
    """phi(x, a) of a problem that is its own mirror image: phi(x, a) = phi(signs x, image[a]).

    Action a and its image share a block i of psi, so that what is learnt on one side holds on the other:

        phi(x, a) = e_i (x) psi(x),   phi(x, image[a]) = e_i (x) psi(signs x)     a < image[a]
        phi(x, a) = e_i (x) [psi(x) + psi(signs x)] / 2                            a = image[a]
    """

    psi: StateFeatures
    signs: Float[np.ndarray, " o"]  # 1 or -1
    image: Int[np.ndarray, " A"]  # its own inverse

    @property
    def actions(self) -> int:  # type: ignore[override]
        return len(self.image)

    @property
    def d(self) -> int:
        return len(np.unique(self._first)) * self.psi.size

    @property
    def _first(self) -> Int[np.ndarray, " A"]:
        """The first action of each one's pair."""
        return np.asarray(np.minimum(self.image, np.arange(len(self.image))))

    def __call__(self, obs: np.ndarray) -> Float[np.ndarray, "n A d"]:
        x = spaces.rows(obs, len(self.signs))
        here, there = self.psi(x), self.psi(x * self.signs)
        pairs, block = np.unique(self._first, return_inverse=True)
        phi = np.zeros((len(x), self.actions, len(pairs), self.psi.size))
        for a, image in enumerate(self.image):
            phi[:, a, block[a]] = here if a < image else there if a > image else (here + there) / 2
        return phi.reshape(len(x), self.actions, self.d)


@dataclass(frozen=True, eq=False)
class Table(Features):
    """phi(x, a) = phi[x, a], from a table."""

    phi: Float[np.ndarray, "S A d"]
    sizes: tuple[int, ...]
    first: tuple[int, ...]
    divided_by: float = 1.0

    @property
    def actions(self) -> int:  # type: ignore[override]
        return int(self.phi.shape[1])

    @property
    def d(self) -> int:
        return int(self.phi.shape[2])

    def __call__(self, obs: np.ndarray) -> Float[np.ndarray, "n A d"]:
        return np.asarray(self.phi[spaces.listed(obs, self.sizes, self.first)])


@dataclass(frozen=True, eq=False)
class CustomFeatures(Features):
    """phi(x, a) by a custom function, checked at every call."""

    function: Callable[[Any], Any]
    actions: int
    length: int
    cut: bool

    @property
    def d(self) -> int:
        return self.length

    def __call__(self, obs: np.ndarray) -> Float[np.ndarray, "n A d"]:
        return values_at(self.function, obs, (self.actions, self.length), self.cut)


def _remarks(features: object) -> tuple[str, ...]:
    """What was scaled, divided or cut, by features or by those that they are made of."""
    inner = [getattr(features, name) for name in ("psi", "own") if hasattr(features, name)]
    found = [remark for each in (*inner, *getattr(features, "parts", ())) for remark in each.remarks]
    if (scale := getattr(features, "scale", None)) is not None:
        found.append(scale.remark)
    if (by := getattr(features, "divided_by", 1)) != 1:
        found.append(f"features were divided by their largest norm, {by:.6g}")
    if getattr(features, "cut", False):
        found.append("features longer than 1 were cut to length 1")
    return tuple(dict.fromkeys(found))


def name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def values_at(function: Callable[[Any], Any], obs: np.ndarray, shape: tuple[int, ...], cut: bool) -> np.ndarray:
    """A custom function at every observation of a batch; its shape and norm are checked."""
    out = np.zeros((len(obs), *shape))
    for i, x in enumerate(obs):
        value = value_at(function, x)
        if value.shape != shape:
            raise EverystepError(
                f"feature function {name_of(function)} returned shape {value.shape}; return {shape} per observation."
            )
        out[i] = value
    size = max(float(np.abs(out).max(initial=0)), 1.0)  # so that squares stay finite
    norms = size * np.linalg.norm(out / size, axis=-1, keepdims=True)
    if cut:
        return np.asarray(out / np.maximum(norms, 1))
    if norms.max(initial=0) > 1 + ROUNDING:
        raise EverystepError(
            f"feature function {name_of(function)} returned a norm of {norms.max():.6g}; it must be at most 1: divide "
            "by the largest possible norm, or pass normalise=True to cut longer ones."
        )
    return out


def value_at(function: Callable[[Any], Any], x: np.ndarray | int) -> np.ndarray:
    """The function at one observation (o,), or at an integer."""
    x = int(x) if np.ndim(x) == 0 else x
    try:
        given = function(x)
        value = np.full(1, np.nan) if is_masked(given) else np.asarray(given, np.float64)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        reason = "{}: {}".format(*raised(error)).rstrip(": .")
        raise EverystepError(f"feature function {name_of(function)} failed at observation {x} ({reason}).") from error
    if not np.isfinite(value).all():
        raise EverystepError(
            f"feature function {name_of(function)} returned {value[~np.isfinite(value)][0]} at observation {x}."
        )
    return value


# --- saved and read back ---------------------------------------------------------------------------------------------
_KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(OneHot, StateTable, Intercept, Fourier, Centres, Polynomial, Tiles, CustomStateFeatures, Joined),
        *(Crossed, Joint, Mirrored, Table, CustomFeatures, Scale),
    )
}


def _to_json(part: Any) -> dict[str, Any]:
    content: dict[str, Any] = {"kind": type(part).__name__}
    for each in fields(part):
        value = getattr(part, each.name)
        if each.name == "parts":
            content["parts"] = [_to_json(inner) for inner in value]
        elif type(value).__name__ in _KINDS:
            content[each.name] = _to_json(value)
        elif each.name == "function":
            content["function"] = name_of(value)
        elif not isinstance(value, np.ndarray):
            content[each.name] = list(value) if isinstance(value, tuple) else value
    return content


def _arrays(part: Any, before: str = "") -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for each in fields(part):
        value = getattr(part, each.name)
        if isinstance(value, np.ndarray):
            found[before + each.name] = value
        elif each.name == "parts":
            for i, inner in enumerate(value):
                found |= _arrays(inner, f"{before}{i}.")
        elif type(value).__name__ in _KINDS:
            found |= _arrays(value, f"{before}{each.name}.")
    return found


def example(features: Any) -> np.ndarray | None:
    """A batch of one observation that features accept; None where only a custom function can tell."""
    if isinstance(features, CustomFeatures | CustomStateFeatures):
        return None
    if hasattr(features, "sizes"):
        return np.array([features.first])
    if hasattr(features, "scale"):
        return np.asarray(features.scale.low, np.float64)[None]
    inner = getattr(features, "parts", ())
    if isinstance(features, Crossed | Joint | Mirrored):
        inner = [features.own if isinstance(features, Joint) else features.psi]
    found = [example(each) for each in inner if not isinstance(each, Intercept)]
    return found[0] if found and all(each is not None for each in found) else None


def rebuild(
    json: Mapping[str, Any], arrays: Mapping[str, np.ndarray], function: Callable[[Any], Any] | None = None
) -> Features:
    """Features from the results of `to_json` and `arrays`. A custom function is not saved: pass it again.

    >>> import gymnasium
    >>> box = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    >>> phi = es.features.bind(es.features.polynomial(1), box, 3)
    >>> es.features.rebuild(phi.to_json(), phi.arrays()).d == phi.d
    True
    """
    try:
        made = _rebuild(json, arrays, function, "")
    except EverystepError:
        raise
    except UNLIKE as error:
        raise EverystepError(f"saved features cannot be read ({error}); give features= again.") from None
    if not isinstance(made, Features):
        raise EverystepError(f"saved features are of kind {json.get('kind')}; give features= again.")
    return made


def _is_nested(annotation: object) -> bool:
    """Whether a field holds features, or another part of this module, and no plain value."""
    found = globals().get(str(annotation))
    return isinstance(found, type) and found.__module__ == __name__


def _rebuild(json: Mapping[str, Any], arrays: Mapping[str, np.ndarray], function: Any, before: str) -> Any:
    kind = _KINDS[json["kind"]]
    given: dict[str, Any] = {}
    for each in fields(kind):
        value = json.get(each.name)
        if each.name == "function":
            if function is None:
                raise EverystepError(
                    f"features were made by a custom function ({value}), which is not saved; give features= again."
                )
            given["function"] = function
        elif each.name == "parts":
            inner = [_rebuild(part, arrays, function, f"{before}{i}.") for i, part in enumerate(json["parts"])]
            given["parts"] = tuple(inner)
        elif isinstance(value, Mapping):
            given[each.name] = _rebuild(value, arrays, function, f"{before}{each.name}.")
        elif _is_nested(each.type):
            raise ValueError(f"{each.name} is {value!r}")
        elif each.name in json:
            given[each.name] = tuple(value) if isinstance(value, list) else value
        else:
            given[each.name] = np.asarray(arrays[before + each.name])
    return kind(**given)
