"""An agent on stored data: it plans, and learns from transitions, wherever they come from. It knows no environment.

    agent = OpenAgent(setup, seed=0)
    agent.learn(batch)                  logged transitions: estimators learn, prices and the count of episodes do not
    agent.plan()                        the plan of the coming episode: made now, or the last one if it is still good
    agent.finish(batch)                 an episode of its own: estimators, prices and the count

Rare switching: with `switch` > 1 a plan is kept until some det(Lambda_h) is that many times what it was when it was made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from everystep import lsvi
from everystep.acting import Acting
from everystep.errors import EverystepError
from everystep.logged import Batch
from everystep.lsvi import Agent, State
from everystep.open_setup import OpenSetup, columns, seen
from everystep.parts import radii
from everystep.parts.choices import ties
from everystep.parts.stored import Rows, Seen

CAPACITY = 1024  # slots to begin with
REFRESH = 1000  # episodes after which the inverse is made anew


@partial(jax.jit, donate_argnames="state")
def _observed(agent: Agent, state: State, rows: Rows) -> State:
    """Estimators learn; nothing else."""
    return state._replace(values=agent.values.update(state.values, rows), costs=agent.costs.update(state.costs, rows))


@jax.jit
def _priced(agent: Agent, state: State, rows: Rows) -> State:
    """Z after an episode, eq. (13), and k + 1: Z_h after every step that used it, once in an episode of H steps.

    A step that the episode did not reach did no harm: its price only meets the floor.
    """
    nothing = jnp.zeros_like(state.price)

    def one(price: Any, row: Any) -> Any:
        h, cost = row
        return price.at[:, h].set(agent.penalty.update(price, nothing.at[:, h].set(cost), state.k)[:, h]), None

    price, _ = lax.scan(one, state.price, (rows.h, rows.cost))
    return state._replace(price=agent.penalty.update(price, nothing, state.k), k=state.k + 1)


@partial(jax.jit, static_argnames="shape")
def _planned(agent: Agent, state: State, word: Any, shape: tuple[int, int]) -> tuple[Any, Any]:
    """The backward pass over all slots, and what it decided for states without one."""
    _, info = lsvi.plan(agent, state, ties(word, *shape))
    fit = agent.values.fit(state.values, state.k)
    return agent.values.decision(fit, info.V, state.k), agent.costs.decision(state.costs, state.k)


_log_det = jax.jit(lambda agent, state: agent.values.log_det(state.values))
_refreshed = jax.jit(
    lambda agent, state: state._replace(
        values=agent.values.refreshed(state.values), costs=agent.costs.refreshed(state.costs)
    )
)


class Memory:
    """Which slot each state arrived at has, by the step it is met at; seen again, it keeps it.

    With crossed features a slot belongs to a state and the action that led there: see `StoredState.by`.
    """

    def __init__(self, steps: int, by_action: bool) -> None:
        self._slots: list[dict[bytes, int]] = [{} for _ in range(steps)]
        self._by_action = by_action

    def slot(self, step: int, observation: np.ndarray, a: int) -> int:
        """The slot of a state met at `step`; a new one if it was never met there."""
        known = self._slots[step if self.stepped else 0]
        key = observation.tobytes() + (a.to_bytes(4, "little") if self._by_action else b"")
        return known.setdefault(key, len(known))

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
        self.transitions = 0
        with jax.enable_x64(True):
            self.parts = setup.build()
            self.state = setup.start(self.parts, CAPACITY)
        self._capacity = CAPACITY
        self._memory = Memory(1 if setup["share_values"] else setup.horizon, setup.features.crossed)
        self.reward_range = setup.reward_range or (0.0, 0.0)
        self._acting: Acting | None = None
        self._log_det = np.zeros(1)
        self._learnt = True  # something since the last plan

    # --- learning ----------------------------------------------------------------------------------------------------
    def learn(self, batch: Batch) -> None:
        """Learn from transitions that others left; the agent's own harm is priced by `finish` alone."""
        with jax.enable_x64(True):
            for rows in self._rows(batch):
                self._observe(rows)

    def finish(self, batch: Batch) -> None:
        """Learn from an episode of the agent's own, whole or broken off, and price its harm."""
        with jax.enable_x64(True):
            for rows in self._rows(batch):
                self._observe(rows)
                self.state = _priced(self.parts, self.state, rows)
            if self.episode % REFRESH == 0:
                self.state = _refreshed(self.parts, self.state)

    @property
    def episode(self) -> int:
        """The number of the coming episode, from 1."""
        return int(self.state.k)

    def _observe(self, rows: Rows) -> None:
        self.state = _observed(self.parts, self.state, rows)
        self._learnt = True

    def _rows(self, batch: Batch) -> Iterator[Rows]:
        """Transitions as padded rows: an episode at a time, in pieces of at most L."""
        L, H, stepped = self.setup.length, self.setup.horizon, self._stepped
        for episode in batch.episodes():
            if stepped and episode.steps.max() >= H:
                raise EverystepError(
                    f"the batch has a step {episode.steps.max() + 1}, but each of {H} steps has an estimator of its own; "
                    f"leave out steps after {H}, or share estimators."
                )
            for first in range(0, len(episode), L):
                piece = episode[first : first + L]
                self._widen(piece.rewards)
                yield self._padded(piece, piece.steps if stepped else np.arange(len(piece)))

    @property
    def _stepped(self) -> bool:
        return not (self.setup["share_values"] and self.setup["share_costs"])

    def _padded(self, piece: Batch, place: np.ndarray) -> Rows:
        """A piece of an episode, each transition at its place among L rows, every next state in its slot."""
        setup, L = self.setup, self.setup.length
        nowhere = np.iinfo(np.int32).max
        after, left = piece.next_observations, piece.steps + 1
        slots = [
            nowhere if end or (self._memory.stepped and step >= setup.horizon) else self._memory.slot(step, x, int(a))
            for step, x, a, end in zip(left, after, piece.actions, piece.terminated, strict=True)
        ]
        self._make_room()
        at = lambda array, fill=0.0: _placed(np.asarray(array), place, L, fill)
        phi = seen(setup.features, piece.observations, piece.actions, after)
        harm = seen(setup.cost_features, piece.observations, piece.actions, after) if setup.has_costs else None
        spread = lambda each: (
            None if each is None else Seen(at(each.here), np.moveaxis(at(np.moveaxis(each.there, -1, 0)), 0, -1))
        )
        self.transitions += len(piece)
        return Rows(
            h=at(np.maximum(piece.steps - (L - setup.horizon), 0).clip(max=setup.horizon - 1).astype(np.int32), 0),
            a=at(piece.actions.astype(np.int32), 0),
            reward=at(piece.rewards),
            cost=at(piece.costs),
            slot=at(np.array(slots, np.int32), nowhere),
            ended=at(piece.terminated, False),
            value=spread(phi),
            harm=spread(harm),
        )

    def _widen(self, rewards: np.ndarray) -> None:
        """Keep the range of rewards: as declared, or of what was seen and 0, which an ended episode earns."""
        low, high = self.reward_range
        if self.setup.reward_range is None:
            low, high = min(low, float(rewards.min())), max(high, float(rewards.max()))
            if (low, high) != self.reward_range:
                self.reward_range = low, high
                as_array = lambda number: jnp.asarray(number, float)
                values = self.state.values._replace(low=as_array(low), high=as_array(high))
                self.state = self.state._replace(values=values)

    def _make_room(self) -> None:
        """Twice the capacity until all slots fit."""
        if self._memory.used <= self._capacity:
            return
        while self._capacity < self._memory.used:
            self._capacity *= 2
        self.state = self.state._replace(
            values=self.parts.values.grown(self.state.values, self._capacity),
            costs=self.parts.costs.grown(self.state.costs, self._capacity),
        )

    # --- planning ----------------------------------------------------------------------------------------------------
    def plan(self) -> Acting:
        """The plan of the coming episode. With `switch` the last one is kept while no determinant grew that much."""
        if self._acting is None or self._due():
            self._acting = self._made()
            self.plans += 1
        return self._acting

    def _due(self) -> bool:
        factor = self.setup.switch
        if factor is None or not self._learnt:
            return self._learnt
        with jax.enable_x64(True):
            log_det = np.asarray(_log_det(self.parts, self.state))
        return bool((log_det >= self._log_det + np.log(factor)).any())

    def settled(self, optimism: float | None = None) -> Acting:
        """A plan that explores no more: without the bonus on values, and with another `optimism` about costs if given."""
        values = self.parts.values  # a radius of 0 is no bonus
        calm = self.parts._replace(values=values._replace(radius=radii.Tuned(jnp.zeros(()))))
        acting = self._acting_of(calm)
        return acting if optimism is None else replace(acting, optimism=optimism)

    def _made(self) -> Acting:
        acting = self._acting_of(self.parts)
        with jax.enable_x64(True):
            self._log_det = np.asarray(_log_det(self.parts, self.state))
        self._learnt = False
        return acting

    def _acting_of(self, parts: Agent) -> Acting:
        setup = self.setup
        word = self.rng.integers(0, 2**32, dtype=np.uint32)
        with jax.enable_x64(True):
            made = _planned(parts, self.state, word, (setup.horizon, self._capacity))
            values, costs = jax.tree.map(np.asarray, made)
        return Acting(
            values,
            costs,
            partial(columns, setup.features),
            partial(columns, setup.cost_features),
            np.asarray(self.state.price),
            jax.tree.map(np.asarray, parts.choice),
            setup["optimism"],
            setup["cap"],
        )


def _placed(array: np.ndarray, place: np.ndarray, length: int, fill: Any) -> np.ndarray:
    """`array` (n, ...) spread over `length` rows, row i at place[i]; the others are `fill`."""
    out = np.full((length, *array.shape[1:]), fill, array.dtype)
    out[place] = array
    return out
