"""Features chosen by evidence: the kind and the scale that best explain what was seen.

Least squares with ridge lam is the mean of a Gaussian model of targets y (n,) at rows Phi (n, e):

    y = Phi w + noise,   w ~ N(0, sigma^2 / lam I),   noise ~ N(0, sigma^2 I)

    log p(y) = -1/2 {n log(2 pi sigma^2) + log det(I + Phi Phi^T / lam) + y^T (I + Phi Phi^T / lam)^-1 y / sigma^2}

The evidence rewards features that fit and, by the determinant, features that need few of them. It is the highest over
lam (a grid) and sigma^2 (in closed form: the quadratic form / n). Targets are scaled to variance 1, and sigma^2 is at
least `PRECISION`: without that limit a target that some features represent exactly would outweigh all others.

Features of different actions are separate blocks, so their determinants and quadratic forms add up; where actions have
coordinates, features are of both (`Joint`), and there is one block. The length scale of
each coordinate is found by coordinate ascent on a grid; frequencies are drawn once, so the same data and seed give the
same choice.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from everystep.errors import EverystepError
from everystep.features.spaces import Coordinates
from everystep.features.specs import Spec, bind, fourier, polynomial

AUTO = "auto"
FREQUENCIES = 75  # 150 features and a constant for each action
FREQUENCIES_OF_BOTH = 100  # of observation and action together: 200 features and a constant for all actions
MOST_COORDINATES = 64  # of an observation; more are an image
PRECISION = 0.05  # the least sigma^2, of targets with variance 1: errors of 22 % of a deviation do no harm
TOLERATED = 0.1  # evidence per row that is given up for fewer or longer features: errors 10 % larger
RIDGES = 10.0 ** -np.arange(1.0, 4.5, 0.5)
LENGTHS = 2.0 ** np.arange(-1.0, 1.5, 0.5)  # in the scale [-1, 1]
MOST_EVALUATIONS = 150  # of the evidence, for one choice of length scales
MOST_ROWS = 1500  # drawn at random if there are more
BETWEEN = (0.5, 99.5)  # percentiles of what was seen
WIDER = 0.5  # by which the range of what was seen is widened on each side
LEAST_SHARE = 0.001  # of a declared range


@dataclass(frozen=True)
class Choice:
    """Features for a model: the specification, the ridge that goes with it, and the evidence per row of each target."""

    spec: Spec
    ridge: float = math.nan  # not chosen
    evidence: np.ndarray = field(default_factory=lambda: np.empty(0))

    def is_as_good_as(self, other: Choice, tolerated: float) -> bool:
        """Whether it predicts every target about as well."""
        return bool((self.evidence >= other.evidence - tolerated).all())


@dataclass(frozen=True)
class Seen:
    """What features are chosen by: n observations, the actions taken there, and the k targets to be predicted."""

    observations: Float[np.ndarray, "n o"]
    actions: Int[np.ndarray, " n"]
    targets: Float[np.ndarray, "n k"]

    def few(self, seed: int) -> Seen:
        """At most `MOST_ROWS` of them, with targets of mean 0 and variance 1; constant targets are left out."""
        n = len(self.actions)
        rows = np.random.default_rng(seed).permutation(n)[:MOST_ROWS] if n > MOST_ROWS else np.arange(n)
        y = self.targets[rows]
        y = y[:, np.ptp(y, 0) > 0]
        return Seen(self.observations[rows], self.actions[rows], (y - y.mean(0)) / y.std(0))


def log_evidence(
    phi: Float[np.ndarray, "n e"], actions: Int[np.ndarray, " n"], targets: Float[np.ndarray, "n k"]
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """log p of each target, and the ridge at which it is the highest."""
    n, parts = len(phi), []
    for a in np.unique(actions):
        X, y = phi[actions == a], targets[actions == a]
        squares, basis = np.linalg.eigh(X.T @ X)
        parts.append((np.maximum(squares, 0), (basis.T @ (X.T @ y)) ** 2, (y**2).sum(0)))
    found = np.empty((len(RIDGES), targets.shape[1]))
    for i, lam in enumerate(RIDGES):
        log_det = sum(np.log1p(s / lam).sum() for s, _, _ in parts)
        form = sum(total - (along / (lam + s)[:, None]).sum(0) for s, along, total in parts)
        variance = np.maximum(form / n, PRECISION)
        found[i] = -(n * np.log(2 * np.pi * variance) + log_det + form / variance) / 2
    return found.max(0), RIDGES[found.argmax(0)]


def look(space: Any, observations: Float[np.ndarray, "n o"]) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of every coordinate: as declared, else the range of what was seen and half of it more on each side.

    Declared bounds of which less than `LEAST_SHARE` was seen say little, and count as none. Before anything was seen,
    coordinates without bounds have [-1, 1].
    """
    at = Coordinates.of(space)
    finite = np.isfinite(at.low) & np.isfinite(at.high)
    if not len(observations):
        return np.where(finite, at.low, -1.0), np.where(finite, at.high, 1.0)
    low, high = np.percentile(observations, BETWEEN, axis=0)
    span = np.where(high > low, high - low, np.maximum(np.abs(high), 1.0))
    declared = finite & (high - low >= LEAST_SHARE * (at.high - at.low))
    low, high = low - WIDER * span, high + WIDER * span
    inside = (np.maximum(low, at.low), np.minimum(high, at.high))
    return np.where(declared, at.low, inside[0]), np.where(declared, at.high, inside[1])


