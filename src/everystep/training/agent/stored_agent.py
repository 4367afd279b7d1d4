"""An agent on stored data: it plans, and learns from transitions, whatever their source. It knows no environment.

    agent = StoredAgent(resolved, constraints=1, seed=0)
    agent.plan()             the plan of the coming episode: a new one, or the last one while it is still in force
    agent.learn(batch)       from episodes, its own or logged ones: estimators, prices and their count

Rare switching: with `switch` > 1 a plan stays in force until some det(Lambda_h) has grown by that factor; with a
percentage, until there are that many more transitions. det(Lambda_h) is a product over d directions: with hundreds of
them every episode doubles it, and the percentage is the rule that makes plans rare.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from everystep.environments.play.batch import Batch
from everystep.errors import EverystepError
from everystep.lsvi import algorithm, radii
from everystep.lsvi.ahead import HarmToGo
from everystep.lsvi.algorithm import Agent, State
from everystep.lsvi.choices.ties import ties
from everystep.lsvi.protocols import LookAhead, Pytree
from everystep.runtime.signals import deferred
from everystep.training.agent import plan_files
from everystep.training.agent.acting import SIDE, ActingPlan, divisor, largest_size
from everystep.training.agent.models.protocols import NO_SLOT, TransitionRows, stored_models
from everystep.training.agent.parts import StoredParts
from everystep.training.agent.slot_table import PlannedActions, SlotTable
from everystep.training.folder.plain_values import fields_but, from_plain, set_fields, to_plain

if TYPE_CHECKING:
    from everystep.training.agent.resolve import ResolvedForTraining

CAPACITY = 256  # slots, and points of a kernel, at the start
GROWTH = 4  # of the capacity, each time it is full: programs are compiled for each
MOST = 3e9  # bytes that the matrices of a kernel may take
SHIPPED = 0.0  # optimism about costs of the policy that is returned, and of episodes without exploration
REFRESH = 1000  # episodes after which the inverse is computed again
MADE_AGAIN = ("resolved", "constraints", "agent", "plan_in_force")  # fields that are not saved as they are


@partial(jax.jit, donate_argnames="state")
def _learn(agent: Agent, state: State, rows: TransitionRows) -> State:
    """Both estimators, then the price, eq. (13): Z_h after every step that used it, once in an episode of H steps.

    A step that the episode did not reach has no violation: its price is only raised to the floor.
    """
    reward, cost = agent.learnt(rows.reward, rows.cost)
    learnt = rows._replace(reward=reward, cost=cost)
    value_model, cost_model = stored_models(agent)
    values, costs = value_model.update(state.values, learnt), cost_model.update(state.costs, learnt)
    nothing = jnp.zeros_like(state.price)
    priced = agent.priced(rows.cost.T)
    if len(rows.h) == state.price.shape[1]:  # every step has its own price, used once
        price = agent.penalty.update(state.price, nothing.at[:, rows.h].add(priced), state.k)
        return State(values, costs, price, state.k + 1)

    def after_row(price: Array, row: tuple[Array, Array]) -> tuple[Array, None]:
        h, cost = row
        return price.at[:, h].set(agent.penalty.update(price, nothing.at[:, h].set(cost), state.k)[:, h]), None

    price, _ = lax.scan(after_row, state.price, (rows.h, priced.T))
    return State(values, costs, agent.penalty.update(price, nothing, state.k), state.k + 1)


@partial(jax.jit, static_argnames="shape")
def _plan(agent: Agent, state: State, word: Array, shape: tuple[int, int]) -> tuple[Pytree, ...]:
    """The backward pass over all slots: their actions (H, C), the predictors of both models and of harm, the prices."""
    plan, info = algorithm.plan(agent, state, ties(word, *shape))
    fit = agent.values.fit(state.values, state.k)
    value_model, cost_model = stored_models(agent)
    values, costs = value_model.predictor(fit, info.V, state.k), cost_model.predictor(state.costs, state.k)
    harm = None
    if isinstance(agent.ahead, HarmToGo) and info.C is not None:
        harm = value_model.harm_predictor(fit, info.C, state.k, agent.ahead.radius)
    return _copied((plan.actions, values, costs, harm, state.price))


def _copied(tree: Pytree) -> Pytree:
    """Copies: the state is updated in place, so that an array of it would change, or be deleted, later."""
    return jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), tree)


_log_det = jax.jit(lambda agent, state: agent.values.log_det(state.values))


@partial(jax.jit, donate_argnames="state")
def _refresh(agent: Agent, state: State) -> State:
    """The inverses computed again; in place, like `_learn`."""
    value_model, cost_model = stored_models(agent)
    values, costs = value_model.refreshed(state.values), cost_model.refreshed(state.costs)
    return state._replace(values=values, costs=costs)


class StoredAgent:
    """What an agent has learnt so far, and its plan. See the module."""

    def __init__(self, resolved: ResolvedForTraining, constraints: int, seed: int = 0) -> None:
        self.resolved = resolved
        self.constraints = constraints
        self.rng = np.random.default_rng(seed)
        self.plans = 0
        self.episode = 1  # the number of the coming one, k
        self.rewards_seen = (math.inf, -math.inf)  # the lowest and the highest
        self._rewards: list[np.ndarray] = []
        # Costs are divided by their largest size so far; 0 while all were 0. A guarantee holds for costs as they are.
        self.cost_scale = np.full(constraints, 0.0 if resolved.confidence is None else 1.0)
        self._capacity = max(CAPACITY, 2 ** math.ceil(math.log2(4 * resolved.length)))
        parts = StoredParts(resolved, constraints)
        with jax.enable_x64(True):
            self.agent = parts.build()
            self.state = parts.start(self.agent, self._capacity)
        self._slot_table = SlotTable(resolved.steps, resolved.value.slot_per_action, self._most())
        self._points = 0  # transitions
        self._points_planned = 0  # those that the plan in force knows
        self.plan_in_force: ActingPlan | None = None
        self._log_det = np.zeros(1)
        self._has_learnt = True  # since the last plan

    def _most(self) -> int | None:
        """The most states to keep; None: all, because states recur, or because the models need every transition."""
        resolved, memory = self.resolved, self.resolved.environment.memory
        needs_all = resolved.value.keeps_points or resolved.cost.keeps_points
        return None if memory is None or self._stepped or needs_all else max(memory, 4 * resolved.length)

    def _for_distances(self, observations: np.ndarray) -> np.ndarray:
        """(n, e): the features of states that both models see."""
        resolved = self.resolved
        encoders = [resolved.value] if resolved.cost is resolved.value else [resolved.value, resolved.cost]
        return np.concatenate(
            [np.asarray(each.encode(observations)).reshape(-1, len(observations)).T for each in encoders], 1
        )

    # --- learning ----------------------------------------------------------------------------------------------------
    def learn(self, batch: Batch) -> None:
        """Learn from whole or truncated episodes.

        Logged episodes count like its own: an observed violation is equally certain, so its price, whose floor grows
        with the count, must be equally high.
        """
        self._ensure_capacity(len(batch))
        for piece in self._pieces(batch):
            with deferred():
                self._learn_piece(piece)

    def _pieces(self, batch: Batch) -> Iterator[Batch]:
        """One episode at a time, in pieces of at most L transitions."""
        L, H = self.resolved.length, self.resolved.horizon
        if self._stepped and batch.steps.max() >= H:
            raise EverystepError(
                f"the batch has a step {batch.steps.max() + 1}, but only the steps 1 to {H} have an estimator; "
                f"leave out steps after {H}, or share estimators."
            )
        for which in batch.episodes():
            episode = batch.rows(which)
            for first in range(0, len(episode), L):
                yield episode.rows(slice(first, first + L))

    @property
    def observations(self) -> np.ndarray:
        """The observations that followed a step of an episode that went on, each once; empty if steps differ."""
        seen = [] if self._stepped else self._slot_table.observations[0]
        return np.stack(seen) if seen else np.zeros((0, self.resolved.environment.coordinates))

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader of the results should know about the models."""
        if self._slot_table.delta is None:
            return ()
        memory = self.resolved.environment.memory
        return (f"beyond {memory} states, those close to each other share a value: see memory",)

    @property
    def _stepped(self) -> bool:
        return self.resolved.steps > 1

    def _learn_piece(self, piece: Batch) -> None:
        self._update_reward_scale(piece.rewards)
        self._update_cost_scale(piece.costs)
        slots, own = self._slots(piece)
        self._ensure_capacity(0)
        rows = self._padded(piece, slots, own)
        with jax.enable_x64(True):
            self.state = _learn(self.agent, self.state, rows)
            self.episode += 1
            if self.episode % REFRESH == 0:
                self.state = _refresh(self.agent, self.state)
        self._points += len(piece)
        self._has_learnt = True

    def _slots(self, piece: Batch) -> tuple[np.ndarray, np.ndarray]:
        """The slot of each next state, and whether it is its own; no slot after the end of an episode or of the plan.

        If there are too many states, those that are close to each other are merged first.
        """
        table, H = self._slot_table, self.resolved.horizon
        kept = ~piece.terminated & ~(table.stepped & (piece.steps + 1 >= H))
        arrivals = (piece.next_observations, piece.actions)
        shared = table.nearby(*arrivals, self._for_distances)
        while not table.has_room(shared):
            value_model, cost_model = stored_models(self.agent)
            keep, into = table.merge(self._for_distances)
            with jax.enable_x64(True):
                values = value_model.merged(self.state.values, keep, into)
                self.state = self.state._replace(values=values, costs=cost_model.merged(self.state.costs, keep, into))
            shared = table.nearby(*arrivals, self._for_distances)
        return table.assign(piece.steps + 1, *arrivals, kept, shared)

    def _padded(self, piece: Batch, slots: np.ndarray, own: np.ndarray) -> TransitionRows:
        """Each transition in one of L rows: that of its step, or the next one where estimators are shared."""
        resolved, L = self.resolved, self.resolved.length
        place = piece.steps if self._stepped else np.arange(len(piece))

        def padded(array: np.ndarray, fill: float = 0) -> Pytree:
            """An array of NumPy, which compiled code takes as its own."""
            return _placed(np.asarray(array), place, L, fill)

        transitions = (piece.observations, piece.actions, piece.next_observations, padded)
        cost_inputs: Pytree
        value_inputs = cost_inputs = resolved.value.encode_transitions(*transitions)
        if not resolved.has_costs:
            cost_inputs = None
        elif resolved.cost is not resolved.value:
            cost_inputs = resolved.cost.encode_transitions(*transitions)
        return TransitionRows(
            h=padded(resolved.countdown.several(piece.steps).astype(np.int32)),
            a=padded(piece.actions.astype(np.int32)),
            reward=padded(piece.rewards),
            cost=padded(piece.costs / divisor(self.cost_scale)),
            slot=padded(slots, NO_SLOT),
            ended=padded(piece.terminated),
            live=padded(np.ones(len(piece), bool)),
            value_inputs=value_inputs,
            cost_inputs=cost_inputs,
            own=None if self._slot_table.delta is None else padded(own, True),
        )

    def _update_reward_scale(self, rewards: np.ndarray) -> None:
        """Widen the range of observed rewards, and the scale of the value model with it."""
        self._rewards.append(rewards)
        least, most = self.rewards_seen
        before, self.rewards_seen = self.reward_scale, (min(least, rewards.min()), max(most, rewards.max()))
        if self.reward_scale != before:
            low, high = self.reward_scale
            with jax.enable_x64(True):
                values = self.state.values._replace(low=jnp.asarray(low, float), high=jnp.asarray(high, float))
            self.state = self.state._replace(values=values)

    def _update_cost_scale(self, costs: np.ndarray) -> None:
        """Divide by the largest cost that was observed, what was learnt before included; prices stay as they are.

        Settings of costs are in units of about 1, so that results do not depend on the unit of a constraint.
        """
        scale = largest_size(self.cost_scale, costs, together=self.agent.ahead is not None)
        if (scale == self.cost_scale).all():
            return
        with jax.enable_x64(True):
            learnt = stored_models(self.agent)[1].rescaled(self.state.costs, self.cost_scale / divisor(scale))
        self.state, self.cost_scale = self.state._replace(costs=learnt), scale

    @property
    def rewards(self) -> np.ndarray:
        """All rewards that were learnt."""
        return np.concatenate([np.empty(0), *self._rewards])

    @property
    def reward_scale(self) -> tuple[float, float]:
        """The rewards scaled to 0 and to 1: as declared, or of observed rewards and 0, which an ended episode earns."""
        if self.resolved.environment.reward_range is not None:
            return self.resolved.environment.reward_range
        low, high = min(self.rewards_seen[0], 0.0), max(self.rewards_seen[1], 0.0)
        return (float(low), float(high)) if low < high else (0.0, 1.0)

    def _ensure_capacity(self, more: int) -> None:
        """Enlarge the capacity until all slots and `more` fit, up to the limit, and all points of a kernel."""
        resolved, table = self.resolved, self._slot_table
        kernels = [encoder for encoder in (resolved.value, resolved.cost) if encoder.keeps_points]
        needed = table.used if table.most is None else min(table.used + more, table.most)
        needed = max(needed, self._points + resolved.length) if kernels else needed
        if needed <= self._capacity:
            return
        capacity = self._capacity
        while capacity < needed:
            capacity *= 2 if kernels else GROWTH
        capacity = capacity if table.most is None else min(capacity, table.most)
        size = 8.0 * capacity**2 * (1 + resolved.actions) * len(kernels) * resolved.steps
        if size > MOST:
            raise EverystepError(
                f"a kernel on {needed} transitions would take {size / 1e9:.1f} GB; use features "
                "(everystep.features.fourier is the RBF kernel at a fixed size), or fewer episodes."
            )
        value_model, cost_model = stored_models(self.agent)
        with jax.enable_x64(True):
            self.state = self.state._replace(
                values=value_model.enlarged(self.state.values, capacity),
                costs=cost_model.enlarged(self.state.costs, capacity),
            )
        self._capacity = capacity

    # --- planning ----------------------------------------------------------------------------------------------------
    def plan(self, without_exploration: float | None = None) -> ActingPlan:
        """The plan of the coming episode. With `switch` the last one is kept until enough was learnt.

        A new plan explores, or is one without exploration with this optimism.
        """
        if self.plan_in_force is None or self._due():
            if without_exploration is None:
                made = self._new_plan(self.agent, self.rng, look_up=not self.resolved["react"])
            else:
                made = self.plan_without_exploration(without_exploration)
            log_det = self._log_det if self.resolved.switch is None else self._log_determinants()
            with deferred():  # an interrupt leaves the last plan in force, or the new one
                self.plan_in_force, self._log_det, self._has_learnt = made, log_det, False
                self._points_planned = self._points
                self.plans += 1
        return self.plan_in_force

    def plan_without_exploration(self, optimism: float = SHIPPED) -> ActingPlan:
        """A plan without the bonus on values, whose costs and harm ahead are mean - optimism * width.

        By default they are taken as estimated: to believe less of them is exploration, too.
        """
        agent = self.agent
        with jax.enable_x64(True):
            values = stored_models(agent)[0]._replace(radius=radii.Tuned(jnp.zeros(())))
            agent = agent._replace(values=values, optimism=jnp.asarray(optimism, float))
            if isinstance(agent.ahead, HarmToGo):
                agent = agent._replace(ahead=agent.ahead._replace(optimism=jnp.asarray(optimism, float)))
        return replace(self._new_plan(agent, np.random.default_rng(0)), optimism=optimism)

    def _due(self) -> bool:
        factor, more = self.resolved.switch, self.resolved.switch_share
        if not self._has_learnt:
            return False
        if more is not None:
            return self._points >= (1 + more) * self._points_planned
        if factor is None:
            return True
        return bool((self._log_determinants() >= self._log_det + np.log(factor)).any())

    def _log_determinants(self) -> np.ndarray:
        """log det(Lambda_h / lam)."""
        with jax.enable_x64(True):
            return np.asarray(_log_det(self.agent, self.state))

    def _new_plan(self, agent: Agent, rng: np.random.Generator, look_up: bool = False) -> ActingPlan:
        """A plan from everything learnt; with `look_up` it returns the planned action of every state with a slot."""
        resolved = self.resolved
        choice = jax.tree.map(np.asarray, agent.choice)
        word = rng.integers(0, 2**32, dtype=np.uint32)
        with jax.enable_x64(True):
            made = _plan(agent, self.state, word, (resolved.horizon, self._capacity))
            actions, values, costs, harm, price = jax.tree.map(np.array, made)
        return ActingPlan(
            values=values,
            costs=costs,
            value_encoder=resolved.value,
            cost_encoder=resolved.cost,
            price=price,
            choice=choice,
            optimism=resolved["optimism"],
            cap=resolved["cap"],
            lowest=resolved.lowest_value,
            look_up=self._slot_table.look_up(actions) if look_up else None,
            ahead=_in_numpy(agent.ahead),
            harm_ahead=harm,
            cost_scale=self.cost_scale,
        )

    def plan_of_least_harm(self) -> ActingPlan | None:
        """The plan without exploration by the least harm in every step; None for an agent that does not look ahead."""
        ahead = self.agent.ahead
        if not isinstance(ahead, HarmToGo):
            return None
        least = copy.copy(self)
        with jax.enable_x64(True):
            least.agent = self.agent._replace(ahead=ahead._replace(of_plan=jnp.asarray(False)))
        return least.plan_without_exploration()

    # --- saved and restored ------------------------------------------------------------------------------------------
    def saved(self, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        """Everything that decides how training continues, ready for JSON; its arrays are added to `arrays`.

        The plan in force is saved, not made again: with rare plans the state that it was made from is gone.
        """
        content: dict[str, Any] = {"fields": fields_but(self, MADE_AGAIN, arrays, "agent"), "plan": None}
        plan = self.plan_in_force
        if plan is not None:
            look_up = None if plan.look_up is None else plan.look_up.fields()
            content["plan"] = {**plan.to_json(), "look_up": to_plain(look_up, arrays, "plan.look_up")}
            arrays |= {f"plan.{name}": array for name, array in plan.arrays().items() if SIDE not in name}
        return content

    def restore(self, content: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Take over what `saved` returned."""
        set_fields(self, MADE_AGAIN, content["fields"], arrays)
        saved = content["plan"]
        if saved is None:
            return
        of_plan = plan_files.named(arrays, "plan.")
        plan = plan_files.read(saved, of_plan, self.resolved.value, self.resolved.cost)
        look_up = from_plain(saved["look_up"], arrays)
        look_up = None if look_up is None else PlannedActions(self._slot_table, **look_up)
        choice = jax.tree.map(np.asarray, self.agent.choice)
        self.plan_in_force = replace(plan, choice=choice, look_up=look_up)


def _in_numpy(ahead: LookAhead | None) -> HarmToGo | None:
    """What looking ahead takes while acting."""
    if ahead is None:
        return None
    assert isinstance(ahead, HarmToGo)
    return HarmToGo(
        of_plan=bool(ahead.of_plan),
        events=bool(ahead.events),
        tolerance=float(ahead.tolerance),
        weights=np.asarray(ahead.weights),
        cap=float(ahead.cap),
        optimism=float(ahead.optimism),
    )


def _placed(array: np.ndarray, place: np.ndarray, length: int, fill: float) -> np.ndarray:
    """`array` (n, ...) spread over `length` rows, row i at place[i]; the others are `fill`."""
    out = np.full((length, *array.shape[1:]), fill, array.dtype)
    out[place] = array
    return out
