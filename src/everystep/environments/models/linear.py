"""Linear models on stored data, for states that no list can hold: least squares over what was seen.

    w_h = Lambda_h^-1 sum_tau phi_tau [r_tau + V_{h+1}(x'_tau)]              line 6
    Q_h = min{<w_h, phi> + beta ||phi||_{Lambda_h^-1}, cap}                  line 7

V_{h+1} is needed only at states x' that some episode arrived at. Each is given a slot, and with M (e, C), the sum of
phi_tau over arrivals in each slot, the sum over data is M V: the same plan as on finitely many states, whose list now
grows. A state seen again keeps its slot, so an environment with few states costs no more than a table.

Features come in two forms, told apart by their shapes:

    any      phi(x, a) for each action          F = A vectors a state, one Gram matrix              B = 1
    crossed  phi(x, a) = e_a (x) psi(x)         F = 1 vector a state, Lambda block diagonal         B = A

so that B F = A: with features as (e, F C), the product of B vectors and F C columns has a row for each action. Crossed
features then need A^2 times less time and memory than the same features written out.

T, the leading axis, is 1 (shared over steps) or H. Slots of step t hold states met at step t; their squared norms are
those of the estimator that judges them there. C is the capacity; when it is full, arrays are copied into twice as much.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from everystep.lsvi.costs.estimate import CostEstimate
from everystep.lsvi.radii import Radius, Scalar
from everystep.lsvi.regression.linalg import forward
from everystep.mdp.world import at_step


class Seen(NamedTuple):
    """The features a model needs of one episode of L steps, for one feature map. Rows after its end are zeros.

    here   (L, e)     phi(x, a) of what was done; psi(x) when crossed
    there  (e, F, L)  of the states arrived at, for every action
    """

    here: Float[Array, "L e"]
    there: Float[Array, "e F L"]


class Rows(NamedTuple):
    """One episode as stored data: for each step its estimator's step, action, outcome, and slot of the next state.

    A next state without a slot (the episode ended there, or the row is past its end) has a slot of C or more.
    """

    h: Any  # (L,)
    a: Any
    reward: Any
    cost: Any  # (L, m)
    slot: Any
    ended: Any
    live: Any  # whether the row is one of the episode
    value: Any  # what the value model needs: Seen, or points
    harm: Any  # and the cost model


class Blocks(NamedTuple):
    """Regularised Gram matrices Lambda, their inverses, and log det(Lambda / lam)."""

    matrix: Float[Array, "T B e e"]
    inverse: Float[Array, "T B e e"]
    log_det: Float[Array, "T B"]


class Slots(NamedTuple):
    """States arrived at: their features and squared norms in Lambda^-1; norms are None if made only when planning."""

    phi: Float[Array, "T e F C"]
    norm2: Float[Array, "T A C"] | None


def no_blocks(steps: int, blocks: int, e: int, lam: Scalar) -> Blocks:
    eye = jnp.broadcast_to(jnp.eye(e), (steps, blocks, e, e))
    return Blocks(eye * lam, eye / lam, jnp.zeros((steps, blocks)))


def no_slots(steps: int, actions: int, crossed: bool, e: int, capacity: int, keep_norms: bool) -> Slots:
    phi = jnp.zeros((steps, e, 1 if crossed else actions, capacity))
    return Slots(phi, jnp.zeros((steps, actions, capacity)) if keep_norms else None)


def by_block(blocks: Blocks, rows: Rows, here: Float[Array, "L e"]) -> Float[Array, "T B n e"]:
    """The rows of each Gram matrix: of its own step if there is one for each, of its own action if crossed."""
    T, B = blocks.log_det.shape
    own = jnp.ones((B, len(here)), bool) if B == 1 else rows.a[None] == jnp.arange(B, dtype=rows.a.dtype)[:, None]
    X = jnp.where(own[..., None], here[None], 0.0)  # (B, L, e)
    return X[None] if T == 1 else X.swapaxes(0, 1)[:, :, None]


def add(blocks: Blocks, X: Float[Array, "T B n e"]) -> tuple[Blocks, Float[Array, "T B n e"]]:
    """Lambda <- Lambda + X^T X by Woodbury, and U = L^-1 X Lambda^-1, by whose products squared norms fall."""

    def one(each: tuple[Array, ...]) -> tuple[Array, ...]:
        matrix, inverse, log_det, X = each
        XL = X @ inverse
        L = jnp.linalg.cholesky(jnp.eye(len(X)) + XL @ X.T)
        U = forward(L, XL)
        return matrix + X.T @ X, inverse - U.T @ U, log_det + 2 * jnp.log(jnp.diagonal(L)).sum(), U

    flat = lambda array: array.reshape(-1, *array.shape[2:])
    *new, U = lax.map(one, (*map(flat, blocks), flat(X)))  # one after another: see parts/gp_costs.py
    unflat = lambda array: array.reshape(*X.shape[:2], *array.shape[1:])
    return Blocks(*map(unflat, new)), unflat(U)


def refreshed(blocks: Blocks) -> Blocks:
    """The inverse made anew from Lambda, free of the rounding that many updates leave."""

    def one(matrix: Array) -> Array:
        half = forward(jnp.linalg.cholesky(matrix), jnp.eye(len(matrix)))
        return half.T @ half

    T, B, e, _ = blocks.matrix.shape
    inverse = lax.map(one, blocks.matrix.reshape(T * B, e, e))  # one after another: see parts/gp_costs.py
    return blocks._replace(inverse=inverse.reshape(T, B, e, e))


def norms(blocks: Blocks, phi: Float[Array, "T e F N"]) -> Float[Array, "T A N"]:
    """||phi||^2 in Lambda^-1, from nothing: O(N A e^2).

    One matrix at a time: the product of stacks of matrices, multiplied and summed in the same program, crashes XLA on a
    CPU at some sizes (jaxlib 0.10.2; one of 50 x 50 with 1024 columns is enough).
    """
    return _each_block(lambda inverse, flat: (flat * (inverse @ flat)).sum(0), blocks.inverse, phi)


def _each_block(one: Callable[[Array, Array], Array], matrices: Array, phi: Array) -> Float[Array, "T A N"]:
    """`one` of each (T, B) matrix and the features of its step as columns (e, F N), one after another."""
    T, e, F, N = phi.shape
    of_step = lambda each: lax.map(lambda matrix: one(matrix, each[1]), each[0])
    return lax.map(of_step, (matrices, phi.reshape(T, e, F * N))).reshape(T, -1, N)


def arrivals(T: int, rows: Rows, there: Array) -> tuple[Array, Array]:
    """Slots (T, n) and features (T, e, F, n) of states arrived at, by the step they are met at: one later."""
    if T == 1:
        return rows.slot[None], there[None]
    nowhere = jnp.full((1,), jnp.iinfo(rows.slot.dtype).max, rows.slot.dtype)
    slot = jnp.concatenate([nowhere, rows.slot[:-1]])[:, None]
    return slot, jnp.moveaxis(jnp.roll(there, 1, -1), -1, 0)[..., None]


def put(array: Array, slot: Int[Array, "T n"], new: Array, how: str) -> Array:
    """`array` (T, ..., C) with `new` (T, ..., n) set into, or added to, slots; one beyond the capacity is dropped."""
    return jax.vmap(lambda array, slot, new: getattr(array.at[..., slot], how)(new, mode="drop"))(array, slot, new)


def arrived(
    slots: Slots, blocks: Blocks, U: Float[Array, "T B n e"], rows: Rows, there: Float[Array, "e F L"]
) -> Slots:
    """Norms brought up to date by U, O(n C A e), and the states of an episode put into their slots."""
    slot, new = arrivals(len(slots.phi), rows, there)
    phi = put(slots.phi, slot, new, "set")
    if slots.norm2 is None:
        return Slots(phi, None)
    fallen = _each_block(lambda U, flat: ((U @ flat) ** 2).sum(0), U, slots.phi)
    norm2 = jnp.maximum(slots.norm2 - fallen, 0)
    return Slots(phi, put(norm2, slot, norms(blocks, new), "set"))


def grown(tree: Any, capacity: int) -> Any:
    """The same with room for `capacity` slots, along the last axis of every array."""
    more = lambda leaf: jnp.pad(leaf, [(0, 0)] * (leaf.ndim - 1) + [(0, capacity - leaf.shape[-1])])
    return jax.tree.map(more, tree)


def product(w: Any, phi: Any) -> Any:
    """<w, phi(x, a)>: (..., B, e) and (e, F, N) to (..., A, N), for NumPy and JAX arrays alike."""
    e, _, N = phi.shape
    return (w @ phi.reshape(e, -1)).reshape(*w.shape[:-2], -1, N)


class LinearDecision(NamedTuple):
    """What a plan decided, enough to judge an observation it never saw; NumPy arrays while acting.

    weights (H, ..., B, e), inverse (T, B, e, e), and the radius, by which norms are multiplied.
    """

    weights: Any
    inverse: Any
    radius: Any

    def judge(self, h: int, phi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean (..., A, n) and width (A, n) at step h, of features (e, F, n)."""
        w, inverse = at_step(self.weights, h), at_step(self.inverse, h)
        flat = phi.reshape(len(phi), -1)
        norm2 = (flat * (inverse @ flat)).sum(-2).reshape(-1, phi.shape[-1])
        return product(w, phi), self.radius * np.sqrt(np.maximum(norm2, 0))

    def learnt(self, h: int, phi: np.ndarray, a: int, y: np.ndarray) -> LinearDecision:
        """The same after one observation more, y (m,) at action a of features (e, F, 1): recursive least squares."""
        t, b = min(h, len(self.inverse) - 1), min(a, self.inverse.shape[1] - 1)
        x = phi[:, min(a, phi.shape[1] - 1), 0]
        gain = self.inverse[t, b] @ x
        size = 1 + x @ gain
        weights, inverse = self.weights.copy(), self.inverse.copy()
        weights[t, :, b] += np.outer(y - weights[t, :, b] @ x, gain) / size
        inverse[t, b] -= np.outer(gain, gain) / size
        return LinearDecision(weights, inverse, self.radius)


