"""Linear models on stored data, for environments whose states cannot be listed: least squares over past transitions.

    w_h = Lambda_h^-1 sum_tau phi_tau [r_tau + V_{h+1}(x'_tau)]              line 6
    Q_h = clip(<w_h, phi> + beta ||phi||_{Lambda_h^-1}, lowest, cap)         line 7

V_{h+1} is needed only at states x' that some episode arrived at. Each of them has a slot, and with M (e, C), the sum of
phi_tau over arrivals in each slot, the sum over data is M V: the same plan as on finitely many states, whose list now
grows. A state that is met again keeps its slot, so an environment with few states costs no more than a table.

Features come in two forms, distinguished by their shapes:

    any      phi(x, a) for each action          F = A vectors per state, one Gram matrix            B = 1
    crossed  phi(x, a) = e_a (x) psi(x)         F = 1 vector per state, Lambda block diagonal       B = A

so that B F = A: with features as (e, F C), the product of B vectors and F C columns has a row for each action. Crossed
features then need A^2 times less time and memory than the same features written out. Where actions have coordinates
there is a third form, in which a state keeps one vector whatever A is, and actions share what they learn:

    joint    phi(x, a) = M_a psi(x)             F = 1 vector per state, one Gram matrix            B = 1: `mixing.py`

T, the leading axis, is 1 (shared over steps) or H. Slots of step t hold states met at step t; their squared norms are
those of the estimator of that step. C is the capacity; when it is full, it is enlarged, up to a limit, where next
states that are close to each other share a slot (`SlotTable`). Lambda, rewards and costs stay exact sums over all
transitions, and V at a next state x' whose slot holds x is corrected to first order:

    V(x') = V(x) + <psi(x') - psi(x), u>            u = argmin_u sum_slots (V - <psi, u>)^2 + lam ||u||^2

so that the sum over data becomes M V + E u with E = sum_tau phi_tau (psi(x'_tau) - psi(x_tau))^T, exact for every V
that is linear in psi, and equal to M V while nothing was merged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from everystep.lsvi.costs.estimate import CostEstimate
from everystep.lsvi.protocols import Pytree
from everystep.lsvi.radii import Radius, Scalar, with_bonus
from everystep.lsvi.regression import linalg
from everystep.lsvi.regression.linalg import by_estimator
from everystep.mdp.world import AnyArray, at_step
from everystep.training.agent.models.mixing import Mixing
from everystep.training.agent.models.protocols import NO_SLOT, StoredSizes, TransitionRows, arrivals_by_step


class FeatureShape(NamedTuple):
    """Sizes of the features: A actions, vectors of length e, and whether phi(x, a) = e_a (x) psi(x), or M_a psi(x)."""

    actions: int
    crossed: bool
    e: int
    joint: bool = False

    @property
    def blocks(self) -> int:
        """B, the number of Gram matrices."""
        return self.actions if self.crossed else 1

    @property
    def vectors(self) -> int:
        """F, the number of feature vectors of a state."""
        return 1 if self.crossed or self.joint else self.actions


class EpisodeFeatures(NamedTuple):
    """The features of one episode of L steps, for one feature map. Rows of padding are zeros.

    here   (L, e)     phi(x, a) of each step; psi(x) when crossed
    there  (e, F, L)  of the states arrived at, for every action; psi(x) when crossed or joint
    """

    here: Float[Array, "L e"]
    there: Float[Array, "e F L"]


class Blocks(NamedTuple):
    """Regularised Gram matrices Lambda, their inverses, and log det(Lambda / lam)."""

    matrix: Float[Array, "T B e e"]
    inverse: Float[Array, "T B e e"]
    log_det: Float[Array, "T B"]


class Slots(NamedTuple):
    """States arrived at: features, and squared norms in Lambda^-1, which are None if computed only when planning."""

    phi: Float[Array, "T e F C"]
    norm2: Float[Array, "T A C"] | None


def empty_blocks(steps: int, blocks: int, e: int, lam: Scalar) -> Blocks:
    """Lambda = lam I."""
    eye = jnp.broadcast_to(jnp.eye(e), (steps, blocks, e, e))
    return Blocks(eye * lam, eye / lam, jnp.zeros((steps, blocks)))


def empty_slots(shape: FeatureShape, sizes: StoredSizes) -> Slots:
    """No states yet. Norms are kept up to date where that takes less time than computing them for every plan."""
    T, C = sizes.steps, sizes.capacity
    keep_norms = sizes.plans_every_episode and sizes.length < shape.e
    phi = jnp.zeros((T, shape.e, shape.vectors, C))
    return Slots(phi, jnp.zeros((T, shape.actions, C)) if keep_norms else None)


def rows_by_block(blocks: Blocks, rows: TransitionRows, here: Float[Array, "L e"]) -> Float[Array, "T B n e"]:
    """The rows that each Gram matrix sums: those of its step if there is one per step, of its action if crossed."""
    T, B = blocks.log_det.shape
    own = jnp.ones((B, len(here)), bool) if B == 1 else rows.a[None] == jnp.arange(B, dtype=rows.a.dtype)[:, None]
    X = jnp.where(own[..., None], here[None], 0.0)  # (B, L, e)
    return X[None] if T == 1 else X.swapaxes(0, 1)[:, :, None]


def with_rows(blocks: Blocks, X: Float[Array, "T B n e"]) -> tuple[Blocks, Float[Array, "T B n e"]]:
    """Lambda <- Lambda + X^T X by Woodbury, and U = L^-1 X Lambda^-1: norms^2 decrease by (U phi)^2."""

    def one(each: tuple[Array, ...]) -> tuple[Array, ...]:
        matrix, inverse, log_det, X = each
        inverse, U, grown = linalg.with_rows(inverse, X)
        return matrix + X.T @ X, inverse, log_det + grown, U

    flat = lambda array: array.reshape(-1, *array.shape[2:])
    *new, U = lax.map(one, (*map(flat, blocks), flat(X)))  # one at a time: see lsvi/regression/linalg.py
    unflat = lambda array: array.reshape(*X.shape[:2], *array.shape[1:])
    return Blocks(*map(unflat, new)), unflat(U)


def with_fresh_inverse(blocks: Blocks) -> Blocks:
    """The inverse computed from Lambda again, without the rounding errors of many updates."""

    def one(matrix: Array) -> Array:
        half = linalg.forward(jnp.linalg.cholesky(matrix), jnp.eye(len(matrix)))
        return half.T @ half

    T, B, e, _ = blocks.matrix.shape
    inverse = lax.map(one, blocks.matrix.reshape(T * B, e, e))  # one at a time: see lsvi/regression/linalg.py
    return blocks._replace(inverse=inverse.reshape(T, B, e, e))


def squared_norms(blocks: Blocks, phi: Float[Array, "T e F N"], mixing: Mixing | None = None) -> Float[Array, "T A N"]:
    """||phi||^2 in Lambda^-1, computed from Lambda^-1: O(N A e^2).

    One matrix at a time: the product of stacks of matrices, multiplied and summed in the same program, crashes XLA on a
    CPU at some sizes (jaxlib 0.10.2; one of 50 x 50 with 1024 columns is enough).
    """
    return _each_block(lambda inverse, flat: (flat * (inverse @ flat)).sum(0), blocks.inverse, phi, mixing)


def _each_block(
    one: Callable[[Array, Array], Array], matrices: Array, phi: Array, mixing: Mixing | None
) -> Float[Array, "T A N"]:
    """`one` for each (T, B) matrix and the features of its step as columns (e, F N), one at a time."""
    T, e, F, N = phi.shape
    if mixing is not None:
        of_actions = lambda each: mixing.each_action(lambda flat: one(each[0][0], flat), each[1])
        return lax.map(of_actions, (matrices, phi[:, :, 0]))
    of_step = lambda each: lax.map(lambda matrix: one(matrix, each[1]), each[0])
    return lax.map(of_step, (matrices, phi.reshape(T, e, F * N))).reshape(T, -1, N)


def into_slots(array: Array, slot: Int[Array, "T n"], new: Array, how: str) -> Array:
    """`array` (T, ..., C) with `new` (T, ..., n) written or added to its slots; slots beyond C are ignored."""
    return jax.vmap(lambda array, slot, new: getattr(array.at[..., slot], how)(new, mode="drop"))(array, slot, new)


def with_arrivals(
    slots: Slots,
    blocks: Blocks,
    U: Float[Array, "T B n e"],
    rows: TransitionRows,
    there: Float[Array, "e F L"],
    mixing: Mixing | None,
) -> Slots:
    """The slots after an episode: norms updated by U, O(n C A e), and the states arrived at."""
    slot, new = arrivals_by_step(len(slots.phi), rows.own_slot, there)
    phi = into_slots(slots.phi, slot, new, "set")
    if slots.norm2 is None:
        return Slots(phi, None)
    fallen = _each_block(lambda U, flat: ((U @ flat) ** 2).sum(0), U, slots.phi, mixing)
    norm2 = jnp.maximum(slots.norm2 - fallen, 0)
    return Slots(phi, into_slots(norm2, slot, squared_norms(blocks, new, mixing), "set"))


def with_capacity(tree: Pytree, capacity: int) -> Pytree:
    """The same with `capacity` slots along the last axis of every array."""
    more = lambda leaf: jnp.pad(leaf, [(0, 0)] * (leaf.ndim - 1) + [(0, capacity - leaf.shape[-1])])
    return jax.tree.map(more, tree)


def state_features(phi: Float[Array, "e F *N"]) -> Float[Array, "e *N"]:
    """psi(x): the features of a state, or their mean over actions."""
    return phi[:, 0] if phi.shape[1] == 1 else phi.mean(1)


def merged_slots(slots: Slots, keep: np.ndarray) -> Slots:
    """The slots `keep` alone; the others are empty again."""
    return jax.tree.map(lambda leaf: _chosen(leaf, keep), slots)


def _chosen(leaf: Array, keep: np.ndarray) -> Array:
    """The entries `keep` of the last axis first, then zeros."""
    array = np.asarray(leaf)
    new = np.zeros_like(array)
    new[..., : len(keep)] = array[..., keep]
    return jnp.asarray(new)


def inner_products(w: AnyArray, phi: AnyArray, mixing: Mixing | None = None) -> AnyArray:
    """<w, phi(x, a)>: (..., B, e) and (e, F, N) to (..., A, N), for NumPy and JAX arrays alike."""
    e, _, N = phi.shape
    w = w if mixing is None else mixing.weights(w)
    return (w @ phi.reshape(e, -1)).reshape(*w.shape[:-2], -1, N)


LEARNT = ("weights", "inverse", "radius")  # of a predictor


class LinearPredictor(NamedTuple):
    """The linear model of a plan, evaluated at any observation; NumPy arrays while acting.

    weights (H, ..., B, e), inverse (T, B, e, e), and the radius, by which norms are multiplied.
    """

    weights: AnyArray
    inverse: AnyArray
    radius: AnyArray
    mixing: Mixing | None = None

    def predict(self, h: int, phi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean (..., A, n) and width (A, n) at step h, of features (e, F, n)."""
        w, inverse = at_step(self.weights, h), at_step(self.inverse, h)
        if self.mixing is not None:
            mean, norm2 = self.mixing.predict(w, None if self.radius == 0 else inverse[0], phi[:, 0])
            return mean, self.radius * np.sqrt(norm2)
        if self.radius == 0:  # as the values of policies have it: the norms, which take most of the time, do not matter
            return inner_products(w, phi), np.zeros((len(inverse) * phi.shape[1], phi.shape[2]))
        flat = phi.reshape(len(phi), -1)
        norm2 = (flat * (inverse @ flat)).sum(-2).reshape(-1, phi.shape[-1])
        return inner_products(w, phi), self.radius * np.sqrt(np.maximum(norm2, 0))

    def updated(self, h: int, phi: np.ndarray, a: int, y: np.ndarray) -> LinearPredictor:
        """The same after one more observation, y (m,) at action a of features (e, F, 1): recursive least squares."""
        t, b = min(h, len(self.inverse) - 1), min(a, self.inverse.shape[1] - 1)
        x = phi[:, min(a, phi.shape[1] - 1), 0] if self.mixing is None else self.mixing.of_action(phi[:, 0], a)[:, 0]
        gain = self.inverse[t, b] @ x
        size = 1 + x @ gain
        weights, inverse = self.weights.copy(), self.inverse.copy()
        weights[t, :, b] += np.outer(y - weights[t, :, b] @ x, gain) / size
        inverse[t, b] -= np.outer(gain, gain) / size
        return LinearPredictor(weights, inverse, self.radius, self.mixing)

    def without_width(self) -> LinearPredictor:
        return self._replace(radius=0.0)

    def rescaled(self, factor: float | np.ndarray) -> LinearPredictor:
        """The same as if every target had been multiplied by `factor`, which has the axes of (..., B, e) or none."""
        return self._replace(weights=self.weights * factor)

    def arrays(self) -> dict[str, np.ndarray]:
        """The fields, by name, but the mixing, which the encoder has."""
        return {name: np.asarray(getattr(self, name)) for name in LEARNT}

    def fits(self, shape: FeatureShape, horizon: int, outputs: tuple[int, ...]) -> bool:
        """Whether the arrays have the shapes of these features, of H steps, and of (m,) or () outputs."""
        B, e, steps = shape.blocks, shape.e, (1, horizon)
        return (
            np.shape(self.radius) == ()
            and np.shape(self.weights)[1:] == (*outputs, B, e)
            and np.shape(self.inverse)[1:] == (B, e, e)
            and len(self.weights) in steps
            and len(self.inverse) in steps
        )