def share_seen(
    bounds: tuple[np.ndarray, np.ndarray], observations: Float[np.ndarray, "n o"]
) -> Float[np.ndarray, " o"]:
    """The share of each range that what was seen and half of it more on each side takes up, at most 1.

    It is the unit of length scales: a coordinate of which a tenth is used needs features ten times as fine. The bounds
    themselves stay, because features are constant beyond them.
    """
    low, high = np.percentile(observations, BETWEEN, axis=0)
    span = np.where(high > low, (1 + 2 * WIDER) * (high - low), np.inf)
    return np.asarray(np.minimum(span / np.maximum(bounds[1] - bounds[0], 1e-300), 1.0))


def check_space(space: Any) -> None:
    """Refuse spaces for which no features are chosen: images and dictionaries."""
    if hasattr(space, "spaces"):
        raise EverystepError(
            "features are chosen for observations that are one array, not for a dictionary or a tuple; wrap the "
            "environment in gymnasium.wrappers.FlattenObservation, or give features=."
        )
    o = len(Coordinates.of(space).low)
    if o > MOST_COORDINATES:
        raise EverystepError(
            f"observations have {o} numbers, and features are chosen for at most {MOST_COORDINATES}; give "
            "features=es.features.function(f, crossed=True) with an f that returns a few numbers of an image."
        )


def standard(
    low: np.ndarray, high: np.ndarray, seed: int, lengths: Sequence[float] | None = None, of_action: int = 0
) -> Spec:
    """Fourier features; length scales of 1 before anything is known. `of_action`: the coordinates of an action."""
    lengths = (1.0,) * (len(low) + of_action) if lengths is None else tuple(lengths)
    size = FREQUENCIES_OF_BOTH if len(lengths) > len(low) else FREQUENCIES
    return fourier(size, lengths, seed, _plain(low), _plain(high), constant=True)


def coordinates_of(actions: int | np.ndarray) -> int:
    """k, for actions given by their coordinates (A, k); 0 for a number of actions."""
    return actions.shape[1] if isinstance(actions, np.ndarray) and actions.ndim == 2 else 0


