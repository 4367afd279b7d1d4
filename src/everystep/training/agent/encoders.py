"""How a model on stored data represents observations: by features, or as points of a kernel.

The value model and the cost model of an agent may have different encoders: linear values and a Gaussian process of
costs, for example.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import numpy as np

from everystep import kernels
from everystep.errors import whole_number
from everystep.features.maps import Features, Joint, OneHot, example, rebuild
from everystep.features.spaces import rows
from everystep.kernels import Kernel
from everystep.lsvi.radii import Radius
from everystep.training.agent.models.kernel import (
    EpisodePoints,
    KernelPredictor,
    PointShape,
    StoredKernelCosts,
    StoredKernelValues,
)
from everystep.training.agent.models.linear import (
    LEARNT,
    EpisodeFeatures,
    FeatureShape,
    LinearPredictor,
    StoredLinearCosts,
    StoredLinearValues,
)
from everystep.training.agent.models.mixing import Mixing
from everystep.training.agent.models.protocols import AnyCostModel, AnyPredictor, AnyValueModel

Points = dict[str, np.ndarray]  # named, (A, n, d) each
Place = Callable[[np.ndarray], np.ndarray]  # (n, ...) to (L, ...); the other rows are zeros
COORDINATES = ("observation", "action")  # what a kernel may be on


class Encoder(Protocol):
    """How one model sees observations."""

    @property
    def actions(self) -> int:
        """A."""
        ...

    @property
    def d(self) -> int | None:
        """The length of phi(x, a); None for a kernel, which has no such number."""
        ...

    @property
    def shares_nothing(self) -> bool:
        """Whether what is learnt at one observation says nothing about any other (one-hot features)."""
        ...

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was scaled, divided or cut, one sentence each."""
        ...

    def encode(self, observations: np.ndarray) -> np.ndarray | Points:
        """What the model's predictor takes, for n observations and every action."""
        ...

    def example(self) -> np.ndarray | None:
        """A batch of one observation that can be encoded; None where only a custom function can tell."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Everything but the arrays, ready for JSON."""
        ...

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays, by name."""
        ...


class ModelEncoder(Encoder, Protocol):
    """How a model of least squares on stored data sees observations, and which model that is."""

    @property
    def shape(self) -> FeatureShape | PointShape:
        """The sizes of its inputs, as the model's `init` takes them."""
        ...

    @property
    def keeps_points(self) -> bool:
        """Whether the model keeps every transition, so that its memory grows with the square of their number."""
        ...

    @property
    def slot_per_action(self) -> bool:
        """Whether the slot of a next state also depends on the action that led there."""
        ...

    @property
    def has_paper_radius(self) -> bool:
        """Whether the paper's formulas for confidence radii apply to the model."""
        ...

    def encode_transitions(
        self, observations: np.ndarray, actions: np.ndarray, next_observations: np.ndarray, place: Place
    ) -> EpisodeFeatures | EpisodePoints:
        """What the model's `update` takes, for n transitions, each in its row."""
        ...

    def value_model(self, radius: Radius, lam: float, cap: float, lowest: float, horizon: float) -> AnyValueModel:
        """The value model on these inputs."""
        ...

    def cost_model(self, radius: Radius, lam: float) -> AnyCostModel:
        """The cost model on these inputs."""
        ...

    def predictor(self, arrays: Mapping[str, np.ndarray]) -> AnyPredictor:
        """A predictor of the model from the arrays that it was saved as."""
        ...


@dataclass(frozen=True)
class RawEncoder:
    """Observations as they are: networks take their units from what was seen (`training/learnt/scales.py`)."""

    coordinates: int  # o
    actions: int
    shares_nothing = False
    d = None
    remarks = ()

    def encode(self, observations: np.ndarray) -> np.ndarray:
        """(n, o)."""
        return rows(observations, self.coordinates)

    def example(self) -> np.ndarray:
        return np.zeros((1, self.coordinates))

    def to_json(self) -> dict[str, Any]:
        return {"networks": True, "coordinates": self.coordinates, "actions": self.actions}

    def arrays(self) -> dict[str, np.ndarray]:
        return {}


