"""What models on stored data have in common: the rows they learn from, their sizes, and their contracts.

A value model and a cost model of this package plan over a growing list of observed states (slots) instead of a fixed
list of all states. `lsvi.algorithm` uses them like every other model; what follows is needed besides.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from everystep.lsvi.algorithm import Agent
from everystep.lsvi.protocols import CostModel, ValueModel

NO_SLOT = np.iinfo(np.int32).max  # the slot of a next state that is not kept; beyond every capacity


class TransitionRows(NamedTuple):
    """One episode as L rows, padded: for each step its step in the plan, action, outcome, and slot of the next state.

    A next state without a slot (the episode ended there, or the row is padding) has a slot of C or more. `own` says
    which slots hold the next state itself, not one nearby; None: all of them.
    """

    h: Any  # (L,)
    a: Any
    reward: Any
    cost: Any  # (L, m)
    slot: Any
    ended: Any
    live: Any  # False for padding
    value_inputs: Any  # of the value model: EpisodeFeatures or EpisodePoints
    cost_inputs: Any  # of the cost model; None if it does not learn
    own: Any = None

    @property
    def own_slot(self) -> Any:
        """The slots in which the features of the next states are written: those that are their own."""
        return self.slot if self.own is None else jnp.where(self.own, self.slot, NO_SLOT)


class StoredSizes(NamedTuple):
    """T estimators of each kind, m constraints, C slots, and L rows of an episode."""

    steps: int
    constraints: int
    capacity: int
    length: int
    plans_every_episode: bool


class Predictor(Protocol):
    """A fitted model as NumPy arrays, evaluated at observations that have no slot."""

    def predict(self, h: int, encoded: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean (..., A, n) and width (A, n) at step h, of n observations as the model's encoder encodes them."""
        ...

    def without_width(self) -> Predictor:
        """The same, for a caller that does not use the widths: they may be 0."""
        ...

    def rescaled(self, factor: Any) -> Predictor:
        """The same as if every target had been multiplied by `factor`, with axes for those of the mean, or none."""
        ...

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything that a file must hold."""
        ...

    def fits(self, shape: Any, horizon: int, outputs: tuple[int, ...]) -> bool:
        """Whether the arrays have the shapes of an encoder's inputs, of H steps, and of (m,) or () outputs."""
        ...


class StoredModel(Protocol):
    """What value and cost models on stored data share. `State` is a pytree, updated in place."""

    def update(self, state: Any, rows: TransitionRows) -> Any:
        """The state after one more episode."""
        ...

    def enlarged(self, state: Any, capacity: int) -> Any:
        """The same state with `capacity` slots."""
        ...

    def refreshed(self, state: Any) -> Any:
        """The same state without the rounding errors of many updates."""
        ...

    def merged(self, state: Any, keep: np.ndarray, into: np.ndarray) -> Any:
        """The same state with the slots `keep` alone, where slot i is now slot into[i] (`SlotTable.merge`)."""
        ...


@runtime_checkable
class StoredValueModel(StoredModel, ValueModel, Protocol):
    """A value model on stored data: `init(shape, sizes, reward_scale)`, where `shape` is the encoder's."""

    @property
    def radius(self) -> Any: ...

    def predictor(self, fit: Any, V: Any, k: Any) -> Any:
        """The predictor of a plan that ended with V (H, C)."""
        ...

    def harm_predictor(self, fit: Any, C: Any, k: Any, radius: Any) -> Any:
        """The predictor of the mean of C (H, C) at the next state, for agents that look ahead."""
        ...

    def _replace(self, *, radius: Any) -> Any: ...


@runtime_checkable
class StoredCostModel(StoredModel, CostModel, Protocol):
    """A cost model on stored data: `init(shape, sizes)`, where `shape` is the encoder's."""

    def predictor(self, state: Any, k: Any) -> Any:
        """The predictor of the constraints; None for a model that never looks at costs."""
        ...

    def rescaled(self, state: Any, factor: np.ndarray) -> Any:
        """The state as if every cost so far had been multiplied by `factor` (m,)."""
        ...


def stored_models(agent: Agent) -> tuple[StoredValueModel, StoredCostModel]:
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
