"""What models on stored data have in common: the rows they learn from, their sizes, and their contracts.

A value model and a cost model of this package plan over a growing list of observed states (slots) instead of a fixed
list of all states. `lsvi.algorithm` uses them like every other model; what follows is needed besides.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from everystep.lsvi.algorithm import Agent
from everystep.lsvi.protocols import CostModel, Fit, Pytree, State, ValueModel
from everystep.lsvi.radii import Radius

Encoded = TypeVar("Encoded", contravariant=True)  # observations as an encoder encodes them
Shape = TypeVar("Shape", contravariant=True)  # the sizes of an encoder's inputs
NO_SLOT = np.iinfo(np.int32).max  # the slot of a next state that is not kept; beyond every capacity


class TransitionRows(NamedTuple):
    """One episode as L rows, padded: for each step its step in the plan, action, outcome, and slot of the next state.

    A next state without a slot (the episode ended there, or the row is padding) has a slot of C or more. `live` is
    False for padding. The inputs are as the encoder of a model makes them: EpisodeFeatures or EpisodePoints; None for a
    model that does not learn. `own` says which slots hold the next state itself, not one nearby; None: all of them.
    """

    h: Int[Array, " L"]
    a: Int[Array, " L"]
    reward: Float[Array, " L"]
    cost: Float[Array, "L m"]
    slot: Int[Array, " L"]
    ended: Bool[Array, " L"]
    live: Bool[Array, " L"]
    value_inputs: Pytree
    cost_inputs: Pytree
    own: Bool[Array, " L"] | None = None

    @property
    def own_slot(self) -> Int[Array, " L"]:
        """The slots in which the features of the next states are written: those that are their own."""
        return self.slot if self.own is None else jnp.where(self.own, self.slot, NO_SLOT)


class StoredSizes(NamedTuple):
    """T estimators of each kind, m constraints, C slots, and L rows of an episode."""

    steps: int
    constraints: int
    capacity: int
    length: int
    plans_every_episode: bool


@runtime_checkable
class Predictor(Protocol[Encoded, Shape]):
    """A fitted model as NumPy arrays, evaluated at observations that have no slot."""

    def predict(self, h: int, encoded: Encoded, /) -> tuple[np.ndarray, np.ndarray]:
        """Mean (..., A, n) and width (A, n) at step h, of n observations as the model's encoder encodes them."""
        ...

    def without_width(self) -> Predictor[Encoded, Shape]:
        """The same, for a caller that does not use the widths: they may be 0."""
        ...

    def rescaled(self, factor: float | np.ndarray) -> Predictor[Encoded, Shape]:
        """The same as if every target had been multiplied by `factor`, with axes for those of the mean, or none."""
        ...

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything that a file must hold."""
        ...

    def fits(self, shape: Shape, horizon: int, outputs: tuple[int, ...]) -> bool:
        """Whether the arrays have the shapes of an encoder's inputs, of H steps, and of (m,) or () outputs."""
        ...


@runtime_checkable
class StoredModel(Protocol[State]):
    """What value and cost models on stored data share. The state is a pytree that is updated in place."""

    def update(self, state: State, rows: TransitionRows) -> State:
        """The state after one more episode."""
        ...

    def enlarged(self, state: State, capacity: int) -> State:
        """The same state with `capacity` slots."""
        ...

    def refreshed(self, state: State) -> State:
        """The same state without the rounding errors of many updates."""
        ...

    def merged(self, state: State, keep: np.ndarray, into: np.ndarray) -> State:
        """The same state with the slots `keep` alone, where slot i is now slot into[i] (`SlotTable.merge`)."""
        ...


@runtime_checkable
class StoredValueModel(StoredModel[State], ValueModel[State, Fit], Protocol[State, Fit, Shape]):
    """A value model on stored data."""

    @property
    def radius(self) -> Radius: ...

    def init(self, shape: Shape, sizes: StoredSizes, reward_scale: tuple[float, float]) -> State:
        """The state before any data; `shape` is the encoder's."""
        ...

    def predictor(self, fit: Fit, V: Float[Array, "H C"], k: Int[Array, ""]) -> Predictor[Pytree, Shape]:
        """The predictor of a plan that ended with V."""
        ...

    def harm_predictor(
        self, fit: Fit, C: Float[Array, "H C"], k: Int[Array, ""], radius: Radius | None
    ) -> Predictor[Pytree, Shape]:
        """The predictor of the mean of C at the next state, for agents that look ahead."""
        ...

    def _replace(self, *, radius: Radius) -> StoredValueModel[State, Fit, Shape]: ...


@runtime_checkable
class StoredCostModel(StoredModel[State], CostModel[State], Protocol[State, Shape]):
    """A cost model on stored data."""

    def init(self, shape: Shape, sizes: StoredSizes) -> State:
        """The state before any data; `shape` is the encoder's."""
        ...

    def predictor(self, state: State, k: Int[Array, ""]) -> Predictor[Pytree, Shape] | None:
        """The predictor of the constraints; None for a model that never looks at costs."""
        ...

    def rescaled(self, state: State, factor: np.ndarray) -> State:
        """The state as if every cost so far had been multiplied by `factor` (m,)."""
        ...


AnyPredictor: TypeAlias = Predictor[Pytree, Pytree]
AnyValueModel: TypeAlias = StoredValueModel[Pytree, Pytree, Pytree]
AnyCostModel: TypeAlias = StoredCostModel[Pytree, Pytree]


def stored_models(agent: Agent) -> tuple[AnyValueModel, AnyCostModel]:
    """The two models of an agent on stored data."""
    assert isinstance(agent.values, StoredValueModel)
    assert isinstance(agent.costs, StoredCostModel)
    return agent.values, agent.costs


def arrivals_by_step(T: int, slot: Array, arrived: Array) -> tuple[Array, Array]:
    """Slots (T, n) and inputs (T, ..., n) of the states arrived at, by the step they are met at: one step later."""
    if T == 1:
        return slot[None], arrived[None]
    nowhere = jnp.full((1,), jnp.iinfo(slot.dtype).max, slot.dtype)
    slot = jnp.concatenate([nowhere, slot[:-1]])[:, None]
    return slot, jnp.moveaxis(jnp.roll(arrived, 1, -1), -1, 0)[..., None]
