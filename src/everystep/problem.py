"""A finite constrained MDP as plain arrays, what is wrong with one, and one step in it.

The paper's problem (its equations 6 and 7): maximise V_1(x_1) subject to g_h(x_h, a_h) <= 0 at every step h.

Two forms of the same thing live here. `FiniteCMDP` is what a person gives: NumPy arrays in the shapes they
think in. `World` is what the algorithms run on: the same arrays with a step axis of length 1 (stationary) or H
in front and states last, so that a step of a plan is one pass over neighbouring numbers; and next states compressed to
the list of states that can follow each state, so that an expectation over them costs J products instead of S.
Where P is a product of factors (a linear CMDP) both forms keep the factors, and nothing of size S A S is ever made.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from everystep.errors import EverystepError, InfeasibleError, whole_number

# Inside this module, and wherever a function serves NumPy and JAX alike, an array is typed as Any.
AnyArray = Any

FEW = 8  # axes up to this long are written out, one term or row after the other: longer programs compile slowly


class Factored(NamedTuple):
    """Transitions as a product of factors: P(x' | x, a) = sum_i phi_i(x, a) mu_i(x'), a linear CMDP.

    phi (S, A, d) or (H, S, A, d) is a distribution over d factors, mu (d, S) or (H, d, S) is where each factor leads.
    Inside a problem both have a step axis T; in a `World`, phi is (T, A, d, S).
    """

    phi: AnyArray
    mu: AnyArray


class World(NamedTuple):
    """The compressed form: T is 1 for a stationary quantity and H for one that depends on the step.

    successors  (J, S)        states that can follow each state under some action; None when all S can
    P           (T, A, J, S)  probability of each successor; or Factored, phi (T, A, d, S) and mu (T, d, S)
    cumulative  (T, A, J, S)  its running sum, above 1 from the last possible successor on; of factors, likewise shaped,
                              the sums before each entry: 0 first, above 1 after the last possible one
    r           (T, A, S)     mean reward
    g           (T, m, A, S)  mean constraint, safe iff <= 0
    reward_seen (T, A, J, S)  the reward observed on arrival; None when the mean itself is observed
    cost_seen   (T, m, A, J, S) the constraint observed on arrival; None likewise
    reward_sigma ()           standard deviation of the normal noise on observed rewards; None for none
    cost_sigma  (m,)          likewise on observed constraints
    start       (L,)          integers: the start of episode k is start[(k - 1) % L]; floats: a running sum
    """

    successors: AnyArray | None
    P: AnyArray | Factored
    cumulative: AnyArray | Factored
    r: AnyArray
    g: AnyArray
    reward_seen: AnyArray | None
    cost_seen: AnyArray | None
    reward_sigma: AnyArray | None
    cost_sigma: AnyArray | None
    start: AnyArray


class Sizes(NamedTuple):
    """The numbers every shape is made of."""

    states: int
    actions: int
    successors: int
    horizon: int
    constraints: int


class Outcome(NamedTuple):
    """What one step gives: the agent sees `reward` and `cost`; `g` is the true mean, for the books only."""

    slot: AnyArray
    x_next: AnyArray
    reward: AnyArray
    cost: AnyArray
    g: AnyArray


def at_step(array: AnyArray, h: AnyArray) -> AnyArray:
    """The slice of step h from an array whose leading axis is 1 (the same at every step) or H; of each factor."""
    if isinstance(array, Factored):
        return Factored(at_step(array.phi, h), at_step(array.mu, h))
    return array[0] if array.shape[0] == 1 else array[h]


def expected(P: AnyArray, successors: AnyArray | None, V: AnyArray) -> AnyArray:
    """[P V](a, x) = sum_j P(a, j, x) V(successors(j, x)), for one step: P is (A, J, S), V is (S,).

    Of factors: sum_i phi_i(a, x) <mu_i, V>, which is d (A + 1) S products instead of A S S.
    """
    if isinstance(P, Factored):
        return (P.mu @ V) @ P.phi
    if successors is None:
        return V @ P
    return over_successors(P * V[successors][None])


def over_successors(array: AnyArray) -> AnyArray:
    """The sum over the axis of successors, the last but one.

    A sum of a few terms is written out, because the compiler turns it into vector instructions and a reduction over a
    short axis it does not: twice as fast.
    """
    J = array.shape[-2]
    return sum(array[..., j, :] for j in range(J)) if J <= FEW else array.sum(-2)


def weighted(P: AnyArray, V_after: AnyArray) -> AnyArray:
    """sum_j P(j, x) V_after(j, x), the expectation of one action once V is looked up at the successors."""
    return sum(P[j] * V_after[j] for j in range(len(P))) if len(P) <= FEW else (P * V_after).sum(0)


def next_states(P: AnyArray | Factored, rho: np.ndarray) -> np.ndarray:
    """sum_{x, a} rho(x, a) P(x' | x, a), where weights on (x, a) go; for one step of a problem's own P, in NumPy."""
    if isinstance(P, Factored):
        return np.asarray(np.einsum("xa,xad->d", rho, P.phi) @ P.mu)
    return np.asarray(np.einsum("xa,xay->y", rho, P))


def can_follow(P: AnyArray | Factored, here: np.ndarray) -> np.ndarray:
    """The states that some action may lead to from the states `here`, booleans (S,); as `next_states`."""
    if isinstance(P, Factored):
        return np.asarray((P.mu[(P.phi[here] > 0).any((0, 1))] > 0).any(0))
    return np.asarray((P[here] > 0).any((0, 1)))


def start_state(world: World, k: AnyArray, u: AnyArray) -> AnyArray:
    """x_1^k, for episode k counted from 1 and a uniform draw u."""
    if np.issubdtype(world.start.dtype, np.integer):
        return world.start[(k - 1) % world.start.shape[0]]
    return (u >= world.start).sum(dtype=np.int32)


def step(
    world: World, h: AnyArray, x: AnyArray, a: AnyArray, u: AnyArray, reward_noise: AnyArray, cost_noise: AnyArray
) -> Outcome:
    """One step from (x, a) with a uniform draw u and standard normal draws; NumPy and JAX arrays alike."""
    if isinstance(world.cumulative, Factored):
        slot = _drawn_by_factors(at_step(world.P, h), at_step(world.cumulative, h), x, a, u)
    else:
        slot = (u >= at_step(world.cumulative, h)[a, :-1, x]).sum(dtype=np.int32)
    g = at_step(world.g, h)[:, a, x]
    reward = at_step(world.r, h)[a, x] if world.reward_seen is None else at_step(world.reward_seen, h)[a, slot, x]
    cost = g if world.cost_seen is None else at_step(world.cost_seen, h)[:, a, slot, x]
    if world.reward_sigma is not None:
        reward = reward + world.reward_sigma * reward_noise
    if world.cost_sigma is not None:
        cost = cost + world.cost_sigma * cost_noise
    x_next = slot if world.successors is None else world.successors[slot, x]
    return Outcome(slot, x_next, reward, cost, g)


def _drawn_by_factors(P: Factored, before: Factored, x: AnyArray, a: AnyArray, u: AnyArray) -> AnyArray:
    """x' ~ sum_i phi_i(x, a) mu_i from one uniform u: i ~ phi(x, a), and what u has left over draws x' ~ mu_i.

    Given i, (u - sum_{j<i} phi_j) / phi_i is uniform again: exact, in O(d + log S).
    """
    i = (u >= before.phi[a, 1:, x]).sum(dtype=np.int32)
    left_over = (u - before.phi[a, i, x]) / P.phi[a, i, x]
    return before.mu[i].searchsorted(left_over, side="right").astype(np.int32) - 1


@dataclass(frozen=True, eq=False)
class Noise:
    """What is observed, when it is not the mean itself.

    reward_on_arrival: (S, A, S) or (H, S, A, S), the reward seen when (x, a) leads to x'. Its mean must be r.
    cost_on_arrival:   the same shape, with a leading axis m for several constraints. Its mean must be g.
    reward_sigma, cost_sigma: standard deviation of normal noise added to what is seen (cost: one, or one each).
    """

    reward_on_arrival: np.ndarray | None = None
    cost_on_arrival: np.ndarray | None = None
    reward_sigma: float = 0.0
    cost_sigma: float | Sequence[float] | np.ndarray = 0.0


@dataclass(frozen=True, eq=False)
class Grid:
    """How to draw a problem whose states are cells: its rows of text, state = row * width + column.

    heights: (rows, columns), optional: what to shade the cells by.
    """

    rows: tuple[str, ...]
    heights: np.ndarray | None = None

    @property
    def width(self) -> int:
        return len(self.rows[0])


@dataclass(frozen=True, eq=False)
class Known:
    """What may be told in advance to an agent that cannot do without it; others are told nothing of this.

    threshold    tau: costs are c = g + tau, and it is c that is linear in features; one number, or one a constraint
    safe_action  (S,): an action a0(x) for each state with g(x, a0(x)) < 0, told together with that very cost
    triples      (S, A, S, d): features of a linear mixture, P(x' | x, a) = <mu, phi(x, a, x')>, and the costs seen on
                 arrival are <gamma, phi(x, a, x')> - tau
    """

    threshold: float | Sequence[float] | np.ndarray = 0.0
    safe_action: np.ndarray | None = None
    triples: np.ndarray | None = None

    @property
    def told(self) -> bool:
        """Whether there is anything."""
        return self.safe_action is not None or self.triples is not None or bool(np.any(self.threshold))


@dataclass(frozen=True, eq=False)
class FiniteCMDP:
    """A constrained MDP with finitely many states and actions, as plain arrays of means.

    P         (S, A, S) or (H, S, A, S)   transition probabilities; or their factors, `Factored(phi, mu)`
    r         (S, A) or (H, S, A)         mean reward
    g         (S, A), (m, S, A), (H, S, A) or (m, H, S, A)   mean constraint, safe iff <= 0; with three axes
              the first is the step iff P has a step axis, else the constraint
    start     a state, a distribution over states (floats), or a sequence of states, one an episode (integers)
    horizon   H, the number of steps of an episode
    noise     what is observed instead of the means
    features  (S, A, d), optional: phi(x, a) for linear models; without it one-hot, or the phi of `Factored`
    exempt    (S,) booleans, optional: states that are never entered and need no safe action
    coordinates  named numbers (S, A) or vectors (S, A, d) of every (x, a), optional: what a cost kernel may look at
    kernel    the cost kernel that suits the problem, optional: what `cost=gp` takes when none is given
    linear_costs  whether costs are thought to be linear in the features: if not, `cost=auto` counts
    known     what agents that must be told something in advance are told, optional
    """

    P: np.ndarray | Factored
    r: np.ndarray
    g: np.ndarray
    start: Any = 0
    horizon: int = 15
    noise: Noise = field(default_factory=Noise)
    features: np.ndarray | None = None
    name: str = "problem"
    state_names: tuple[str, ...] | None = None
    action_names: tuple[str, ...] | None = None
    exempt: Any = None
    grid: Grid | None = None
    remarks: tuple[str, ...] = ()
    coordinates: Mapping[str, Any] = field(default_factory=dict)
    kernel: str | None = None
    linear_costs: bool = True
    known: Known = field(default_factory=Known)
    _stepped: bool = field(init=False, repr=False, default=False)

    def __post_init__(self) -> None:
        put = lambda name, value: object.__setattr__(self, name, value)
        put("horizon", whole_number("horizon", self.horizon))
        P, pairs, stepped = self._factors(self.P) if isinstance(self.P, Factored) else self._table(self.P)
        put("_stepped", stepped)  # what three axes of g mean
        put("r", self._with_step_axis("r", _numbers("r", self.r), pairs))
        put("g", self._constraint_axes(_numbers("g", self.g), pairs, "g"))
        put("P", P)
        put("start", self._start(self.start))
        put("exempt", np.zeros(self.states, bool) if self.exempt is None else np.asarray(self.exempt, bool))
        if self.exempt.shape != (self.states,):
            raise EverystepError(f"exempt has shape {self.exempt.shape}; give ({self.states},), one for each state.")
        if self.features is not None:
            phi = _numbers("features", self.features)
            if phi.ndim != 3 or phi.shape[:2] != (self.states, self.actions):
                raise EverystepError(
                    f"features have shape {phi.shape}; "
                    f"give ({self.states}, {self.actions}, d), a vector for every state and action."
                )
            if not np.isfinite(phi).all() or phi.shape[-1] == 0:
                raise EverystepError(f"features of shape {phi.shape} are empty or not all finite; give finite numbers.")
            put("features", phi)
        elif isinstance(P, Factored) and len(P.phi) == 1:
            put("features", P.phi[0])
        if self.kernel is not None:
            put("kernel", str(self.kernel))
        put("known", self._known(self.known))
        put("coordinates", {name: self._coordinate(name, given) for name, given in self.coordinates.items()})
        if self.grid is not None and {len(row) * len(self.grid.rows) for row in self.grid.rows} != {self.states}:
            raise EverystepError(f"rows draw {self.grid.rows}; give equally long ones with {self.states} cells in all.")
        if self.grid is not None and self.grid.heights is not None:
            heights = _numbers("heights", self.grid.heights)
            if heights.shape != (shape := (len(self.grid.rows), self.grid.width)) or not np.isfinite(heights).all():
                raise EverystepError(f"heights have shape {heights.shape}; give finite numbers {shape}, one a cell.")

    def _table(self, given: Any) -> tuple[np.ndarray, tuple[int, ...], bool]:
        """P with a step axis, (S, A), and whether it depends on the step."""
        P = _numbers("P", given)
        if P.ndim not in (3, 4) or P.shape[-1] != P.shape[-3] or 0 in P.shape:
            raise EverystepError(f"P has shape {P.shape}; give (S, A, S), or (H, S, A, S) when it depends on the step.")
        return self._with_step_axis("P", P, P.shape[-3:]), P.shape[-3:-1], P.ndim == 4

    def _factors(self, given: Factored) -> tuple[Factored, tuple[int, ...], bool]:
        """The same of factors."""
        phi, mu = _numbers("phi", given.phi), _numbers("mu", given.mu)
        if phi.ndim not in (3, 4) or 0 in phi.shape:
            raise EverystepError(
                f"phi has shape {phi.shape}; give (S, A, d), or (H, S, A, d) when it depends on the step."
            )
        S, A, d = phi.shape[-3:]
        P = Factored(self._with_step_axis("phi", phi, (S, A, d)), self._with_step_axis("mu", mu, (d, S)))
        if self.noise.reward_on_arrival is not None or self.noise.cost_on_arrival is not None:
            raise EverystepError(
                "noise is seen on arrival, which needs an entry for every (x, a, x'), but P is given by factors; "
                "use reward_sigma and cost_sigma, or give P as a table."
            )
        return P, (S, A), phi.ndim == 4 or mu.ndim == 3

    def _known(self, given: Known) -> Known:
        """The same with arrays: threshold (m,), safe_action (S,), triples (S, A, S, d)."""
        S, A, m = self.states, self.actions, self.constraints
        given = Known() if given is None else given
        if not isinstance(given, Known):
            raise EverystepError(f"known is {given!r}; give es.Known(threshold, safe_action, triples).")
        threshold = _numbers("threshold", given.threshold)
        if threshold.shape not in ((), (m,)) or not np.isfinite(threshold).all():
            raise EverystepError(f"threshold is {given.threshold}; give a finite number, or {m} of them.")
        safe, triples = given.safe_action, given.triples
        if safe is not None:
            safe = np.asarray(safe)
            if safe.shape != (S,) or safe.dtype.kind not in "iu":
                raise EverystepError(
                    f"safe_action has shape {safe.shape} and type {safe.dtype}; give {S} actions from 0 to {A - 1}."
                )
            if len(wrong := safe[(safe < 0) | (safe >= A)]):
                raise EverystepError(f"safe_action holds {wrong[0]}; give {S} actions from 0 to {A - 1}.")
            cost = self.g[:, :, np.arange(S), safe].max((0, 1))
            if (bad := (cost >= 0) & ~self.exempt).any():
                x = int(bad.argmax())
                raise EverystepError(
                    f"safe_action of {self.describe(x)} is {self.describe_action(int(safe[x]))}, whose g is "
                    f"{cost[x]:.6g}; give an action with g < 0."
                )
        if triples is not None:
            triples = _numbers("triples", triples)
            wrong_shape = triples.ndim != 4 or triples.shape[:3] != (S, A, S) or triples.shape[3] == 0
            if wrong_shape or not np.isfinite(triples).all():
                raise EverystepError(
                    f"triples have shape {triples.shape}; give finite numbers ({S}, {A}, {S}, d), a vector for every "
                    "state, action and next state."
                )
        return Known(np.broadcast_to(threshold, (m,)).copy(), safe, triples)

    def _coordinate(self, name: str, given: Any) -> np.ndarray:
        if not name.isidentifier() or name in ("state", "action", "features"):
            raise EverystepError(
                f"coordinates are called '{name}'; use another word of letters, for state, action and "
                "features are there already."
            )
        array = _numbers(f"coordinates '{name}'", given)
        array = array[..., None] if array.ndim == 2 else array
        if array.ndim != 3 or array.shape[:2] != (self.states, self.actions) or not np.isfinite(array).all():
            raise EverystepError(
                f"coordinates '{name}' have shape {array.shape}; "
                f"give finite numbers ({self.states}, {self.actions}) or vectors ({self.states}, {self.actions}, d)."
            )
        return array

    @property
    def points(self) -> dict[str, np.ndarray]:
        """Everything a cost kernel may look at, (S, A, d) each: `state`, `action`, `features`, and the coordinates."""
        x, a = np.meshgrid(np.arange(float(self.states)), np.arange(float(self.actions)), indexing="ij")
        points = {"state": x[..., None], "action": a[..., None]}
        return points | ({} if self.features is None else {"features": self.features}) | dict(self.coordinates)

    # --- sizes -------------------------------------------------------------------------------------------------
    @property
    def states(self) -> int:
        return int(self.r.shape[1])

    @property
    def actions(self) -> int:
        return int(self.r.shape[2])

    @property
    def constraints(self) -> int:
        return int(self.g.shape[0])

    @property
    def stationary(self) -> bool:
        """Whether nothing carries a step axis."""
        transitions = self.P if isinstance(self.P, Factored) else (self.P,)
        return {len(self.r), self.g.shape[1], *map(len, transitions)} == {1}

    @property
    def sizes(self) -> Sizes:
        P = self.world.P
        J = self.states if isinstance(P, Factored) else P.shape[2]
        return Sizes(self.states, self.actions, J, self.horizon, self.constraints)

    def describe(self, x: int) -> str:
        """The name a person knows state x by."""
        return self.state_names[x] if self.state_names else f"state {x}"

    def describe_action(self, a: int) -> str:
        return self.action_names[a] if self.action_names else f"action {a}"

    # --- shapes ------------------------------------------------------------------------------------------------
    def _with_step_axis(self, name: str, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """`array` as (T, *shape) with T = 1 or H."""
        if array.shape == shape:
            return array[None]
        if array.shape == (self.horizon, *shape):
            return array
        raise EverystepError(
            f"{name} has shape {array.shape}; give {shape}, or {(self.horizon, *shape)} when it depends on the step."
        )

    def _constraint_axes(self, array: np.ndarray, shape: tuple[int, ...], name: str) -> np.ndarray:
        """`array` as (m, T, *shape); three axes mean steps iff P has a step axis."""
        extra = array.ndim - len(shape)
        if array.shape[extra:] != shape or extra not in (0, 1, 2):
            raise EverystepError(
                f"{name} has shape {array.shape}; its last axes must be {shape}, after an optional m and an optional H."
            )
        if 0 in array.shape:
            raise EverystepError(f"{name} has shape {array.shape}; give at least one constraint.")
        if extra == 0:
            return array[None, None]
        if extra == 1 and not self._stepped:
            return array[:, None]
        array = array[None] if extra == 1 else array
        if array.shape[1] not in (1, self.horizon):
            raise EverystepError(f"{name} has {array.shape[1]} steps; the horizon is {self.horizon}: give as many.")
        return array

    def _start(self, start: Any) -> np.ndarray:
        array = np.asarray(start)
        if np.issubdtype(array.dtype, np.integer):
            array = array.reshape(-1)
            wrong = array[(array < 0) | (array >= self.states)]
            if len(array) == 0 or len(wrong):
                shown = int(wrong[0]) if len(wrong) else "empty"
                raise EverystepError(f"start is {shown}; give states between 0 and {self.states - 1}.")
            return array.astype(np.int32)
        array = _numbers("start", array)
        if array.shape != (self.states,) or (array < 0).any() or not abs(array.sum() - 1) <= 1e-9:
            raise EverystepError(
                f"start has shape {array.shape} and sum {array.sum():.6g}; "
                f"give a state, a sequence of states, or {self.states} probabilities that sum to 1."
            )
        return array

    # --- what is wrong -----------------------------------------------------------------------------------------
    def check(self, cap: float | None = None) -> tuple[str, ...]:
        """Raise the first thing that is wrong, by name; return remarks on what is odd but allowed.

        With `cap`, also that Q-values clipped at `cap` can still represent the unconstrained optimum.
        """
        from everystep import planner

        probabilities = (
            {"P": (self.P, "next states")}
            if not isinstance(self.P, Factored)
            else {"phi": (self.P.phi, "factors"), "mu": (self.P.mu, "next states")}
        )
        finite = {name: array for name, (array, _) in probabilities.items()} | {"r": self.r, "g": self.g}
        for name, array in finite.items():
            if not np.isfinite(array).all():
                raise EverystepError(
                    f"{name} is {array[~np.isfinite(array)][0]} at {self._where(name, ~np.isfinite(array))}; "
                    "every entry must be finite."
                )
        for name, (array, over) in probabilities.items():
            if (array < 0).any():
                raise EverystepError(
                    f"{name} is {array[array < 0][0]:.6g} at {self._where(name, array < 0)}; "
                    "probabilities cannot be negative."
                )
            sums = array.sum(-1)
            if (bad := np.abs(sums - 1) > 1e-9).any():
                raise EverystepError(
                    f"{name} sums to {sums[bad][0]:.9g} over the {over} at {self._where(name, bad)}; make it sum to 1."
                )
        if (bad := np.abs(self.g) > 1).any():
            raise EverystepError(
                f"g is {self.g[bad][0]:.6g} at {self._where('g', bad)}; "
                "scale it into [-1, 1] (its sign decides safety)."
            )
        self._check_noise()
        safe = (self.g <= 0).all(0).any(-1) | self.exempt
        if not safe.all():
            h, x = (int(i) for i in np.argwhere(~safe)[0])
            step = f" at step {h + 1}" if len(safe) > 1 else ""
            others = int((~safe).any(0).sum()) - 1
            more = f" (nor {others} more)" if others else ""
            infeasible = InfeasibleError(
                f"{self.describe(x)} has no safe action{step}{more}: give it one with g <= 0 (Assumption 1)."
            )
            infeasible.states = tuple(int(i) for i in np.flatnonzero((~safe).any(0)))
            raise infeasible
        if cap is not None:
            highest = planner.highest(self)
            if cap < highest - 1e-9:
                raise EverystepError(
                    f"cap is {cap:g}, below the unconstrained optimum {highest:.6g}; "
                    "set cap to at least that, or leave it at auto."
                )
        return self.remarks

    def _where(self, name: str, bad: np.ndarray) -> str:
        """'state 3, action 1' for the first True of `bad`, whose axes are ([m], T, S, A, ...), or (T, d, ...) of mu."""
        first = [int(i) for i in np.argwhere(bad)[0]]
        constraint = f", constraint {first.pop(0) + 1}" if name == "g" and self.constraints > 1 else ""
        if name == "g" and self.constraints == 1:
            first.pop(0)
        step = f", step {first[0] + 1}" if bad.shape[1 if name == "g" else 0] > 1 else ""
        if name == "mu":
            return f"factor {first[1]}{step}"
        return f"{self.describe(first[1])}, {self.describe_action(first[2])}{step}{constraint}"

    def _check_noise(self) -> None:
        for name, letter, seen, mean in (
            ("reward", "r", self._reward_seen, self.r),
            ("cost", "g", self._cost_seen, self.g),
        ):
            if seen is None or isinstance(self.P, Factored):  # factors are never seen on arrival
                continue
            error = np.abs((self.P * seen).sum(-1) - mean)
            if not np.isfinite(seen).all() or error.max() > 1e-9:
                raise EverystepError(
                    f"{name}_on_arrival has a mean that differs from {letter} by {error.max():.3g}; make them agree."
                )
        for name in ("reward_sigma", "cost_sigma"):
            sigma = np.asarray(getattr(self.noise, name), float)
            if not np.isfinite(sigma).all() or (sigma < 0).any():
                raise EverystepError(f"{name} is {getattr(self.noise, name)}; give a standard deviation of at least 0.")
        if np.ndim(self.noise.reward_sigma):
            raise EverystepError(f"reward_sigma has shape {np.shape(self.noise.reward_sigma)}; give one number.")
        if np.ndim(self.noise.cost_sigma) and np.shape(self.noise.cost_sigma) != (self.constraints,):
            raise EverystepError(
                f"cost_sigma has shape {np.shape(self.noise.cost_sigma)}; give one number, or {self.constraints}."
            )

    # --- the compressed form -----------------------------------------------------------------------------------
    @property
    def _triples(self) -> tuple[int, int, int]:
        return self.states, self.actions, self.states

    @cached_property
    def _reward_seen(self) -> np.ndarray | None:
        seen = self.noise.reward_on_arrival
        return (
            None
            if seen is None
            else self._with_step_axis("reward_on_arrival", _numbers("reward_on_arrival", seen), self._triples)
        )

    @cached_property
    def _cost_seen(self) -> np.ndarray | None:
        seen = self.noise.cost_on_arrival
        if seen is None:
            return None
        seen = self._constraint_axes(_numbers("cost_on_arrival", seen), self._triples, "cost_on_arrival")
        if len(seen) != self.constraints:
            raise EverystepError(
                f"cost_on_arrival has {len(seen)} constraints, g has {self.constraints}: give as many."
            )
        return seen

    @property
    def arrival_spread(self) -> float:
        """Half the largest range of the costs that one (x, a) can show on arrival: they are so sub-Gaussian."""
        if self._cost_seen is None or isinstance(self.P, Factored):
            return 0.0
        high = np.where(self.P > 0, self._cost_seen, -np.inf).max(-1)
        low = np.where(self.P > 0, self._cost_seen, np.inf).min(-1)
        return float((high - low).max() / 2)

    @cached_property
    def world(self) -> World:
        """The same problem, compressed to successor lists, as NumPy arrays."""
        compressed = self._world_of_factors(self.P) if isinstance(self.P, Factored) else self._world_of_table(self.P)
        cost_sigma = np.broadcast_to(np.asarray(self.noise.cost_sigma, float), (self.constraints,)).copy()
        S, start = self.states, self.start
        if not np.issubdtype(start.dtype, np.integer):
            running = np.cumsum(start)
            start = (
                np.where(np.arange(S) >= np.flatnonzero(start)[-1], 2.0, running)[:-1]
                if S > 1
                else np.zeros(1, np.int32)
            )
        return World(
            **compressed,
            r=np.ascontiguousarray(self.r.swapaxes(-1, -2)),
            g=np.ascontiguousarray(np.moveaxis(self.g, 0, 1).swapaxes(-1, -2)),
            reward_sigma=np.float64(self.noise.reward_sigma) if self.noise.reward_sigma else None,
            cost_sigma=cost_sigma if cost_sigma.any() else None,
            start=start,
        )

    def _world_of_table(self, P: np.ndarray) -> dict[str, Any]:
        S = self.states
        possible = (P > 0).any((0, 2))
        J = int(possible.sum(1).max())
        if J == S:
            successors, compress = None, lambda full: full
        else:
            # States with fewer successors are filled up with impossible ones, at probability 0.
            successors = np.argsort(~possible, axis=1, kind="stable")[:, :J].astype(np.int32)
            index = successors[:, None, :].astype(np.int64)
            compress = lambda full: np.take_along_axis(full, np.broadcast_to(index, (*full.shape[:-1], J)), axis=-1)
        P = compress(P)
        cumulative = np.where(np.arange(J) >= _last_possible(P)[..., None], 2.0, np.cumsum(P, -1))
        return {
            "successors": None if successors is None else np.ascontiguousarray(successors.T),
            "P": _states_last(P),
            "cumulative": _states_last(cumulative),
            "reward_seen": None if self._reward_seen is None else _states_last(compress(self._reward_seen)),
            "cost_seen": None
            if self._cost_seen is None
            else np.moveaxis(_states_last(compress(self._cost_seen)), 0, 1),
        }

    def _world_of_factors(self, P: Factored) -> dict[str, Any]:
        return {
            "successors": None,
            "P": Factored(_states_last(P.phi), P.mu),
            "cumulative": Factored(_states_last(_sums_before(P.phi)), _sums_before(P.mu)),
            "reward_seen": None,
            "cost_seen": None,
        }


def called_after(path: Path) -> str:
    """The name of a problem from a file: that of the file, even where the locale cannot read it, without its ending."""
    return os.fsencode(path.stem).decode("utf-8", "replace")


def _states_last(array: np.ndarray) -> np.ndarray:
    """(..., S, A, J) to (..., A, J, S)."""
    return np.ascontiguousarray(np.moveaxis(array, -3, -1))


def _last_possible(P: np.ndarray) -> np.ndarray:
    """The last index of the last axis where P > 0."""
    return np.asarray(P.shape[-1] - 1 - (P > 0)[..., ::-1].argmax(-1))


def _sums_before(P: np.ndarray) -> np.ndarray:
    """sum_{j < i} P_j at each i of the last axis, above 1 after the last possible one."""
    before = np.concatenate([np.zeros_like(P[..., :1]), np.cumsum(P, -1)[..., :-1]], -1)
    return np.where(np.arange(P.shape[-1]) > _last_possible(P)[..., None], 2.0, before)


def _numbers(name: str, value: Any) -> np.ndarray:
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise TypeError
        array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise EverystepError(f"{name} is not an array of numbers; give one.") from None
    return array
