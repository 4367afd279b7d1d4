"""Kernel models on stored data: Q (KOVI) and costs (Gaussian processes) in the space of a kernel, at observed points.

    mean(y) = k_y^T (K + lam I)^-1 c        var(y) = k(y, y) - k_y^T (K + lam I)^-1 k_y
    Q_h = clip(mean with c = r + V_{h+1}(x'), plus beta lam^-1/2 sqrt(var), lowest, cap)    KOVI (Yang et al. 2020)

With L L^T = K + lam I and W = L^-1 K(points, slots), the mean at all slots is (L^-1 c)^T W and the variance there is
k - sum W^2, so new targets cost O(C^2 A); an episode adds rows to L and W, and columns to W. Everything is dense and
grows as A C^2: for thousands of transitions. For more, `features.fourier` is the RBF kernel at a fixed size.

With the linear kernel this is the linear model: var = lam ||phi||^2 in Lambda^-1, hence lam^-1/2 above. T, slots and
their steps are those of `linear.py`. C is the capacity of points and of slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from everystep.kernels import Kernel, Point, diagonal, gram
from everystep.lsvi.costs.estimate import CostEstimate
from everystep.lsvi.protocols import Pytree
from everystep.lsvi.radii import Radius, Scalar, with_bonus
from everystep.lsvi.regression.linalg import by_estimator, forward
from everystep.mdp.world import AnyArray, at_step
from everystep.training.agent.models.protocols import StoredSizes, TransitionRows, arrivals_by_step


class PointShape(NamedTuple):
    """Sizes of the points: A actions, and the length of each named coordinate."""

    actions: int
    coordinates: dict[str, int]


class EpisodePoints(NamedTuple):
    """Named points of one episode: of each step (L, d), and of the states arrived at, for every action (A, L, d)."""

    here: Point
    there: Point


class Core(NamedTuple):
    """Observed points, the factor of K + lam I (the identity where unused), and its products with the slots."""

    points: Point  # (T, C, d)
    L: Float[Array, "T C C"]
    slots: Point  # (T, A, C, d)
    W: Float[Array, "T C A C"]
    var: Float[Array, "T A C"]
    used: Int[Array, " T"]
    log_det: Float[Array, " T"]  # of I + K / lam


class Added(NamedTuple):
    """What n new points add to the factor: see `with_episode`."""

    B: Float[Array, "T C n"]
    M: Float[Array, "T n n"]
    at: Int[Array, " T"]


def empty_core(shape: PointShape, sizes: StoredSizes) -> Core:
    """No points and no slots."""
    T, A, C = sizes.steps, shape.actions, sizes.capacity
    empty = lambda *axes: {name: jnp.zeros((*axes, d)) for name, d in shape.coordinates.items()}
    return Core(
        points=empty(T, C),
        L=jnp.broadcast_to(jnp.eye(C), (T, C, C)) + 0.0,
        slots=empty(T, A, C),
        W=jnp.zeros((T, C, A, C)),
        var=jnp.ones((T, A, C)),
        used=jnp.zeros(T, jnp.int32),
        log_det=jnp.zeros(T),
    )


def with_capacity(core: Core, capacity: int) -> Core:
    """The same with `capacity` points and slots."""
    more = capacity - core.L.shape[-1]
    wide = lambda array, *axes: jnp.pad(array, [(0, more if i in axes else 0) for i in range(array.ndim)])
    C = core.L.shape[-1]
    new = jnp.arange(capacity, dtype=jnp.int32) >= C
    return Core(
        jax.tree.map(lambda leaf: wide(leaf, 1), core.points),
        wide(core.L, 1, 2) + jnp.diag(new.astype(float))[None],
        jax.tree.map(lambda leaf: wide(leaf, 2), core.slots),
        wide(core.W, 1, 3),
        wide(core.var, 2),
        core.used,
        core.log_det,
    )


def with_episode(
    kernel: Kernel, lam: Scalar, core: Core, rows: TransitionRows, inputs: EpisodePoints
) -> tuple[Core, Added]:
    """Points and slots of an episode: new rows [B^T, M] of L with M M^T = K(new, new) + lam I - B^T B, and their W.

    A row of padding becomes a row of the identity, and the next episode overwrites it.
    """
    T, C = core.L.shape[:2]
    here, live = jax.tree.map(partial(by_estimator, T), (inputs.here, rows.live))
    names = list(inputs.there)
    moved = {
        name: arrivals_by_step(T, rows.slot, jnp.moveaxis(inputs.there[name], -1, 1)) for name in names
    }  # (A, d, L) inside
    slot = moved[names[0]][0]
    there = {name: jnp.moveaxis(each, 2, -1) for name, (_, each) in moved.items()}  # (T, A, n, d)

    def one(each: Pytree) -> Pytree:
        points, L, slots, W, var, used, log_det, new, live, slot, there = each
        n, A = len(live), var.shape[0]
        fresh_points = live.sum(dtype=jnp.int32)
        seen_before = (jnp.arange(C, dtype=jnp.int32) < used)[:, None]
        B = forward(L, jnp.where(seen_before & live[None], gram(kernel, points, new), 0.0))
        both = live[:, None] & live[None]
        K = jnp.where(both, gram(kernel, new, new), 0.0) + jnp.diag(jnp.where(live, lam, 1.0))
        M = jnp.linalg.cholesky(K - B.T @ B)
        at = lambda old, rows: lax.dynamic_update_slice_in_dim(old, rows, used, 0)
        points = jax.tree.map(at, points, new)
        L = at(L, lax.dynamic_update_slice_in_dim(B.T, M, used, 1))
        flat = lambda array: jax.tree.map(lambda leaf: leaf.reshape(-1, leaf.shape[-1]), array)
        unfolded = W.reshape(C, -1)
        k = jnp.where(live[:, None], gram(kernel, new, flat(slots)), 0.0)
        more = forward(M, k - B.T @ unfolded)
        W = at(unfolded, more).reshape(W.shape)
        var = var - (more**2).sum(0).reshape(var.shape)
        # the states arrived at, with the new factor
        in_use = (jnp.arange(C, dtype=jnp.int32) < used + fresh_points)[:, None]
        fresh = forward(L, jnp.where(in_use, gram(kernel, points, flat(there)), 0.0))
        put_in = lambda old, new: old.at[..., slot].set(new, mode="drop")
        W = put_in(W, fresh.reshape(C, A, n))
        var = put_in(var, (diagonal(kernel, flat(there)) - (fresh**2).sum(0)).reshape(A, n))
        slots = jax.tree.map(lambda old, new: old.at[:, slot].set(new, mode="drop"), slots, there)
        gained = 2 * jnp.where(live, jnp.log(jnp.diagonal(M)), 0.0).sum() - fresh_points.astype(float) * jnp.log(lam)
        return Core(points, L, slots, W, var, used + fresh_points, log_det + gained), Added(B, M, used)

    return lax.map(one, (*core, here, live, slot, there))


class KernelPredictor(NamedTuple):
    """The kernel model of a plan, evaluated at any point: targets whitened by L, (T or H, C, m), and the radius."""

    kernel: Kernel
    points: Point
    L: AnyArray
    z: AnyArray
    used: AnyArray
    radius: AnyArray

    def predict(self, h: int, points: Point) -> tuple[np.ndarray, np.ndarray]:
        """Mean (m, A, n), or (A, n) where z has no m, and width (A, n), of named points (A, n, d)."""
        z, L, used = (np.asarray(at_step(each, h)) for each in (self.z, self.L, self.used))
        own = jax.tree.map(lambda leaf: at_step(leaf, h), self.points)
        with jax.enable_x64(True):
            mean, var = _posterior(self.kernel, own, L, z, used, points)
        return np.asarray(mean), float(self.radius) * np.sqrt(np.maximum(np.asarray(var), 0))

    def without_width(self) -> KernelPredictor:
        return self  # mean and width come from one product

    def rescaled(self, factor: float | np.ndarray) -> KernelPredictor:
        """The same as if every target had been multiplied by `factor`, one number."""
        return self._replace(z=self.z * factor)

    def arrays(self) -> dict[str, np.ndarray]:
        """The fields but the kernel, by name; each coordinate of the points is one array."""
        points = {f"points_{name}": np.asarray(value) for name, value in self.points.items()}
        return points | {name: np.asarray(getattr(self, name)) for name in ("L", "z", "used", "radius")}

    def fits(self, shape: PointShape, horizon: int, outputs: tuple[int, ...]) -> bool:
        """Whether the arrays have the shapes of these points, of H steps, and of (m,) or () outputs."""
        if np.ndim(self.L) != 3 or np.ndim(self.used) != 1:
            return False
        C, steps = np.shape(self.L)[1], (1, horizon)
        lengths = {len(each) for each in (self.L, self.z, self.used, *self.points.values())}
        return (
            np.shape(self.radius) == ()
            and np.shape(self.L)[1:] == (C, C)
            and np.shape(self.z)[1:] == (C, *outputs)
            and all(np.shape(self.points[name])[1:] == (C, d) for name, d in shape.coordinates.items())
            and lengths <= set(steps)
            and bool((np.asarray(self.used) >= 0).all() and (np.asarray(self.used) <= C).all())
        )

    @classmethod
    def from_arrays(
        cls, kernel: Kernel, coordinates: Iterable[str], arrays: Mapping[str, np.ndarray]
    ) -> KernelPredictor:
        """The inverse of `arrays`."""
        points = {name: arrays[f"points_{name}"] for name in coordinates}
        return cls(kernel, points, *(arrays[name] for name in ("L", "z", "used", "radius")))


@jax.jit
def _posterior(kernel: Kernel, points: Point, L: Array, z: Array, used: Array, at: Point) -> tuple[Array, Array]:
    A, n = jax.tree.leaves(at)[0].shape[:2]
    flat = jax.tree.map(lambda leaf: leaf.reshape(A * n, -1), at)
    k = jnp.where((jnp.arange(len(L), dtype=jnp.int32) < used)[:, None], gram(kernel, points, flat), 0.0)
    W = forward(L, k)
    return (z.T @ W).reshape(*z.shape[1:], A, n), (diagonal(kernel, flat) - (W**2).sum(0)).reshape(A, n)


def _whitened(core: Core, h: Int[Array, ""], y: Float[Array, " C"]) -> Float[Array, " C"]:
    """L^-1 y, of the targets y at the points in use."""
    live = jnp.arange(len(y), dtype=jnp.int32) < at_step(core.used, h)
    return forward(at_step(core.L, h), jnp.where(live, y, 0.0)[:, None])[:, 0]


class KernelValueState(NamedTuple):
    """The core, and for every point its reward, the slot it led to (-1: none), and whether the episode ended there."""

    core: Core
    reward: Float[Array, "T C"]
    next: Int[Array, "T C"]
    ended: Bool[Array, "T C"]
    low: Float[Array, ""]
    high: Float[Array, ""]


class KernelValueFit(NamedTuple):
    state: KernelValueState
    width: Float[Array, "T A C"]


class StoredKernelValues(NamedTuple):
    """The value model in the space of a kernel: the same plan and choice, another regression.

    Departures from KOVI: `cap` in place of H - h + 1 (the paper's clip); rewards scaled to [0, 1].
    """

    radius: Radius
    lam: Scalar
    cap: Scalar
    lowest: Scalar
    horizon: Scalar
    kernel: Kernel

    @property
    def learns_from_plans(self) -> bool:
        return False

    def init(self, shape: PointShape, sizes: StoredSizes, reward_scale: tuple[float, float]) -> KernelValueState:
        zeros = jnp.zeros((sizes.steps, sizes.capacity))
        low, high = (jnp.asarray(each, float) for each in reward_scale)
        return KernelValueState(
            core=empty_core(shape, sizes),
            reward=zeros,
            next=zeros.astype(jnp.int32) - 1,
            ended=zeros.astype(bool),
            low=low,
            high=high,
        )

    def update(self, state: KernelValueState, rows: TransitionRows) -> KernelValueState:
        T, C = state.reward.shape
        core, added = with_episode(self.kernel, self.lam, state.core, rows, rows.value_inputs)
        per = partial(by_estimator, T)
        at = jax.vmap(lambda old, new, i: lax.dynamic_update_slice_in_dim(old, new, i, 0))
        slot = jnp.where((rows.slot < C) & ~rows.ended & rows.live, rows.slot, -1)
        return state._replace(
            core=core,
            reward=at(state.reward, per(rows.reward), added.at),
            next=at(state.next, per(slot), added.at),
            ended=at(state.ended, per(rows.ended), added.at),
        )

    def enlarged(self, state: KernelValueState, capacity: int) -> KernelValueState:
        more = [(0, 0), (0, capacity - state.reward.shape[1])]
        return state._replace(
            core=with_capacity(state.core, capacity),
            reward=jnp.pad(state.reward, more),
            next=jnp.pad(state.next, more, constant_values=-1),
            ended=jnp.pad(state.ended, more),
        )

    def refreshed(self, state: KernelValueState) -> KernelValueState:
        return state

    def merged(self, state: KernelValueState, keep: np.ndarray, into: np.ndarray) -> KernelValueState:
        raise NotImplementedError("a kernel keeps every state")

    def log_det(self, state: KernelValueState) -> Float[Array, " T"]:
        return state.core.log_det

    def fit(
        self, state: KernelValueState, k: Int[Array, ""], bonus: Float[Array, "H A C"] | None = None
    ) -> KernelValueFit:
        return KernelValueFit(state, with_bonus(self.radius.width(jnp.maximum(state.core.var, 0) / self.lam, k), bonus))

    def whitened(self, fit: KernelValueFit, h: Int[Array, ""], V_next: Float[Array, " C"]) -> Float[Array, " C"]:
        """z = L^-1 (r + V_{h+1}(x')), rewards on the scale of [0, 1]."""
        state = fit.state
        reward, after, ended = (at_step(each, h) for each in (state.reward, state.next, state.ended))
        span = state.high - state.low
        V = jnp.where(after >= 0, V_next[after], 0.0)
        V_ended = jnp.where(ended, -state.low / span * (self.horizon - 1 - h.astype(float)), 0.0)
        return _whitened(state.core, h, (reward - state.low) / span + V + V_ended)

    def whitened_harm(self, fit: KernelValueFit, h: Int[Array, ""], C_next: Float[Array, " C"]) -> Float[Array, " C"]:
        """L^-1 C_{h+1}(x'), which is 0 where an episode ended."""
        after = at_step(fit.state.next, h)
        return _whitened(fit.state.core, h, jnp.where(after >= 0, C_next[after], 0.0))

    def expect(self, fit: KernelValueFit, h: Int[Array, ""], C_next: Float[Array, " C"]) -> Float[Array, "A C"]:
        W = at_step(fit.state.core.W, h)
        return (self.whitened_harm(fit, h, C_next) @ W.reshape(len(W), -1)).reshape(W.shape[1:])

    def estimate(self, fit: KernelValueFit, h: Int[Array, ""], V_next: Float[Array, " C"]) -> Float[Array, "A C"]:
        W = at_step(fit.state.core.W, h)
        mean = (self.whitened(fit, h, V_next) @ W.reshape(len(W), -1)).reshape(W.shape[1:])
        return (mean + at_step(fit.width, h)).clip(self.lowest, self.cap)

    def predictor(self, fit: KernelValueFit, V: Float[Array, "H C"], k: Int[Array, ""]) -> KernelPredictor:
        return self._predictor(fit, self.whitened, V, self.radius.width(1 / jnp.asarray(self.lam), k))

    def harm_predictor(
        self, fit: KernelValueFit, C: Float[Array, "H C"], k: Int[Array, ""], radius: Radius | None
    ) -> KernelPredictor:
        """The mean of the harm-to-go at the next state, of a plan that ended with C; a width only with a radius."""
        width = jnp.zeros(()) if radius is None else radius.width(1 / jnp.asarray(self.lam), k)
        return self._predictor(fit, self.whitened_harm, C, width)

    def _predictor(
        self, fit: KernelValueFit, whitened: Callable[..., Array], V: Float[Array, "H C"], width: Array
    ) -> KernelPredictor:
        """Targets of every step, each from V at the next one."""
        V_next = jnp.concatenate([V[1:], jnp.zeros_like(V[:1])])
        steps = jnp.arange(len(V), dtype=jnp.int32)
        z = lax.map(lambda each: whitened(fit, *each), (steps, V_next))
        core = fit.state.core
        return KernelPredictor(self.kernel, core.points, core.L, z, core.used, width)

    def squared_norms(self, state: KernelValueState, V_next: Array | None = None) -> Float[Array, "T A C"]:
        """diag C / lam at all slots, ||phi||^2_{Lambda^-1} where k = <phi, phi'>."""
        return jnp.maximum(state.core.var, 0) / self.lam


class KernelCostState(NamedTuple):
    core: Core
    z: Float[Array, "T C m"]


class StoredKernelCosts(NamedTuple):
    """The cost model in the space of a kernel: a Gaussian process on past transitions, one for all constraints."""

    radius: Radius
    lam: Scalar
    kernel: Kernel

    def init(self, shape: PointShape, sizes: StoredSizes) -> KernelCostState:
        return KernelCostState(empty_core(shape, sizes), jnp.zeros((sizes.steps, sizes.capacity, sizes.constraints)))

    def update(self, state: KernelCostState, rows: TransitionRows) -> KernelCostState:
        core, added = with_episode(self.kernel, self.lam, state.core, rows, rows.cost_inputs)
        cost = jnp.where(rows.live[:, None], rows.cost, 0.0)
        y = by_estimator(len(state.z), cost)

        def one(each: Pytree) -> Pytree:
            z, y, B, M, used = each
            return lax.dynamic_update_slice_in_dim(z, forward(M, y - B.T @ z), used, 0)

        return KernelCostState(core, lax.map(one, (state.z, y, *added)))

    def enlarged(self, state: KernelCostState, capacity: int) -> KernelCostState:
        z = jnp.pad(state.z, [(0, 0), (0, capacity - state.z.shape[1]), (0, 0)])
        return KernelCostState(with_capacity(state.core, capacity), z)

    def refreshed(self, state: KernelCostState) -> KernelCostState:
        return state

    def merged(self, state: KernelCostState, keep: np.ndarray, into: np.ndarray) -> KernelCostState:
        raise NotImplementedError("a kernel keeps every state")

    def rescaled(self, state: KernelCostState, factor: np.ndarray) -> KernelCostState:
        return state._replace(z=state.z * factor[None, None])

    def estimate(self, state: KernelCostState, k: Int[Array, ""]) -> CostEstimate:
        mean = jnp.einsum("tcm,tcas->tmas", state.z, state.core.W)
        return CostEstimate(mean, self.radius.width(jnp.maximum(state.core.var, 0), k)[:, None])

    def predictor(self, state: KernelCostState, k: Int[Array, ""]) -> KernelPredictor:
        core = state.core
        radius = self.radius.width(jnp.ones(()), k)
        return KernelPredictor(self.kernel, core.points, core.L, state.z, core.used, radius)
