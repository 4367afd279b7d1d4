"""The contracts of the four parts that an agent is composed of.

Everything that code outside a part uses is a member here; `tests/lsvi/test_contract.py` checks the parts of
every registered agent.
Parts are NamedTuples of hyper-parameters and constant arrays, so they are pytrees: changing a number compiles nothing.
What a part learns is kept in its state, a pytree that only the part itself reads: contracts are generic in it.

Shapes: T is 1 (one estimator shared over steps) or H (one for each step), m the number of constraints, A actions,
S states. Episodes k and steps h count from 1 in equations; the arrays `h` below count from 0.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt32

from everystep.lsvi.episode import Episode
from everystep.lsvi.radii import Radius
from everystep.mdp.world import AnyArray, Sizes

State = TypeVar("State")  # what one part has learnt: a pytree of arrays
Fit = TypeVar("Fit")  # what a value model prepares for one plan: a pytree of arrays
Belief = TypeVar("Belief")  # what a choice uses of the cost estimate: a pytree of arrays, steps first
State_in = TypeVar("State_in", contravariant=True)
Pytree: TypeAlias = Any  # of arrays: what a part made, where the type of the part is not known
Policy: TypeAlias = Bool[Array, "A *S"] | Float[Array, "A *S"]  # one-hot as booleans, or probabilities


@runtime_checkable
class ValueModel(Protocol[State_in, Fit]):
    """The optimistic estimate of Q: lines 5 to 7 of Algorithm 1."""

    @property
    def learns_from_plans(self) -> bool:
        """Whether it needs V_{h+1} of the plan in force (`Episode.V_next`)."""

    def fit(self, state: State_in, k: Int[Array, ""], bonus: Float[Array, "H A S"] | None = None) -> Fit:
        """What does not depend on V: computed once per plan. `bonus` is added to Q before it is clipped."""

    def estimate(self, fit: Fit, h: Int[Array, ""], V_next: Float[Array, " S"]) -> Float[Array, "A S"]:
        """Q_h, given V_{h+1}."""

    def expect(self, fit: Fit, h: Int[Array, ""], C_next: Float[Array, " S"]) -> Float[Array, "A S"]:
        """<Lambda_h^-1 sum_tau phi_tau C(x'_tau), phi(x, a)>: the mean of C at the next state, without reward or bonus.

        Only agents that look ahead need it.
        """

    def log_det(self, state: State_in) -> Float[Array, " T"]:
        """log det(Lambda_h / lam), a measure of what was learnt: rare switching plans again when it has grown."""

    def squared_norms(self, state: State_in, V_next: Float[Array, "H S"] | None, /) -> Float[Array, "T A S"]:
        """||phi||^2_{Lambda^-1} at all (x, a); `V_next` only matters where phi depends on V."""


@runtime_checkable
class FiniteValueModel(ValueModel[State, Fit], Protocol[State, Fit]):
    """A value model on a finite problem."""

    @property
    def radius(self) -> Radius:
        """The radius, which turns a squared norm into a width: see `radii.py`."""

    def init(self, sizes: Sizes, steps: int) -> State:
        """The state before any data, with T = `steps`."""

    def update(self, state: State, episode: Episode) -> State:
        """The state after one more episode."""


@runtime_checkable
class CostEstimate(Protocol):
    """An interval for each constraint at each (x, a): mean - width to mean + width. Models may add more fields."""

    @property
    def mean(self) -> Float[Array, "T m A S"]: ...
    @property
    def width(self) -> Float[Array, "T w A S"]:
        """w is 1 where all constraints share one width, else m."""


@runtime_checkable
class CostModel(Protocol[State_in]):
    """The estimate of each constraint g and its width."""

    def estimate(self, state: State_in, k: Int[Array, ""]) -> CostEstimate:
        """The intervals before episode k."""


@runtime_checkable
class FiniteCostModel(CostModel[State], Protocol[State]):
    """A cost model on a finite problem."""

    def init(self, sizes: Sizes, steps: int) -> State:
        """The state before any data, with T = `steps`."""

    def update(self, state: State, episode: Episode) -> State:
        """The state after one more episode, or one more step of an agent that reacts."""


@runtime_checkable
class GrowingCostModel(FiniteCostModel[State], Protocol[State]):
    """A cost model whose state grows with the data, and must have room for the episodes of a compiled call."""

    def with_room(self, state: State, episodes: int, horizon: int) -> State:
        """The state with room for `episodes` more episodes. Not for compiled code.

        The states of many seeds may be stacked along leading axes.
        """

    def as_if_seen(self, state: State, episodes: int, horizon: int) -> State:
        """A state of the shape it has after `episodes` more episodes, which it must have room for."""


@runtime_checkable
class Penalty(Protocol):
    """The price Z on estimated violations, and how it grows."""

    def init(self, constraints: int, horizon: int) -> Float[Array, "m H"]:
        """Z^1."""

    def update(
        self, price: Float[Array, "*mH"], observed: Float[Array, "*mH"], k: Int[Array, ""]
    ) -> Float[Array, "*mH"]:
        """Z^{k+1} from Z^k and the costs observed in episode k."""


@runtime_checkable
class LookAhead(Protocol):
    """How the harm that a decision leads to is estimated: see `ahead.py`. One price serves all constraints."""

    def learnt(self, cost: AnyArray) -> AnyArray:
        """What the cost model learns from an observed cost."""

    def harm(self, cost: AnyArray) -> AnyArray:
        """The harm of a step, from its costs along the first axis."""

    def width(self, values: ValueModel[State, Fit], state: State, k: Int[Array, ""]) -> Float[Array, "T A S"] | None:
        """What `after` is lowered by, computed once per plan; None for nothing."""

    def after(
        self,
        values: ValueModel[State, Fit],
        fit: Fit,
        h: Int[Array, ""],
        C_next: Float[Array, " S"],
        width: Float[Array, "A S"] | None,
    ) -> Float[Array, "A S"]:
        """The estimated harm after this step, given C_{h+1}."""

    def led_to(self, ghat: AnyArray, after: AnyArray) -> AnyArray:
        """Ghat (A, *S), from the estimated costs (m, A, *S) of this step and the harm after it (A, *S)."""

    def avoidable(self, G: AnyArray) -> AnyArray:
        """What the choice prices, (1, A, *S)."""

    def carried(self, G: Float[Array, "A S"], pi: Policy) -> Float[Array, " S"]:
        """C_h, from Ghat and the choice at every state."""


@runtime_checkable
class Choice(Protocol[Belief]):
    """From Q, estimated costs and prices at a state to a distribution over its actions."""

    @property
    def reacts(self) -> bool:
        """Whether the choice is made again at every step of the episode, with the newest cost estimate."""

    def belief(self, ghat: Float[Array, "T m A S"], cost: CostEstimate) -> Belief:
        """What the choice uses of the cost estimate, computed once per plan: ghat itself for most choices."""

    def value_bonus(self, belief: Belief) -> Float[Array, "H A S"] | None:
        """What the value model adds to Q because of the cost estimate; None for most choices."""

    def __call__(
        self, Q: Float[Array, "A *S"], belief: Belief, price: Float[Array, " m"], tie: UInt32[Array, "*S"], /
    ) -> Policy:
        """The policy at one state or at all states of one step."""


@runtime_checkable
class ScoringChoice(Choice[Array], Protocol):
    """A choice that maximises a score: what agents on environments need, where states are not listed."""

    def score(self, Q: np.ndarray, ghat: np.ndarray, price: np.ndarray) -> np.ndarray:
        """The score of every action, for NumPy arrays (A, n) and (m, A, n)."""


@runtime_checkable
class PricedChoice(ScoringChoice, Protocol):
    """A scoring choice written for one action, as the GPU kernel needs it."""

    def priced_cost(self, ghat: AnyArray) -> AnyArray:
        """The part of the estimated cost that is priced: [ghat]_+ or ghat."""

    def scored(self, Q: AnyArray, priced_cost: AnyArray, price: AnyArray) -> AnyArray:
        """The score of one action."""