class LinearValueState(NamedTuple):
    """Lambda; sums of phi times reward, of phi, and of phi where episodes ended; slots; M; and the range of rewards.

    by (T, C)  the action that led to each slot; with crossed features a slot belongs to a state and that action
    moved      E, by which next states differ from the states of their slots; empty while every state has its own slot
    """

    blocks: Blocks
    rewards: Float[Array, "T B e"]
    steps: Float[Array, "T B e"]
    ends: Float[Array, "T B e"]
    slots: Slots
    M: Float[Array, "T e C"]
    by: Int[Array, "T C"]
    low: Float[Array, ""]
    high: Float[Array, ""]
    moved: Float[Array, "merged B e e"]  # merged is 0 or 1


class LinearValueFit(NamedTuple):
    state: LinearValueState
    known: Float[Array, "T B e"]  # sum of phi times the reward, scaled to [0, 1]
    nothing: Float[Array, ""]  # a reward of 0 on that scale, which an ended episode earns at every step left
    width: Float[Array, "T A C"]
    correction: Float[Array, "B e e"] | None  # E (sum psi psi^T + lam I)^-1, to be multiplied by sum psi V


class StoredLinearValues(NamedTuple):
    """The linear value model on stored data.

    Rewards are scaled to [0, 1] by the range in the state. This is exact whenever the range changes, because the sum of
    phi (r - low) / (high - low) is computed from two sums. An episode that ends before H earns a reward of 0, on the
    same scale, at each step left.
    Departures from the paper: episodes may end early; beyond a number of states, those close to each other share their
    V, with a correction (see the module); Q is also at least `lowest`, as in `lsvi/values/linear.py`.
    """

    radius: Radius
    lam: Scalar
    cap: Scalar
    lowest: Scalar
    horizon: Scalar
    mixing: Mixing | None = None

    @property
    def learns_from_plans(self) -> bool:
        return False

    def init(self, shape: FeatureShape, sizes: StoredSizes, reward_scale: tuple[float, float]) -> LinearValueState:
        T, C = sizes.steps, sizes.capacity
        B, e = shape.blocks, shape.e
        rewards, taken, ends = (jnp.zeros((T, B, e)) for _ in range(3))  # separate: the state is updated in place
        low, high = (jnp.asarray(each, float) for each in reward_scale)
        return LinearValueState(
            blocks=empty_blocks(T, B, e, self.lam),
            rewards=rewards,
            steps=taken,
            ends=ends,
            slots=empty_slots(shape, sizes),
            M=jnp.zeros((T, e, C)),
            by=jnp.zeros((T, C), jnp.int32),
            low=low,
            high=high,
            moved=jnp.zeros((0, B, e, e)),
        )

    def update(self, state: LinearValueState, rows: TransitionRows) -> LinearValueState:
        here, there = rows.value_inputs
        X = rows_by_block(state.blocks, rows, here)
        T, _, n, _ = X.shape
        blocks, U = with_rows(state.blocks, X)
        weighted = lambda numbers: (X * numbers.reshape(*((1, 1, n) if T == 1 else (T, 1, 1)), 1)).sum(-2)
        slot, come_from = arrivals_by_step(T, rows.slot, here.T)
        _, by = arrivals_by_step(T, rows.slot, rows.a)
        slots, moved = with_arrivals(state.slots, blocks, U, rows, there, self.mixing), state.moved
        if len(moved):  # T = 1
            psi, at = state_features(there), jnp.clip(rows.slot, 0, state.by.shape[1] - 1)
            from_slot = jnp.where(rows.slot < NO_SLOT, psi - state_features(slots.phi[0])[:, at], 0.0)
            moved = moved + jnp.einsum("bne,fn->bef", X[0], from_slot)[None]
        return state._replace(
            blocks=blocks,
            rewards=state.rewards + weighted(rows.reward),
            steps=state.steps + X.sum(-2),
            ends=state.ends + weighted(rows.ended.astype(float)),
            slots=slots,
            M=into_slots(state.M, slot, come_from, "add"),
            by=into_slots(state.by, slot, by, "set"),
            moved=moved,
        )

    def merged(self, state: LinearValueState, keep: np.ndarray, into: np.ndarray) -> LinearValueState:
        M, by, psi = np.array(state.M[0]), np.asarray(state.by[0]), np.asarray(state_features(state.slots.phi[0]))
        B, e = state.rewards.shape[1:]
        moved = np.array(state.moved[0]) if len(state.moved) else np.zeros((B, e, e))
        n = len(into)
        by_block = M[None, :, :n] * ((by[:n] == np.arange(B)[:, None])[:, None] if B > 1 else 1)
        moved += by_block @ (psi[:, :n] - psi[:, keep[into]]).T
        merged = np.zeros_like(M)
        np.add.at(merged.T, into, M[:, :n].T)
        return state._replace(
            slots=merged_slots(state.slots, keep),
            M=jnp.asarray(merged)[None],
            by=_chosen(state.by, keep),
            moved=jnp.asarray(moved)[None],
        )

    def enlarged(self, state: LinearValueState, capacity: int) -> LinearValueState:
        slots, M, by = with_capacity((state.slots, state.M, state.by), capacity)
        return state._replace(slots=slots, M=M, by=by)

    def refreshed(self, state: LinearValueState) -> LinearValueState:
        return _with_fresh_inverses(state, self.mixing)

    def log_det(self, state: LinearValueState) -> Float[Array, " T"]:
        return state.blocks.log_det.sum(1)

    def fit(
        self, state: LinearValueState, k: Int[Array, ""], bonus: Float[Array, "H A C"] | None = None
    ) -> LinearValueFit:
        span = state.high - state.low
        known = (state.rewards - state.low * state.steps) / span
        width = with_bonus(self.radius.width(_slot_norms(state, self.mixing), k), bonus)
        return LinearValueFit(state, known, -state.low / span, width, self._correction(state))

    def _correction(self, state: LinearValueState) -> Float[Array, "B e e"] | None:
        if not len(state.moved):
            return None
        psi = state_features(state.slots.phi[0])
        factor = jnp.linalg.cholesky(psi @ psi.T + self.lam * jnp.eye(len(psi)))
        half = linalg.forward(factor, jnp.eye(len(psi)))
        return state.moved[0] @ (half.T @ half)

    def _sum_over_data(self, fit: LinearValueFit, h: Int[Array, ""], V: Float[Array, " C"]) -> Float[Array, "B e"]:
        """sum_tau phi_tau V(x'_tau), for each block."""
        state, B = fit.state, fit.known.shape[1]
        M, by = at_step(state.M, h + 1), at_step(state.by, h + 1)
        of_block = V[None] if B == 1 else jnp.where(by[None] == jnp.arange(B, dtype=by.dtype)[:, None], V[None], 0.0)
        total = (M @ of_block.T).T
        if fit.correction is None:
            return total
        return total + fit.correction @ (state_features(state.slots.phi[0]) @ V)

    def weights(self, fit: LinearValueFit, h: Int[Array, ""], V_next: Float[Array, " C"]) -> Float[Array, "B e"]:
        """w_h, given V at the states that step h leads to."""
        state = fit.state
        V_ended = fit.nothing * (self.horizon - 1 - h.astype(float))  # of the steps left after h
        known = at_step(fit.known, h) + at_step(state.ends, h) * V_ended
        target = known + self._sum_over_data(fit, h, V_next)
        return (at_step(state.blocks.inverse, h) @ target[..., None])[..., 0]  # line 6

    def harm_weights(self, fit: LinearValueFit, h: Int[Array, ""], C_next: Float[Array, " C"]) -> Float[Array, "B e"]:
        """The weights of the mean of C at the next state, which is 0 where an episode ended."""
        return (at_step(fit.state.blocks.inverse, h) @ self._sum_over_data(fit, h, C_next)[..., None])[..., 0]

    def expect(self, fit: LinearValueFit, h: Int[Array, ""], C_next: Float[Array, " C"]) -> Float[Array, "A C"]:
        return inner_products(self.harm_weights(fit, h, C_next), at_step(fit.state.slots.phi, h), self.mixing)

    def estimate(self, fit: LinearValueFit, h: Int[Array, ""], V_next: Float[Array, " C"]) -> Float[Array, "A C"]:
        w = self.weights(fit, h, V_next)
        mean = inner_products(w, at_step(fit.state.slots.phi, h), self.mixing)
        return (mean + at_step(fit.width, h)).clip(self.lowest, self.cap)  # line 7

    def predictor(self, fit: LinearValueFit, V: Float[Array, "H C"], k: Int[Array, ""]) -> LinearPredictor:
        """The weights of a plan that ended with V, for observations without a slot."""
        V_next = jnp.concatenate([V[1:], jnp.zeros_like(V[:1])])
        w = jax.vmap(lambda h, V: self.weights(fit, h, V))(jnp.arange(len(V)), V_next)
        return LinearPredictor(w, fit.state.blocks.inverse, self.radius.width(jnp.ones(()), k), self.mixing)

    def harm_predictor(
        self, fit: LinearValueFit, C: Float[Array, "H C"], k: Int[Array, ""], radius: Radius | None
    ) -> LinearPredictor:
        """The mean of the harm-to-go at the next state, of a plan that ended with C; a width only with a radius."""
        C_next = jnp.concatenate([C[1:], jnp.zeros_like(C[:1])])
        w = jax.vmap(lambda h, C: self.harm_weights(fit, h, C))(jnp.arange(len(C)), C_next)
        width = jnp.zeros(()) if radius is None else radius.width(jnp.ones(()), k)
        return LinearPredictor(w, fit.state.blocks.inverse, width, self.mixing)

    def squared_norms(self, state: LinearValueState, V_next: Array | None = None) -> Float[Array, "T A C"]:
        """||phi||^2_{Lambda^-1} at all slots."""
        return _slot_norms(state, self.mixing)


