"""Features phi(x, a) of norm at most 1, for observations of any gymnasium-like space. NumPy only, a batch at a time.

A `Spec` is what the user asks for; `bind` turns it into `Features` of a space and a number of actions:

    features = bind(fourier(size=100, lengthscale=0.5), env.observation_space, env.action_space.n)
    features(obs)            obs (n, o), or (n,) integers, to (n, A, d)
    features.state(obs)      psi (n, e), where phi(x, a) = e_a (x) psi(x) has one block per action: d = A e

Where actions have coordinates, given as (A, k) in place of their number, features of measurements are of (x, a).

Continuous observations are first scaled to [-1, 1], so that length scales and bins mean the same in every coordinate.
Observations outside the bounds are clipped to them, because features beyond the declared range would be guesses.
`remarks` reports what was scaled, divided or cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from everystep.errors import (
    EverystepError,
    check_type,
    one_of,
    quoted,
    seed_number,
    shown,
    true_or_false,
    whole_number,
)
from everystep.features import joint, spaces
from everystep.features.joint import LARGEST, few, fits
from everystep.features.maps import (
    ROUNDING,
    Crossed,
    CustomFeatures,
    CustomStateFeatures,
    Features,
    Joined,
    Mirrored,
    OneHot,
    StateFeatures,
    StateTable,
    Table,
    name_of,
    value_at,
)
from everystep.features.spaces import Bound, Coordinates


# --- specifications --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Spec:
    """The features that a user asks for. `bind` makes them for a space.

    >>> es.features.fourier(50, seed=1).kind, es.features.fourier(50, seed=1).settings["size"]
    ('fourier', 50)
    """

    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        one_of("kind of features", self.kind, (*_MADE_BY, *joint.MEASURED_BY))
        check_type(f"settings of {self.kind}", self.settings, Mapping, "its arguments by name")

    def __str__(self) -> str:
        given = ", ".join(f"{key}={_as_text(value)}" for key, value in self.settings.items() if value is not None)
        return f"{self.kind}({given})"


def _as_text(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"array{value.shape}"
    if isinstance(value, Spec):
        return str(value)
    if isinstance(value, tuple) and value and isinstance(value[0], Spec):
        return f"[{', '.join(map(str, value))}]"
    return name_of(value) if callable(value) else f"{value:g}" if isinstance(value, float) else str(value)


def one_hot() -> Spec:
    """One feature for each (x, a), where observations are integers from a finite list: nothing is shared.

    >>> import gymnasium
    >>> es.features.bind(es.features.one_hot(), gymnasium.spaces.Discrete(3), 2).d
    6
    """
    return Spec("one_hot")


def table(phi: object, normalise: bool = False) -> Spec:
    """Features from a table: (S, A, d), or (S, e) crossed with actions. `normalise` divides by the largest norm.

    >>> import gymnasium
    >>> phi = np.eye(6).reshape(3, 2, 6)
    >>> es.features.bind(es.features.table(phi), gymnasium.spaces.Discrete(3), 2).d
    6
    """
    try:
        given = np.asarray(phi)
        if given.dtype.kind not in "biuf":
            raise TypeError
        array = given.astype(np.float64)
    except Exception:  # not numbers, or an object that fails while it is read
        raise EverystepError(
            "phi of table is not an array of numbers; give one of shape (S, A, d) or (S, e)."
        ) from None
    if array.ndim not in (2, 3) or 0 in array.shape:
        raise EverystepError(f"phi of table has shape {array.shape}; give (S, A, d), or (S, e) to cross with actions.")
    if not np.isfinite(array).all():
        raise EverystepError(f"phi of table holds {array[~np.isfinite(array)][0]}; give finite numbers.")
    return Spec("table", {"phi": array, "normalise": true_or_false("normalise", normalise)})


def fourier(
    size: int = 200,
    lengthscale: float | Sequence[float] = 1.0,
    seed: int = 0,
    low: Bound = None,
    high: Bound = None,
    constant: bool = False,
) -> Spec:
    """Random Fourier features of the RBF kernel: `size` frequencies, so 2 size features of a state.

    lengthscale  a number, or one for each coordinate, in the scale [-1, 1]
    seed         of the frequencies; the same seed gives the same features
    low, high    bounds of observations (a number, or one for each coordinate; None: the space's own)
    constant     add a feature that is the same everywhere

    >>> import gymnasium
    >>> box = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    >>> es.features.bind(es.features.fourier(50, lengthscale=0.5), box, 3).d
    300
    """
    size, seed = whole_number("size of fourier", size), seed_number("seed of fourier", seed)
    settings = {"size": size, "lengthscale": _lengths("fourier", lengthscale), "seed": seed, "low": low, "high": high}
    return _with(constant, Spec("fourier", settings))


def centres(
    centres: int | Sequence[int] | np.ndarray = 5,
    lengthscale: float | Sequence[float] | None = None,
    low: Bound = None,
    high: Bound = None,
    constant: bool = False,
) -> Spec:
    """Radial basis functions around centres.

    centres      the number along each coordinate (one number, or one for each), or the centres themselves, (n, o), in
                 the units of observations
    lengthscale  in the scale [-1, 1]; by default the distance of neighbouring centres of a grid, and 0.5 for centres
                 that are given

    >>> import gymnasium
    >>> box = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    >>> es.features.bind(es.features.centres(4), box, 3).d
    48
    """
    given = spaces.as_floats(centres)
    if given is None:
        raise EverystepError(f"centres are {quoted(centres)}; give numbers along each coordinate, or (n, o) points.")
    if given.ndim < 2:
        centres = tuple(whole_number("centres", each) for each in np.atleast_1d(np.asarray(centres)))
    elif given.ndim == 2 and given.size and given.dtype.kind in "biuf" and np.isfinite(given).all():
        centres = given.astype(np.float64)
    else:
        raise EverystepError(f"centres has shape {given.shape}; give numbers along each coordinate, or (n, o) points.")
    lengths = lengthscale if lengthscale is None else _lengths("centres", lengthscale)
    return _with(constant, Spec("centres", {"centres": centres, "lengthscale": lengths, "low": low, "high": high}))


def polynomial(degree: int = 2, low: Bound = None, high: Bound = None) -> Spec:
    """All products of at most `degree` coordinates (scaled to [-1, 1]), including the constant 1.

    >>> import gymnasium
    >>> box = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    >>> es.features.bind(es.features.polynomial(2), box, 3).d
    18
    """
    return Spec("polynomial", {"degree": whole_number("degree of polynomial", degree), "low": low, "high": high})


def tiles(
    tilings: int = 8, bins: int | Sequence[int] = 8, low: Bound = None, high: Bound = None, constant: bool = False
) -> Spec:
    """Tile coding: `tilings` grids of `bins` tiles along each coordinate (a number, or one for each).

    >>> import gymnasium
    >>> box = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    >>> es.features.bind(es.features.tiles(2, bins=4), box, 3).d
    150
    """
    given = spaces.as_floats(bins)
    if given is None or given.ndim > 1:
        raise EverystepError(f"bins of tiles are {quoted(bins)}; give a number, or one for each coordinate.")
    counts = tuple(whole_number("bins of tiles", each) for each in np.atleast_1d(np.asarray(bins)))
    settings = {"tilings": whole_number("tilings of tiles", tilings), "bins": counts, "low": low, "high": high}
    return _with(constant, Spec("tiles", settings))


def function(f: Callable[[Any], Any], d: int | None = None, crossed: bool = False, normalise: bool = False) -> Spec:
    """Features by a function of one observation: f(obs) -> (A, d), or psi f(obs) -> (d,) with crossed=True.

    f receives a vector (o,), or an int where observations are integers: then it is called once for each of them and
    stored as a table. If d is left out, f is called in the middle of the space. `normalise` divides a table by its
    largest norm; for other observations that norm is unknown, so features longer than 1 are cut to length 1.

    >>> import gymnasium
    >>> speed = es.features.function(lambda obs: np.array([1.0, obs[1]]) / 2, d=2, crossed=True)
    >>> es.features.bind(speed, gymnasium.spaces.Box(-1.0, 1.0, (2,)), 3).d
    6
    """
    if not callable(f):
        raise EverystepError(f"f of function is {quoted(f)}; give a function of one observation.")
    d = d if d is None else whole_number("d of function", d)
    return Spec(
        "function",
        {
            "f": f,
            "d": d,
            "crossed": true_or_false("crossed", crossed),
            "normalise": true_or_false("normalise", normalise),
        },
    )


def joined(*specs: Spec) -> Spec:
    """Features of a state concatenated, divided by sqrt(their number).

    >>> import gymnasium
    >>> both = es.features.joined(es.features.polynomial(1), es.features.tiles(2, bins=4))
    >>> es.features.bind(both, gymnasium.spaces.Box(-1.0, 1.0, (2,)), 3).d
    159
    """
    if not specs or not all(isinstance(each, Spec) for each in specs):
        raise EverystepError("joined takes features, such as joined(fourier(), polynomial(1)).")
    return Spec("joined", {"parts": specs})


def mirrored(spec: Spec, actions: Sequence[int], signs: float | Sequence[float] = -1) -> Spec:
    """Features of a problem that is its own mirror image: what is learnt on one side holds on the other.

    spec      features of the observation, such as fourier(100)
    actions   the image of each action: [1, 0] if left and right are each other's
    signs     what the mirror multiplies observations by: 1 or -1, for all coordinates or one for each

    Transitions, rewards and constraints must be the same in the mirror; nothing checks that they are. Every observed
    step then also tells about its image, and plans choose the image of an action in the image of a state.

    >>> import gymnasium
    >>> box = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    >>> phi = es.features.bind(es.features.mirrored(es.features.fourier(50), actions=[1, 0]), box, 2)
    >>> here, there = phi(np.array([[0.5, 0.2], [-0.5, -0.2]]))
    >>> phi.d, bool((here[0] == there[1]).all())
    (100, True)
    """
    if not isinstance(spec, Spec) or spec.kind == "mirrored":
        raise EverystepError(f"mirrored takes features of the observation and not {quoted(spec)}; give fourier(100).")
    factors = spaces.as_floats(signs)
    if factors is None or factors.ndim > 1 or not factors.size or not (np.abs(factors) == 1).all():
        raise EverystepError(f"signs of mirrored are {quoted(signs)}; give 1 or -1, or one of them per coordinate.")
    chosen = float(factors) if factors.ndim == 0 else tuple(map(float, factors))
    return Spec("mirrored", {"spec": spec, "actions": _images(actions), "signs": chosen})


def landing(spec: Spec, lead: Callable[[Any], Any]) -> Spec:
    """Features of where an action leads, phi(x, a) = psi(lead(x)[a]): all actions learn one function of it.

    spec   features of what lead returns, with bounds of their own: fourier(50, low=[...], high=[...])
    lead   a function of one observation that returns (A, k): for each action k numbers that are known of the state
           after it, such as the own speed after braking; what is not known may be left as it is

    An action that is rare is then estimated from all that led to the same place. Like every function, lead is not
    saved with a policy.

    >>> import gymnasium
    >>> after = lambda obs: [[obs[0] - 1, obs[1]], [obs[0] + 1, obs[1]]]  # position after a step left or right; speed
    >>> spec = es.features.landing(es.features.polynomial(2, low=-5, high=5), after)
    >>> es.features.bind(spec, gymnasium.spaces.Box(-4.0, 4.0, (2,)), 2).d  # 12 without landing
    6
    """
    if not isinstance(spec, Spec) or not joint.of_both(spec):
        raise EverystepError(f"landing takes features of measurements and not {quoted(spec)}; give fourier(100).")
    if not callable(lead):
        raise EverystepError(f"lead of landing is {quoted(lead)}; give a function of one observation.")
    return function(_Landing(spec, lead))


class _Landing:
    """The feature function of `landing`."""

    def __init__(self, spec: Spec, lead: Callable[[Any], Any]) -> None:
        self.__name__ = f"landing by {name_of(lead)}"
        self._spec, self._lead = spec, lead
        self._psi: StateFeatures | None = None

    def __call__(self, x: Any) -> np.ndarray:
        led = spaces.as_floats(self._lead(x))
        if led is None or led.ndim != 2 or not led.size:
            raise EverystepError(f"{self.__name__} returned {shown(led)}; return (A, k) numbers")
        if self._psi is None:
            unbounded = np.full(led.shape[1], np.inf)
            self._psi = _bounded(self._spec, Coordinates(-unbounded, unbounded, None, False, "what lead returns"))
        return self._psi(led)


def _images(actions: object) -> tuple[int, ...]:
    """The mirror image of each action, checked: the image of an image is the action itself."""
    given = spaces.as_floats(actions)
    if given is None or given.ndim != 1 or not given.size or not np.isin(given, np.arange(len(given))).all():
        raise EverystepError(
            f"actions of mirrored are {quoted(actions)}; give the image of each action, such as [1, 0] for two that "
            "are each other's."
        )
    image = tuple(int(each) for each in given)
    for a, b in enumerate(image):
        if image[b] != a:
            raise EverystepError(
                f"actions of mirrored are {shown(list(image))}: the image of {a} is {b}, but that of {b} is "
                f"{image[b]}; the image of an image must be the action itself."
            )
    return image


def _with(constant: bool, spec: Spec) -> Spec:
    return joined(spec, Spec("constant")) if true_or_false("constant", constant) else spec


def _lengths(kind: str, value: object) -> float | tuple[float, ...]:
    """A length scale above 0, or one for each coordinate."""
    array = spaces.as_floats(value)
    if array is None or array.ndim > 1 or not (np.isfinite(array) & (array > 0)).all():
        raise EverystepError(
            f"lengthscale of {kind} is {quoted(value)}; give a number above 0, or one for each coordinate."
        )
    return float(array) if array.ndim == 0 else tuple(map(float, array))


# --- for a space -----------------------------------------------------------------------------------------------------
def bind(spec: Any, observation_space: Any, actions: Any) -> Features:
    """Features for a space and a number of actions, from a `Spec`, an array (a table) or a function.

    Actions may also be given by their coordinates, (A, k) in the scale [-1, 1]: then features of measurements (fourier,
    centres, polynomial, tiles) are of observation and action together, in this order of coordinates.
    `Features` are returned as they are, if they have the same number of actions.

    >>> import gymnasium
    >>> box = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    >>> phi = es.features.bind(es.features.polynomial(1), box, 3)
    >>> phi.d, phi(np.array([[0.0, 0.5]])).shape  # (n, A, d)
    (9, (1, 3, 9))
    """
    points = _points(actions) if isinstance(actions, np.ndarray) and actions.ndim else None
    actions = whole_number("actions", actions) if points is None else len(points)
    if isinstance(spec, Features):
        if spec.actions != actions:
            raise EverystepError(f"features are for {spec.actions} actions, but there are {actions}; make them again.")
        return spec
    spec = table(spec) if isinstance(spec, np.ndarray) else spec
    spec = function(spec) if callable(spec) else spec
    if not isinstance(spec, Spec):
        raise EverystepError(
            f"features are {quoted(spec)}; give auto, everystep.features.fourier(...), tiles(...), another of these, "
            "an array (S, A, d), or a function of one observation."
        )
    at = Coordinates.of(observation_space)
    try:
        return _bound(spec, at, actions) if points is None or not joint.of_both(spec) else joint.made(spec, at, points)
    except EverystepError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError):  # of a Spec that no function here made
        raise EverystepError(
            f"features {shown(spec)} cannot be made of these settings; use es.features.{spec.kind}(...)."
        ) from None


def _points(given: np.ndarray) -> np.ndarray:
    points = spaces.as_floats(given)
    if points is None or points.ndim != 2 or not points.size or not (np.abs(points) <= 1).all():
        raise EverystepError(
            f"actions are {shown(given)}; give their number, or coordinates (A, k) in the scale [-1, 1]."
        )
    return points


def _bound(spec: Spec, at: Coordinates, actions: int) -> Features:
    if spec.kind == "table" and spec.settings["phi"].ndim == 3:
        return _table(at, actions, **spec.settings)
    if spec.kind == "function" and not spec.settings["crossed"]:
        return _function(at, actions, **spec.settings)
    if spec.kind == "mirrored":
        return _mirrored(at, actions, spec.settings)
    return Crossed(_bounded(spec, at), actions)


def _bounded(spec: Spec, at: Coordinates) -> StateFeatures:
    """Features of a state, not too many of them."""
    psi = _state(spec, at)
    if psi.size > LARGEST:
        raise EverystepError(f"{spec} makes {psi.size} features of a state; ask for at most {LARGEST}.")
    return psi


def _state(spec: Spec, at: Coordinates) -> StateFeatures:
    if spec.kind == "function" and not spec.settings["crossed"]:
        raise EverystepError("a function in joined or mirrored must return features of the state; pass crossed=True.")
    if spec.kind in joint.MEASURED_BY:
        return joint.of_state(spec.kind, at, spec.settings)
    return _MADE_BY[spec.kind](at, **spec.settings)


def _mirrored(at: Coordinates, actions: int, settings: Mapping[str, Any]) -> Mirrored:
    image = settings["actions"]
    if len(image) != actions:
        raise EverystepError(
            f"actions of mirrored are {shown(list(image))}, but there are {actions} actions; give the image of each."
        )
    if at.sizes is not None:
        raise EverystepError(f"mirrored needs observations that are measurements, but the space is {at.space}.")
    signs = np.array(fits("mirrored", "signs", settings["signs"], len(at.low)))
    psi = _bounded(settings["spec"], at)
    few("mirrored", psi.size * len({min(a, b) for a, b in enumerate(image)}), "choose fewer features")
    return Mirrored(psi, signs, np.array(image))


def _not_of_a_state(at: Coordinates, **settings: object) -> StateFeatures:
    raise EverystepError("mirrored features are of (x, a); write mirrored(joined(...)) instead of joining them.")


def _whole(at: Coordinates, kind: str) -> tuple[int, ...]:
    if at.sizes is None:
        raise EverystepError(
            f"{kind} needs observations that are integers from a finite list (Discrete, MultiDiscrete, MultiBinary or "
            f"a Tuple of them), but the space is {at.space}; choose fourier, centres, tiles or polynomial."
        )
    return at.sizes


def _one_hot(at: Coordinates) -> OneHot:
    sizes = _whole(at, "one_hot")
    few("one_hot", math.prod(sizes), "choose tiles, fourier or centres")
    return OneHot(sizes, at.first)


def _shrunk(kind: str, values: np.ndarray, normalise: bool) -> tuple[np.ndarray, float]:
    """Values with norms of at most 1, and the divisor."""
    size = max(float(np.abs(values).max()), 1.0)  # so that squares stay finite
    top = size * float(np.linalg.norm(values / size, axis=-1).max())
    if top <= 1 + ROUNDING:
        return values, 1.0
    if not normalise:
        raise EverystepError(
            f"{kind} has a norm of {top:.6g}; it must be at most 1: divide by it, or pass normalise=True."
        )
    return values / top, top


def _listed(at: Coordinates, kind: str, rows: int) -> tuple[int, ...]:
    sizes = _whole(at, kind)
    if rows != math.prod(sizes):
        raise EverystepError(
            f"{kind} has {rows} rows, but there are {math.prod(sizes)} observations; give one row for each."
        )
    return sizes


def _table(at: Coordinates, actions: int, phi: np.ndarray, normalise: bool, kind: str = "table") -> Table:
    sizes = _listed(at, kind, len(phi))
    if phi.shape[1] != actions:
        wanted = (len(phi), actions, phi.shape[2])
        raise EverystepError(f"{kind} has shape {phi.shape}, but there are {actions} actions; give shape {wanted}.")
    values, divided_by = _shrunk(kind, phi, normalise)
    return Table(values, sizes, at.first, divided_by)


def _state_table(at: Coordinates, phi: np.ndarray, normalise: bool, kind: str = "table") -> StateTable:
    if phi.ndim != 2:
        raise EverystepError(f"{kind} in joined has shape {phi.shape}; give features of the state, (S, e).")
    sizes = _listed(at, kind, len(phi))
    values, divided_by = _shrunk(kind, phi, normalise)
    return StateTable(values, sizes, at.first, divided_by)


def _function(
    at: Coordinates, actions: int, f: Callable[[Any], Any], d: int | None, crossed: bool, normalise: bool
) -> Features:
    shape = _shape(at, f, (actions, d))
    if at.single:
        return _table(at, actions, _everywhere(at, f, shape), normalise, f"feature function {name_of(f)}")
    return CustomFeatures(f, actions, shape[1], normalise)


def _state_function(
    at: Coordinates, f: Callable[[Any], Any], d: int | None, crossed: bool, normalise: bool
) -> StateFeatures:
    shape = _shape(at, f, (d,))
    if at.single:
        return _state_table(at, _everywhere(at, f, shape), normalise, f"feature function {name_of(f)}")
    return CustomStateFeatures(f, shape[0], normalise)


def _shape(at: Coordinates, f: Callable[[Any], Any], wanted: tuple[int | None, ...]) -> tuple[int, ...]:
    """The shape that the function returns in the middle of the space, unless it is given; it must match `wanted`."""
    if None not in wanted:
        return wanted  # type: ignore[return-value]
    low, high = np.maximum(at.low, -1e6), np.minimum(at.high, 1e6)
    middle = np.where(np.isfinite(at.low) & np.isfinite(at.high), (low + high) / 2, np.clip(0, at.low, at.high))
    given = value_at(f, int(middle[0]) if at.single else middle).shape
    if len(given) != len(wanted) or 0 in given or any(w not in (None, g) for w, g in zip(wanted, given, strict=True)):
        expected = f"({', '.join('d' if w is None else str(w) for w in wanted)}{',' * (len(wanted) == 1)})"
        raise EverystepError(
            f"feature function {name_of(f)} returned shape {given}; return {expected} per observation."
        )
    return given


def _everywhere(at: Coordinates, f: Callable[[Any], Any], shape: tuple[int, ...]) -> np.ndarray:
    every = np.arange(at.first[0], at.first[0] + _whole(at, "function")[0])
    out = np.zeros((len(every), *shape))
    for i, x in enumerate(every):
        value = value_at(f, int(x))
        if value.shape != shape:
            raise EverystepError(f"feature function {name_of(f)} returned shape {value.shape} at {x}; return {shape}.")
        out[i] = value
    return out


def _joined(at: Coordinates, parts: tuple[Spec, ...]) -> Joined:
    return Joined(tuple(_state(part, at) for part in parts))


_MADE_BY: dict[str, Callable[..., StateFeatures]] = {
    "one_hot": _one_hot,
    "table": _state_table,
    "function": _state_function,
    "joined": _joined,
    "mirrored": _not_of_a_state,
}