@dataclass(frozen=True)
class FeatureEncoder:
    """phi(x, a) for each action, or psi(x) alone where features are crossed with actions, or joint."""

    phi: Features
    keeps_points = False
    has_paper_radius = True

    @property
    def actions(self) -> int:
        return self.phi.actions

    @property
    def d(self) -> int | None:
        return self.phi.d

    @property
    def shape(self) -> FeatureShape:
        phi = self.phi
        return FeatureShape(phi.actions, phi.crossed, phi.d // phi.actions if phi.crossed else phi.d, phi.joint)

    @property
    def mixing(self) -> Mixing | None:
        return Mixing.of(self.phi) if isinstance(self.phi, Joint) else None

    @property
    def slot_per_action(self) -> bool:
        return self.phi.crossed

    @property
    def shares_nothing(self) -> bool:
        return isinstance(getattr(self.phi, "psi", None), OneHot)

    @property
    def remarks(self) -> tuple[str, ...]:
        return self.phi.remarks

    def encode(self, observations: np.ndarray) -> np.ndarray:
        """(e, F, n)."""
        return self._vectors(observations).transpose(2, 1, 0)

    def encode_transitions(
        self, observations: np.ndarray, actions: np.ndarray, next_observations: np.ndarray, place: Place
    ) -> EpisodeFeatures:
        here = self.phi.state(observations) if self.phi.crossed else self.phi.rows(observations, actions)
        there = place(self._vectors(next_observations)).transpose(2, 1, 0)
        return EpisodeFeatures(place(here), there)  # type: ignore[arg-type]

    def value_model(self, radius: Radius, lam: float, cap: float, lowest: float, horizon: float) -> StoredLinearValues:
        return StoredLinearValues(radius, lam, cap, lowest, horizon, self.mixing)

    def cost_model(self, radius: Radius, lam: float) -> StoredLinearCosts:
        return StoredLinearCosts(radius, lam, self.mixing)

    def predictor(self, arrays: Mapping[str, np.ndarray]) -> LinearPredictor:
        return LinearPredictor(**{name: arrays[name] for name in LEARNT}, mixing=self.mixing)

    def example(self) -> np.ndarray | None:
        return example(self.phi)

    def to_json(self) -> dict[str, Any]:
        return self.phi.to_json()

    def arrays(self) -> dict[str, np.ndarray]:
        return self.phi.arrays()

    def _vectors(self, observations: np.ndarray) -> np.ndarray:
        """(n, F, e)."""
        one = self.phi.crossed or self.phi.joint
        return self.phi.state(observations)[:, None] if one else self.phi(observations)


@dataclass(frozen=True)
class KernelEncoder:
    """Points of a kernel: the observation (o,) as the environment gives it, and the action (1,)."""

    kernel: Kernel
    coordinates: int  # o
    actions: int
    keeps_points = True
    has_paper_radius = False
    slot_per_action = False
    shares_nothing = False
    d = None
    remarks = ()

    @property
    def shape(self) -> PointShape:
        return PointShape(self.actions, {"observation": self.coordinates, "action": 1})

    def encode(self, observations: np.ndarray) -> Points:
        """(A, n, d) each."""
        x = rows(observations, self.coordinates)
        every = np.arange(float(self.actions))[:, None, None]
        shape = (self.actions, len(x))
        return {"observation": np.broadcast_to(x, (*shape, x.shape[1])), "action": np.broadcast_to(every, (*shape, 1))}

    def encode_transitions(
        self, observations: np.ndarray, actions: np.ndarray, next_observations: np.ndarray, place: Place
    ) -> EpisodePoints:
        here = {
            "observation": place(rows(observations, self.coordinates)),
            "action": place(actions[:, None].astype(float)),
        }
        return EpisodePoints(here, self.encode(place(rows(next_observations, self.coordinates))))

    def value_model(self, radius: Radius, lam: float, cap: float, lowest: float, horizon: float) -> StoredKernelValues:
        return StoredKernelValues(radius, lam, cap, lowest, horizon, self.kernel)

    def cost_model(self, radius: Radius, lam: float) -> StoredKernelCosts:
        return StoredKernelCosts(radius, lam, self.kernel)

    def predictor(self, arrays: Mapping[str, np.ndarray]) -> KernelPredictor:
        return KernelPredictor.from_arrays(jax.tree.map(np.asarray, self.kernel), COORDINATES, arrays)

    def example(self) -> np.ndarray:
        return np.zeros((1, self.coordinates))

    def to_json(self) -> dict[str, Any]:
        return {"kernel": str(self.kernel), "coordinates": self.coordinates, "actions": self.actions}

    def arrays(self) -> dict[str, np.ndarray]:
        return {}


def encoder_from_json(content: Mapping[str, Any], arrays: Mapping[str, np.ndarray], given: Any = None) -> ModelEncoder:
    """A saved encoder of features or points.

    A custom feature function is not saved: `given` is that function, or features made with it.
    """
    if "kernel" in content:
        sizes = (whole_number(f"{name} of a kernel", content[name]) for name in ("coordinates", "actions"))
        return KernelEncoder(kernels.read(content["kernel"]), *sizes)
    if isinstance(given, Features):
        return FeatureEncoder(given if _has_function(content) else rebuild(content, arrays))
    return FeatureEncoder(rebuild(content, arrays, given))


def _has_function(content: object) -> bool:
    """Whether saved features contain a custom function."""
    if isinstance(content, list):
        return any(map(_has_function, content))
    return isinstance(content, Mapping) and ("function" in content or any(map(_has_function, content.values())))