class StoredState(NamedTuple):
    """Lambda; sums of phi times reward, of phi, and of phi where episodes ended; slots; M; and the range of rewards."""

    blocks: Blocks
    rewards: Float[Array, "T B e"]
    steps: Float[Array, "T B e"]
    ends: Float[Array, "T B e"]
    slots: Slots
    M: Float[Array, "T e C"]
    by: Int[Array, "T C"]
    low: Float[Array, ""]
    high: Float[Array, ""]


class StoredFit(NamedTuple):
    state: StoredState
    known: Float[Array, "T B e"]  # sum of phi times the reward, scaled to [0, 1]
    nothing: Float[Array, ""]  # what a reward of 0 is on that scale: an ended episode earns it at every step left
    width: Float[Array, "T A C"]


class StoredLinear(NamedTuple):
    """The value model on stored data.

    Rewards are scaled to [0, 1] by the range kept in the state, exactly and whenever it changes, for the sum of
    phi (r - low) / (high - low) is made of two sums. An episode that ends before H earns 0 at each step left, on the
    same scale.
    Departures from the paper: episodes may end early; else none.
    """

    radius: Radius
    lam: Scalar
    cap: Scalar
    horizon: Scalar

    def init(
        self, steps: int, actions: int, crossed: bool, e: int, capacity: int, keep_norms: bool, scale: tuple[Any, Any]
    ) -> StoredState:
        B = actions if crossed else 1
        rewards, taken, ends = (jnp.zeros((steps, B, e)) for _ in range(3))  # apart: the state is updated in place
        return StoredState(
            no_blocks(steps, B, e, self.lam),
            rewards,
            taken,
            ends,
            no_slots(steps, actions, crossed, e, capacity, keep_norms),
            jnp.zeros((steps, e, capacity)),
            jnp.zeros((steps, capacity), jnp.int32),
            jnp.asarray(scale[0], float),
            jnp.asarray(scale[1], float),
        )

    def update(self, state: StoredState, rows: Rows) -> StoredState:
        here, there = rows.value
        X = by_block(state.blocks, rows, here)
        T, _, n, _ = X.shape
        blocks, U = add(state.blocks, X)
        of = lambda numbers: (X * numbers.reshape(*((1, 1, n) if T == 1 else (T, 1, 1)), 1)).sum(-2)
        slot, come_from = arrivals(T, rows, here.T)
        _, by = arrivals(T, rows, rows.a)
        return StoredState(
            blocks,
            state.rewards + of(rows.reward),
            state.steps + X.sum(-2),
            state.ends + of(rows.ended.astype(float)),
            arrived(state.slots, blocks, U, rows, there),
            put(state.M, slot, come_from, "add"),
            put(state.by, slot, by, "set"),
            state.low,
            state.high,
        )

    def grown(self, state: StoredState, capacity: int) -> StoredState:
        slots, M, by = grown((state.slots, state.M, state.by), capacity)
        return state._replace(slots=slots, M=M, by=by)

    def refreshed(self, state: StoredState) -> StoredState:
        return _refreshed(state)

    def log_det(self, state: StoredState) -> Float[Array, " T"]:
        return state.blocks.log_det.sum(1)

    def fit(self, state: StoredState, k: Int[Array, ""]) -> StoredFit:
        span = state.high - state.low
        known = (state.rewards - state.low * state.steps) / span
        return StoredFit(state, known, -state.low / span, self.radius.width(_norms(state), k))

    def weights(self, fit: StoredFit, h: Int[Array, ""], V_next: Float[Array, " C"]) -> Float[Array, "B e"]:
        """w_h, given V at the states that step h leads to."""
        state, B = fit.state, fit.known.shape[1]
        M, by = at_step(state.M, h + 1), at_step(state.by, h + 1)
        V = V_next[None] if B == 1 else jnp.where(by[None] == jnp.arange(B, dtype=by.dtype)[:, None], V_next[None], 0.0)
        V_ended = fit.nothing * (self.horizon - 1 - h.astype(float))  # of the steps left after h
        target = at_step(fit.known, h) + at_step(state.ends, h) * V_ended + (M @ V.T).T
        return (at_step(state.blocks.inverse, h) @ target[..., None])[..., 0]  # line 6

    def estimate(self, fit: StoredFit, h: Int[Array, ""], V_next: Float[Array, " C"]) -> Float[Array, "A C"]:
        w = self.weights(fit, h, V_next)
        mean = product(w, at_step(fit.state.slots.phi, h))
        return jnp.minimum(mean + at_step(fit.width, h), self.cap)  # line 7

    def decision(self, fit: StoredFit, V: Float[Array, "H C"], k: Int[Array, ""]) -> LinearDecision:
        """What a plan that came to V decided, for observations without a slot."""
        V_next = jnp.concatenate([V[1:], jnp.zeros_like(V[:1])])
        w = jax.vmap(lambda h, V: self.weights(fit, h, V))(jnp.arange(len(V)), V_next)
        return LinearDecision(w, fit.state.blocks.inverse, self.radius.width(jnp.ones(()), k))


