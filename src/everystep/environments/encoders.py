"""How a model on stored data sees transitions: through features, or as points of a kernel.

A side turns observations into what its model takes. The value side and the cost side of an agent may differ: linear
values and a Gaussian process of costs, say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from everystep import kernels
from everystep.environments.models.kernel import KernelDecision, PointsSeen
from everystep.environments.models.linear import LinearDecision, Seen
from everystep.features.spaces import rows
from everystep.features.specs import Features, rebuild
from everystep.kernels import Kernel

Place = Callable[[np.ndarray], np.ndarray]  # (n, ...) to (L, ...), the other rows zeros
POINTS = ("observation", "action")  # what a kernel may be on


@dataclass(frozen=True)
class LinearSide:
    """phi(x, a), once for each action, or psi(x) alone where they are crossed with actions."""

    phi: Features
    points: bool = False  # whether the model keeps every transition as a point

    @property
    def e(self) -> int:
        """The length of a vector, and of a Gram matrix."""
        return self.phi.d // self.phi.actions if self.phi.crossed else self.phi.d

    def seen(self, observations: np.ndarray, actions: np.ndarray, after: np.ndarray, place: Place) -> Seen:
        """Features of n transitions, each at its place: of what was done (L, e), and of where it led (e, F, L)."""
        here = self._rows(observations)[np.arange(len(actions)), 0 if self.phi.crossed else actions]
        return Seen(place(here), place(self._rows(after)).transpose(2, 1, 0))  # type: ignore[arg-type]

    def at(self, observations: np.ndarray) -> Any:
        """(e, F, n): what `LinearDecision` judges."""
        return self._rows(observations).transpose(2, 1, 0)

    def _rows(self, observations: np.ndarray) -> np.ndarray:
        """(n, F, e)."""
        return self.phi.state(observations)[:, None] if self.phi.crossed else self.phi(observations)

    @property
    def remarks(self) -> tuple[str, ...]:
        return self.phi.remarks

    def to_json(self) -> dict[str, Any]:
        return self.phi.to_json()

    def arrays(self) -> dict[str, np.ndarray]:
        return self.phi.arrays()


@dataclass(frozen=True)
class KernelSide:
    """Points of a kernel: the observation as it comes (o,), and the action (1,)."""

    kernel: Kernel
    coordinates: int
    actions: int
    points: bool = True

    @property
    def like(self) -> dict[str, int]:
        """The length of each named coordinate."""
        return {"observation": self.coordinates, "action": 1}

    def seen(self, observations: np.ndarray, actions: np.ndarray, after: np.ndarray, place: Place) -> PointsSeen:
        """Points of n transitions, each at its place: of what was done (L, d), and of where it led (A, L, d)."""
        here = {"observation": place(self._rows(observations)), "action": place(actions[:, None].astype(float))}
        return PointsSeen(here, self.at(place(self._rows(after))))

    def at(self, observations: np.ndarray) -> dict[str, np.ndarray]:
        """(A, n, d) each: what `KernelDecision` judges."""
        x = self._rows(observations)
        every = np.arange(float(self.actions))[:, None, None]
        shape = (self.actions, len(x))
        return {"observation": np.broadcast_to(x, (*shape, x.shape[1])), "action": np.broadcast_to(every, (*shape, 1))}

    def _rows(self, observations: np.ndarray) -> np.ndarray:
        return rows(observations, self.coordinates)

    @property
    def remarks(self) -> tuple[str, ...]:
        return ()

    def to_json(self) -> dict[str, Any]:
        return {"kernel": str(self.kernel), "coordinates": self.coordinates, "actions": self.actions}

    def arrays(self) -> dict[str, np.ndarray]:
        return {}


@dataclass(frozen=True)
class RegressionSide(LinearSide):
    """Features for the bonus, and for the regressor the observation followed by one column for each action."""

    def inputs(self, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """(n, p)."""
        x = observations.reshape(len(observations), -1).astype(float)
        return np.concatenate([x, np.eye(self.phi.actions)[actions]], 1)

    def every(self, observations: np.ndarray) -> np.ndarray:
        """(A, n, p): with each action."""
        n = len(observations)
        return np.stack([self.inputs(observations, np.full(n, a)) for a in range(self.phi.actions)])

    def at(self, observations: np.ndarray) -> Any:
        """What `RegressionDecision` judges."""
        return LinearSide.at(self, observations), self.every(observations)


Side = LinearSide | KernelSide | RegressionSide


def again(content: dict[str, Any], arrays: dict[str, np.ndarray], given: Any = None) -> Side:
    """A side from what was saved of it. A function of one's own is `given` again, alone or as features made with it."""
    if "kernel" in content:
        return KernelSide(kernels.read(content["kernel"]), content["coordinates"], content["actions"])
    if isinstance(given, Features):
        return LinearSide(given if _by_function(content) else rebuild(content, arrays))
    return LinearSide(rebuild(content, arrays, given))


def _by_function(content: Any) -> bool:
    """Whether saved features have a function in them."""
    if isinstance(content, list):
        return any(map(_by_function, content))
    return isinstance(content, dict) and ("function" in content or any(map(_by_function, content.values())))


def decision(side: Side, arrays: dict[str, np.ndarray]) -> LinearDecision | KernelDecision:
    """What a plan decided, from the arrays it was saved as."""
    if isinstance(side, LinearSide):
        return LinearDecision(**{name: arrays[name] for name in LinearDecision._fields})
    points = {name: arrays[f"points_{name}"] for name in POINTS}
    plain = {name: arrays[name] for name in ("L", "z", "used", "radius")}
    return KernelDecision(kernel=side.kernel, points=points, **plain)


def arrays_of(decision: LinearDecision | KernelDecision) -> dict[str, np.ndarray]:
    """A decision as plain arrays."""
    if isinstance(decision, LinearDecision):
        return {name: np.asarray(value) for name, value in decision._asdict().items()}
    points = {f"points_{name}": np.asarray(value) for name, value in decision.points.items()}
    return points | {name: np.asarray(getattr(decision, name)) for name in ("L", "z", "used", "radius")}