def choose(
    space: Any,
    actions: int | np.ndarray,
    seen: Seen,
    bounds: tuple[np.ndarray, np.ndarray],
    seed: int,
    polynomials: bool,
    tolerated: float = TOLERATED,
) -> Choice:
    """The simplest features of almost the highest evidence: polynomials, if they may be, else Fourier features."""
    data = seen.few(seed)
    k = coordinates_of(actions)
    if not data.targets.shape[1]:
        return Choice(standard(*bounds, seed, of_action=k))

    def tried(spec: Spec) -> Choice:
        phi = bind(spec, space, actions)
        rows = phi.rows(data.observations, data.actions) if phi.joint else phi.state(data.observations)
        found, ridges = log_evidence(rows, data.actions * (not phi.joint), data.targets)
        return Choice(spec, float(np.exp(np.log(ridges).mean())), found / len(data.actions))

    unit = np.concatenate([share_seen(bounds, data.observations), np.ones(k)])
    by_lengths = lambda lengths: tried(standard(*bounds, seed, _plain(np.array(lengths) * unit)))
    best, longest = _by_lengths(by_lengths, len(bounds[0]) + k, tolerated)
    low, high = map(_plain, bounds)
    for degree in (1, 2) if polynomials else ():
        if _fits(len(low) + k, degree) and (simple := tried(polynomial(degree, low, high))).is_as_good_as(
            best, tolerated
        ):
            return simple
    return longest


def _by_lengths(tried: Callable[[tuple[float, ...]], Choice], o: int, tolerated: float) -> tuple[Choice, Choice]:
    """The highest mean evidence over length scales, and the longest length scales that are about as good.

    A common length scale first, then one coordinate after another until none improves; `MOST_EVALUATIONS` in all.
    """
    known: dict[tuple[int, ...], Choice] = {}
    last = len(LENGTHS) - 1

    def at(place: tuple[int, ...]) -> Choice:
        if place not in known:
            known[place] = tried(tuple(float(LENGTHS[i]) for i in place))
        return known[place]

    def moved(place: tuple[int, ...], j: int, step: int) -> tuple[int, ...] | None:
        """`place` with coordinate j moved by `step`, unless that leaves the grid or exceeds the effort."""
        other = (*place[:j], place[j] + step, *place[j + 1 :])
        return other if 0 <= other[j] <= last and (other in known or len(known) < MOST_EVALUATIONS) else None

    def walked(
        place: tuple[int, ...], steps: Sequence[int], better: Callable[[Choice, Choice], bool]
    ) -> tuple[int, ...]:
        before = None
        while place != before:
            before = place
            for j, step in itertools.product(range(o), steps):
                while (other := moved(place, j, step)) is not None and better(at(other), at(place)):
                    place = other
        return place

    common = max(((i,) * o for i in range(last + 1)), key=lambda place: at(place).evidence.mean())
    best = walked(common, (1, -1), lambda new, old: new.evidence.mean() > old.evidence.mean())
    longest = walked(best, (1,), lambda new, old: new.is_as_good_as(at(best), tolerated))
    return at(best), at(longest)


def _fits(o: int, degree: int) -> bool:
    """Whether the polynomials are no more than the Fourier features."""
    return (o + 1 if degree == 1 else (o + 1) * (o + 2) // 2) <= 2 * FREQUENCIES


def _plain(bound: np.ndarray) -> list[float]:
    return [float(f"{each:.4g}") for each in bound]


def described(spec: Spec) -> str:
    """The choice in a few words."""
    plain = to_plain(spec)
    if plain["degree"]:
        return f"polynomial({plain['degree']})"
    size = FREQUENCIES_OF_BOTH if len(plain["lengths"]) > len(plain["low"]) else FREQUENCIES
    return f"fourier({size}, lengthscale=[{', '.join(f'{each:.2g}' for each in plain['lengths'])}])"


def to_plain(spec: Spec) -> dict[str, Any]:
    """A specification made here, as numbers."""
    inner = spec.settings["parts"][0] if spec.kind == "joined" else spec
    given, o = inner.settings, len(inner.settings["low"])
    lengths = given.get("lengthscale", 1.0)
    return {
        "degree": given.get("degree", 0),
        "lengths": list(lengths) if isinstance(lengths, tuple) else [lengths] * o,
        "low": given["low"],
        "high": given["high"],
    }


def from_plain(plain: dict[str, Any], seed: int) -> Spec:
    """The inverse."""
    low, high = plain["low"], plain["high"]
    if plain["degree"]:
        return polynomial(plain["degree"], low, high)
    return standard(np.array(low), np.array(high), seed, tuple(plain["lengths"]))