@runtime_checkable
class HasActions(Protocol):
    """The sizes of any encoder's inputs."""

    @property
    def actions(self) -> int: ...


class NoCosts(NamedTuple):
    """The cost model of an agent that never looks at costs."""

    def init(self, shape: HasActions, sizes: StoredSizes) -> Float[Array, "1 1 A C"]:
        return jnp.zeros((1, 1, shape.actions, sizes.capacity))

    def update(self, state: Array, rows: TransitionRows) -> Array:
        return state

    def enlarged(self, state: Array, capacity: int) -> Array:
        return with_capacity(state, capacity)

    def refreshed(self, state: Array) -> Array:
        return state

    def merged(self, state: Array, keep: np.ndarray, into: np.ndarray) -> Array:
        return state

    def rescaled(self, state: Array, factor: np.ndarray) -> Array:
        return state

    def estimate(self, state: Array, k: Int[Array, ""]) -> CostEstimate:
        return CostEstimate(state, state)

    def predictor(self, state: Array, k: Int[Array, ""]) -> None:
        return None


class LinearCostState(NamedTuple):
    blocks: Blocks
    moment: Float[Array, "T m B e"]
    slots: Slots


class StoredLinearCosts(NamedTuple):
    """The linear cost model on stored data: theta = Lambda^-1 sum phi g for each constraint, one Lambda for all.

    Departures from the paper: none.
    """

    radius: Radius
    lam: Scalar
    mixing: Mixing | None = None

    def init(self, shape: FeatureShape, sizes: StoredSizes) -> LinearCostState:
        T, B, e = sizes.steps, shape.blocks, shape.e
        return LinearCostState(
            empty_blocks(T, B, e, self.lam),
            jnp.zeros((T, sizes.constraints, B, e)),
            empty_slots(shape, sizes),
        )

    def update(self, state: LinearCostState, rows: TransitionRows) -> LinearCostState:
        here, there = rows.cost_inputs
        X = rows_by_block(state.blocks, rows, here)
        y = by_estimator(len(X), rows.cost)  # (T, n, m)
        blocks, U = with_rows(state.blocks, X)
        moment = state.moment + jnp.einsum("tbne,tnm->tmbe", X, y)
        return LinearCostState(blocks, moment, with_arrivals(state.slots, blocks, U, rows, there, self.mixing))

    def enlarged(self, state: LinearCostState, capacity: int) -> LinearCostState:
        return state._replace(slots=with_capacity(state.slots, capacity))

    def refreshed(self, state: LinearCostState) -> LinearCostState:
        return _with_fresh_inverses(state, self.mixing)

    def merged(self, state: LinearCostState, keep: np.ndarray, into: np.ndarray) -> LinearCostState:
        return state._replace(slots=merged_slots(state.slots, keep))

    def rescaled(self, state: LinearCostState, factor: np.ndarray) -> LinearCostState:
        return state._replace(moment=state.moment * factor[None, :, None, None])

    def theta(self, state: LinearCostState) -> Float[Array, "T m B e"]:
        return (state.blocks.inverse[:, None] @ state.moment[..., None])[..., 0]

    def estimate(self, state: LinearCostState, k: Int[Array, ""]) -> CostEstimate:
        width = self.radius.width(_slot_norms(state, self.mixing), k)
        mean = jax.vmap(lambda w, phi: inner_products(w, phi, self.mixing))(self.theta(state), state.slots.phi)
        return CostEstimate(mean, width[:, None])

    def predictor(self, state: LinearCostState, k: Int[Array, ""]) -> LinearPredictor:
        radius = self.radius.width(jnp.ones(()), k)
        return LinearPredictor(self.theta(state), state.blocks.inverse, radius, self.mixing)


Learnt = TypeVar("Learnt", LinearValueState, LinearCostState)


def _slot_norms(state: LinearValueState | LinearCostState, mixing: Mixing | None) -> Float[Array, "T A C"]:
    """Squared norms at all slots, kept or computed now."""
    kept = state.slots.norm2
    return jnp.maximum(squared_norms(state.blocks, state.slots.phi, mixing), 0) if kept is None else kept


def _with_fresh_inverses(state: Learnt, mixing: Mixing | None) -> Learnt:
    """The same with inverses computed again, and the norms that follow from them."""
    blocks, slots = with_fresh_inverse(state.blocks), state.slots
    norm2 = None if slots.norm2 is None else squared_norms(blocks, slots.phi, mixing)
    return state._replace(blocks=blocks, slots=slots._replace(norm2=norm2))