class Nothing(NamedTuple):
    """The cost model of an agent that never looks at costs."""

    def init(self, actions: int, capacity: int) -> Float[Array, "1 1 A C"]:
        return jnp.zeros((1, 1, actions, capacity))

    def update(self, state: Array, rows: Rows) -> Array:
        return state

    def grown(self, state: Array, capacity: int) -> Array:
        return grown(state, capacity)

    def refreshed(self, state: Array) -> Array:
        return state

    def estimate(self, state: Array, k: Int[Array, ""]) -> CostEstimate:
        return CostEstimate(state, state)

    def decision(self, state: Array, k: Int[Array, ""]) -> None:
        return None


class StoredCostState(NamedTuple):
    blocks: Blocks
    moment: Float[Array, "T m B e"]
    slots: Slots


class StoredCosts(NamedTuple):
    """The cost model on stored data: theta = Lambda^-1 sum phi g for each constraint, one Lambda for all of them.

    Departures from the paper: none.
    """

    radius: Radius
    lam: Scalar

    def init(
        self, steps: int, constraints: int, actions: int, crossed: bool, e: int, capacity: int, keep_norms: bool
    ) -> StoredCostState:
        B = actions if crossed else 1
        return StoredCostState(
            no_blocks(steps, B, e, self.lam),
            jnp.zeros((steps, constraints, B, e)),
            no_slots(steps, actions, crossed, e, capacity, keep_norms),
        )

    def update(self, state: StoredCostState, rows: Rows) -> StoredCostState:
        here, there = rows.harm
        X = by_block(state.blocks, rows, here)
        y = rows.cost[None] if len(X) == 1 else rows.cost[:, None]  # (T, n, m)
        blocks, U = add(state.blocks, X)
        moment = state.moment + jnp.einsum("tbne,tnm->tmbe", X, y)
        return StoredCostState(blocks, moment, arrived(state.slots, blocks, U, rows, there))

    def grown(self, state: StoredCostState, capacity: int) -> StoredCostState:
        return state._replace(slots=grown(state.slots, capacity))

    def refreshed(self, state: StoredCostState) -> StoredCostState:
        return _refreshed(state)

    def theta(self, state: StoredCostState) -> Float[Array, "T m B e"]:
        return (state.blocks.inverse[:, None] @ state.moment[..., None])[..., 0]

    def estimate(self, state: StoredCostState, k: Int[Array, ""]) -> CostEstimate:
        width = self.radius.width(_norms(state), k)
        return CostEstimate(jax.vmap(product)(self.theta(state), state.slots.phi), width[:, None])

    def decision(self, state: StoredCostState, k: Int[Array, ""]) -> LinearDecision:
        return LinearDecision(self.theta(state), state.blocks.inverse, self.radius.width(jnp.ones(()), k))


def _norms(state: Any) -> Float[Array, "T A C"]:
    """Squared norms at all slots, kept or made now."""
    kept = state.slots.norm2
    return jnp.maximum(norms(state.blocks, state.slots.phi), 0) if kept is None else kept


def _refreshed(state: Any) -> Any:
    """The same with inverses made anew, and the norms that follow from them."""
    blocks, slots = refreshed(state.blocks), state.slots
    norm2 = None if slots.norm2 is None else norms(blocks, slots.phi)
    return state._replace(blocks=blocks, slots=slots._replace(norm2=norm2))
