"""An agent on stored data: it plans, and learns from transitions, wherever they come from. It knows no environment.

    agent = OpenAgent(setup, seed=0)
    agent.plan()             the plan of the coming episode: made now, or the last one if it is still good
    agent.learn(batch)       from episodes, its own or logged ones: estimators, prices and their count

Rare switching: with `switch` > 1 a plan is kept until some det(Lambda_h) is that many times what it was when made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from everystep.environments import regressors
from everystep.environments.acting import Acting
from everystep.environments.encoders import LinearSide, RegressionSide
from everystep.environments.logged.batch import Batch
from everystep.environments.models.linear import Rows
from everystep.environments.resolve import OpenSetup
from everystep.errors import EverystepError
from everystep.lsvi import algorithm, radii
from everystep.lsvi.algorithm import Agent, State
from everystep.lsvi.choices.ties import ties

CAPACITY = 256  # slots, and points of a kernel, to begin with
MOST = 3e9  # bytes that the matrices of a kernel may take
REFRESH = 1000  # episodes after which the inverse is made anew


@partial(jax.jit, donate_argnames="state")
def _learnt(agent: Agent, state: State, rows: Rows) -> State:
    """Both estimators, then the price, eq. (13): Z_h after every step that used it, once in an episode of H steps.

    A step that the episode did not reach did no harm: its price only meets the floor.
    """
    values, costs = agent.values.update(state.values, rows), agent.costs.update(state.costs, rows)
    nothing = jnp.zeros_like(state.price)
    if len(rows.h) == state.price.shape[1]:  # every step has its own price, used once
        price = agent.penalty.update(state.price, nothing.at[:, rows.h].add(rows.cost.T), state.k)
        return State(values, costs, price, state.k + 1)

    def one(price: Any, row: Any) -> Any:
        h, cost = row
        return price.at[:, h].set(agent.penalty.update(price, nothing.at[:, h].set(cost), state.k)[:, h]), None

    price, _ = lax.scan(one, state.price, (rows.h, rows.cost))
    return State(values, costs, agent.penalty.update(price, nothing, state.k), state.k + 1)


@partial(jax.jit, static_argnames="shape")
def _planned(agent: Agent, state: State, word: Any, shape: tuple[int, int]) -> tuple[Any, Any, Any, Any]:
    """The backward pass over all slots: their actions (H, C); what it decided for states without one, of values and

    costs; and the prices.
    """
    plan, info = algorithm.plan(agent, state, ties(word, *shape))
    fit = agent.values.fit(state.values, state.k)
    values, costs = agent.values.decision(fit, info.V, state.k), agent.costs.decision(state.costs, state.k)
    return _copied((plan.actions, values, costs, state.price))


def _copied(tree: Any) -> Any:
    """Copies: the state is updated in place, and an array handed out as it is would change, or vanish, with it."""
    return jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), tree)


_log_det = jax.jit(lambda agent, state: agent.values.log_det(state.values))


@partial(jax.jit, donate_argnames="state")
def _refreshed(agent: Agent, state: State) -> State:
    """Inverses made anew; in place, like `_learnt`."""
    values, costs = agent.values.refreshed(state.values), agent.costs.refreshed(state.costs)
    return state._replace(values=values, costs=costs)


class Memory:
    """Which slot each state arrived at has, by the step it is met at; seen again, it keeps it.

    With crossed features a slot belongs to a state and the action that led there: see `StoredState.by`.
    """

    def __init__(self, steps: int, by_action: bool) -> None:
        self._slots: list[dict[bytes, int]] = [{} for _ in range(steps)]
        self._of_state: list[dict[bytes, int]] = [{} for _ in range(steps)]  # one of them, whatever led there
        self._by_action = by_action
        self.observations: list[list[np.ndarray]] = [[] for _ in range(steps)]  # of each slot

    def slot(self, step: int, observation: np.ndarray, a: int) -> int:
        """The slot of a state met at `step`; a new one if it was never met there."""
        t = step if self.stepped else 0
        known = self._slots[t]
        state = observation.tobytes()
        key = state + (a.to_bytes(4, "little") if self._by_action else b"")
        if key not in known:
            self.observations[t].append(observation)
            self._of_state[t].setdefault(state, len(known))
        return known.setdefault(key, len(known))

    def decided(self, actions: np.ndarray) -> Callable[[int, np.ndarray], int | None]:
        """The action (H, C) of a state met before now at step h; None of one that has no slot yet."""
        used = [len(each) for each in self._slots]

        def action(h: int, observation: np.ndarray) -> int | None:
            t = h if self.stepped else 0
            slot = self._of_state[t].get(observation.tobytes(), used[t])
            return int(actions[h, slot]) if slot < used[t] else None

        return action

    @property
    def stepped(self) -> bool:
        """Whether each step has slots of its own."""
        return len(self._slots) > 1

    @property
    def used(self) -> int:
        return max(map(len, self._slots))


class OpenAgent:
    """What an agent has learnt so far, and its plan. See the module."""

    def __init__(self, setup: OpenSetup, seed: int = 0) -> None:
        self.setup = setup
        self.rng = np.random.default_rng(seed)
        self.plans = 0
        self.episode = 1  # the number of the coming one, k
        self.rewards_seen = (math.inf, -math.inf)  # the least and the most
        self._capacity = max(CAPACITY, 2 ** math.ceil(math.log2(4 * setup.length)))
        with jax.enable_x64(True):
            self.parts = setup.build()
            self.state = setup.start(self.parts, self._capacity)
        crossed = isinstance(setup.value, LinearSide) and setup.value.phi.crossed
        self._memory = Memory(setup.steps, crossed)
        self._kept: list[tuple[Batch, np.ndarray]] = []  # transitions and their slots, for regressors
        self._points = 0  # of one kernel
        self._acting: Acting | None = None
        self._log_det = np.zeros(1)
        self._learnt = True  # something since the last plan

    # --- learning ----------------------------------------------------------------------------------------------------
    def learn(self, batch: Batch) -> None:
        """Learn from episodes, whole or broken off. Logged ones count like its own: what was seen of harm is as sure,

        so that its price, whose floor grows with the count, is to be as high.
        """
        for piece in self._pieces(batch):
            self._observe(piece)

    def _pieces(self, batch: Batch) -> Iterator[Batch]:
        """A batch an episode at a time, in pieces of at most L transitions."""
        L, H = self.setup.length, self.setup.horizon
        if self._stepped and batch.steps.max() >= H:
            raise EverystepError(
                f"the batch has a step {batch.steps.max() + 1}, but each of {H} steps has an estimator of its "
                f"own; leave out steps after {H}, or share estimators."
            )
        for which in batch.episodes():
            episode = batch.rows(which)
            for first in range(0, len(episode), L):
                yield episode.rows(slice(first, first + L))

    @property
    def _stepped(self) -> bool:
        return self.setup.steps > 1

    def _observe(self, piece: Batch) -> None:
        """Learn from one piece of an episode."""
        self._widen(piece.rewards)
        slots = self._slots(piece)
        self._make_room(len(piece))
        rows = self._padded(piece, slots)
        with jax.enable_x64(True):
            self.state = _learnt(self.parts, self.state, rows)
            self.episode += 1
            if self.episode % REFRESH == 0:
                self.state = _refreshed(self.parts, self.state)
        if self.setup.regression is not None:
            self._kept.append((piece, slots))
        self._points += len(piece)
        self._learnt = True

    def _slots(self, piece: Batch) -> np.ndarray:
        """Where each next state is kept; nowhere if the episode ended there, or no step is left to judge it."""
        nowhere, H = np.iinfo(np.int32).max, self.setup.horizon
        kept = ~piece.terminated & ~(self._memory.stepped & (piece.steps + 1 >= H))
        return np.array(
            [
                self._memory.slot(int(step) + 1, x, int(a)) if keep else nowhere
                for step, x, a, keep in zip(piece.steps, piece.next_observations, piece.actions, kept, strict=True)
            ],
            np.int32,
        )

    def _padded(self, piece: Batch, slots: np.ndarray) -> Rows:
        """Each transition at its place among L rows: its own step, or one after another where estimators are shared."""
        setup, L, H = self.setup, self.setup.length, self.setup.horizon
        place = piece.steps if self._stepped else np.arange(len(piece))
        at = lambda array, fill=0: _placed(np.asarray(array), place, L, fill)
        seen = (piece.observations, piece.actions, piece.next_observations, at)
        value = setup.value.seen(*seen)
        return Rows(
            h=at(np.clip(piece.steps - (L - H), 0, H - 1).astype(np.int32)),
            a=at(piece.actions.astype(np.int32)),
            reward=at(piece.rewards),
            cost=at(piece.costs),
            slot=at(slots, np.iinfo(np.int32).max),
            ended=at(piece.terminated),
            live=at(np.ones(len(piece), bool)),
            value=value,
            harm=None if not setup.has_costs else value if setup.cost is setup.value else setup.cost.seen(*seen),
        )

    def _widen(self, rewards: np.ndarray) -> None:
        """Keep the range of rewards: as declared, or of what was seen and 0, which an ended episode earns."""
        least, most = self.rewards_seen
        before, self.rewards_seen = self.reward_scale, (min(least, rewards.min()), max(most, rewards.max()))
        if self.reward_scale != before:
            low, high = self.reward_scale
            with jax.enable_x64(True):
                values = self.state.values._replace(low=jnp.asarray(low, float), high=jnp.asarray(high, float))
            self.state = self.state._replace(values=values)

    @property
    def reward_scale(self) -> tuple[float, float]:
        """What is scaled to 0 and to 1."""
        if self.setup.reward_range is not None:
            return self.setup.reward_range
        low, high = min(self.rewards_seen[0], 0.0), max(self.rewards_seen[1], 0.0)
        return (float(low), float(high)) if low < high else (0.0, 1.0)

    def _make_room(self, more: int) -> None:
        """Twice the capacity until all slots fit, and all points of a kernel with `more` to come."""
        setup = self.setup
        kernels = [side for side in (setup.value, setup.cost) if side.points]
        needed = max(self._memory.used, self._points + setup.length if kernels else 0)
        if needed <= self._capacity:
            return
        capacity = self._capacity
        while capacity < needed:
            capacity *= 2
        size = 8.0 * capacity**2 * (1 + setup.actions) * len(kernels) * setup.steps
        if size > MOST:
            raise EverystepError(
                f"a kernel on {self._points + more} transitions would take {size / 1e9:.1f} GB; use features "
                "(everystep.features.fourier is the RBF kernel at a fixed size), or fewer episodes."
            )
        with jax.enable_x64(True):
            self.state = self.state._replace(
                values=self.parts.values.grown(self.state.values, capacity),
                costs=self.parts.costs.grown(self.state.costs, capacity),
            )
        self._capacity = capacity

    # --- planning ----------------------------------------------------------------------------------------------------
    def plan(self) -> Acting:
        """The plan of the coming episode. With `switch` the last one is kept while no determinant grew that much."""
        if self._acting is None or self._due():
            self._acting = self._acting_of(self.parts, self.rng, look_up=not self.setup["react"])
            if self.setup.switch is not None:
                self._log_det = self._determinants()
            self._learnt = False
            self.plans += 1
        return self._acting

    def settled(self, optimism: float | None = None) -> Acting:
        """A plan that explores no more: no bonus on values, and another `optimism` about costs if given."""
        parts, given = self.parts, self.setup["optimism"] if optimism is None else optimism
        with jax.enable_x64(True):
            no_bonus = radii.Tuned(jnp.zeros(()))
            calm = parts._replace(values=parts.values._replace(radius=no_bonus), optimism=jnp.asarray(given, float))
        return replace(self._acting_of(calm, np.random.default_rng(0)), optimism=given)

    def _due(self) -> bool:
        factor = self.setup.switch
        if factor is None or not self._learnt:
            return self._learnt
        return bool((self._determinants() >= self._log_det + np.log(factor)).any())

    def _determinants(self) -> np.ndarray:
        """log det(Lambda_h / lam)."""
        with jax.enable_x64(True):
            return np.asarray(_log_det(self.parts, self.state))

    def _acting_of(self, parts: Agent, rng: np.random.Generator, look_up: bool = False) -> Acting:
        """A plan made now; with `look_up` it remembers the action of every state that has a slot."""
        setup, decided = self.setup, None
        choice = jax.tree.map(np.asarray, parts.choice)
        with jax.enable_x64(True):
            if setup.regression is None:
                word = rng.integers(0, 2**32, dtype=np.uint32)
                made = _planned(parts, self.state, word, (setup.horizon, self._capacity))
                actions, values, costs, price = jax.tree.map(np.array, made)
                decided = self._memory.decided(actions) if look_up else None
            else:
                values, costs, price = self._regressed(parts, choice, rng)
        return Acting(
            values, costs, setup.value.at, setup.cost.at, price, choice, setup["optimism"], setup["cap"], decided
        )

    def _regressed(self, parts: Agent, choice: Any, rng: np.random.Generator) -> tuple[Any, Any, Any]:
        """The same plan with regressors in place of the linear model of values."""
        setup, side, spec = self.setup, self.setup.value, self.setup.regression
        assert isinstance(side, RegressionSide)
        assert spec is not None
        width, ghat, bonus, costs, price = jax.tree.map(np.array, _for_regressors(parts, self.state))
        low, high = self.reward_scale
        span = high - low
        slots = [_stacked(each, side) for each in self._memory.observations]
        fitted = regressors.plan(
            spec,
            self._data(side, low, span),
            slots,
            [each[:, : at.shape[1]] for each, at in zip(width, slots, strict=True)],
            ghat,
            price,
            choice,
            -low / span,
            setup["cap"],
            float(parts.values.radius.beta),
            rng,
        )
        return regressors.RegressionDecision(spec, fitted, bonus, float(parts.values.radius.beta)), costs, price

    def _data(self, side: RegressionSide, low: float, span: float) -> regressors.Data:
        """All transitions as regressors take them."""
        nowhere = np.iinfo(np.int32).max
        column = lambda of: np.concatenate([of(batch) for batch, _ in self._kept]) if self._kept else np.zeros(0)
        if not self._kept:
            empty = np.zeros(0)
            return regressors.Data(np.zeros((0, 0)), empty, empty.astype(int), empty, empty.astype(int))
        slots = np.concatenate([slots for _, slots in self._kept])
        return regressors.Data(
            column(lambda batch: side.inputs(batch.observations, batch.actions)),
            (column(lambda batch: batch.rewards) - low) / span,
            np.where(slots == nowhere, -1, slots),
            column(lambda batch: batch.terminated.astype(float)),
            column(lambda batch: batch.steps),
        )


@jax.jit
def _for_regressors(agent: Agent, state: State) -> tuple[Any, ...]:
    """Widths (T, A, C) and believed costs (T, m, A, C) at all slots, what was decided of both elsewhere, and prices."""
    fit = agent.values.fit(state.values, state.k)
    V = jnp.zeros((state.price.shape[1], fit.width.shape[-1]))
    bonus, costs = agent.values.decision(fit, V, state.k), agent.costs.decision(state.costs, state.k)
    return _copied((fit.width, algorithm.believed(agent, state.costs, state.k), bonus, costs, state.price))


def _stacked(observations: list[np.ndarray], side: RegressionSide) -> np.ndarray:
    """Inputs (A, C, p) of the states in slots."""
    return side.every(np.stack(observations)) if observations else np.zeros((side.phi.actions, 0, 0))


def _placed(array: np.ndarray, place: np.ndarray, length: int, fill: Any) -> np.ndarray:
    """`array` (n, ...) spread over `length` rows, row i at place[i]; the others are `fill`."""
    out = np.full((length, *array.shape[1:]), fill, array.dtype)
    out[place] = array
    return out
