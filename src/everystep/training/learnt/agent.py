"""The agent: it learns at every step, from the first on, and acts by the newest networks.

    agent.observe(transition)    one more step: what was predicted, then rounds of learning
    agent.newest(optimism)       the plan of now
    agent.learn(batch)           an episode is over; rows that were not observed are learnt first

The first `AT_RANDOM` steps are random. Whenever the data has grown by a quarter, or a constraint takes a value that it
could not have had, scales are chosen again and `REFRESHED` further rounds are learnt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from everystep.environments.play.batch import Batch
from everystep.environments.play.rollout import Transition
from everystep.lsvi.penalties import Floor, Rectified
from everystep.runtime.signals import deferred
from everystep.training.agent.stored_agent import SHIPPED
from everystep.training.folder.plain_values import fields_but, set_fields
from everystep.training.learnt import critics, rounds, world
from everystep.training.learnt.critics import Rule
from everystep.training.learnt.plan import LearntPlan, copies_of, harm_to_go
from everystep.training.learnt.quality import Quality, QualityFigures
from everystep.training.learnt.rounds import Learnt
from everystep.training.learnt.rows import Rows
from everystep.training.learnt.scales import Scales, Units
from everystep.training.learnt.world import Sizes

if TYPE_CHECKING:
    from everystep.training.learnt.settings import LearntSettings

AT_RANDOM = 16
MOST_DEVIATIONS = 5.0  # predicted deviations to which residuals are clipped
GROWN = 1.25
MANY = 64  # coordinates, above which a remark says what they cost
REFRESHED = 400  # rounds
MOST_OF_LOGGED = 2000  # rounds for a logged batch besides
OF_SPREAD = 4  # batches of imagined steps by which critics are scaled
MADE_AGAIN = ("settings", "constraints", "sizes", "penalty", "plan_in_force", "_newest", "_units", "limit")  # not saved


class LearntAgent:
    """What was seen, the networks, and the price. See the module."""

    def __init__(self, settings: LearntSettings, constraints: int, seed: int = 0) -> None:
        self.settings, self.constraints = settings, constraints
        environment = settings.environment
        heads = len(settings.horizons)
        o, A = environment.coordinates, environment.actions
        self.sizes = Sizes(o, A, constraints, settings["members"], heads)
        self.penalty = Rectified(Floor.from_setting(settings["floor"]))
        self.rng = np.random.default_rng(seed)
        self.limit = settings.limit if settings["limit"] == "called" else None
        self.limit_agrees = False  # whether it is called on imagined steps
        self.plans, self.episode = 0, 1
        self.rows = Rows(o, constraints)
        self.quality = Quality(o, constraints)
        self.scales = Scales.blank(o, constraints, heads)
        self.state: Learnt = rounds.start(self.rng, self.sizes)
        self.price = self._floored(np.ones((1, 1)), 0.0)
        self.fitted = 0  # rows that the scales are of; 0: nothing was learnt
        self.diverged = 0  # times that rounds were undone
        self.planned = 0  # rows that the plan in force knows
        self.waiting: dict[str, np.ndarray] = {}  # by copy: the rows of an episode that goes on
        self.plan_in_force: LearntPlan | None = None
        self._newest: LearntPlan | None = None
        self._units: tuple[Scales, Units] | None = None

    # --- what was seen -----------------------------------------------------------------------------------------------
    @property
    def rewards(self) -> np.ndarray:
        return self.rows["r"]

    @property
    def rewards_seen(self) -> tuple[float, float]:
        r = self.rows["r"]
        return (float(r.min()), float(r.max())) if len(r) else (np.inf, -np.inf)

    @property
    def reward_scale(self) -> tuple[float, float]:
        """As declared, or of observed rewards and 0, which an ended episode earns."""
        if self.settings.environment.reward_range is not None:
            return self.settings.environment.reward_range
        low, high = min(self.rewards_seen[0], 0.0), max(self.rewards_seen[1], 0.0)
        return (low, high) if low < high else (0.0, 1.0)

    @property
    def cost_scale(self) -> np.ndarray:
        """(m,): one number, because constraints are added up; 0 while all were 0."""
        g = self.rows["g"]
        return np.full(self.constraints, float(np.abs(g).max()) if g.size else 0.0)

    @property
    def observations(self) -> np.ndarray:
        return self.rows["y"]

    @property
    def remarks(self) -> tuple[str, ...]:
        listed = ", ".join(str(each) for each in self.settings.horizons)
        found = [f"values and harm are sums over horizons of {listed} steps, discounted and averaged"]
        if len(self.rows) < AT_RANDOM:
            found.append(f"only {len(self.rows)} steps were seen; actions are random before {AT_RANDOM}")
        if self.quality.random and self.fitted:
            found.append(f"actions were random in the first {self.quality.random} steps, and chosen by networks since")
        if (o := self.sizes.coordinates) > MANY:
            found.append(
                f"observations have {o} numbers: a step costs about {1 + o / 60:.0f} times as much as with a few, and "
                f"{o * 32 / 1000:.2g} kB of memory; a wrapper that leaves out what does not matter makes it faster"
            )
        if self.limit_agrees:
            found.append("the constraint is a function of observations, and called on imagined steps")
        if self.diverged:
            found.append(f"learning diverged {self.diverged} times; the parameters before it were kept")
        return tuple(found)

    def figures(self) -> QualityFigures | None:
        """How well the networks predict what they have not learnt yet."""
        return self.quality.figures(self)

    # --- learning ----------------------------------------------------------------------------------------------------
    def observe(self, step: Transition) -> None:
        """Learn one transition as it happens."""
        with deferred():
            self.quality.before(self, step)
            at = self._add(
                step.observation, step.action, step.reward, step.cost, step.next_observation, step.terminated
            )
            before = self.waiting.get(str(step.copy), np.zeros(0, np.int64))
            self.waiting[str(step.copy)] = np.append(before, at)
            if len(self.rows) >= AT_RANDOM:
                self._refresh_if_due()
                self._rounds(self.settings["rounds"])

    def learn(self, batch: Batch) -> None:
        """Learn from whole or truncated episodes; steps that were observed as they happened are not learnt again."""
        for which in batch.episodes():
            episode = batch.rows(which)
            with deferred():
                self._learn_episode(episode)
                violation = np.maximum(episode.costs, 0).sum(1).mean()
                self.price = self._floored(self.price, violation / max(float(self.cost_scale[0]), 1e-300))
                self.episode += 1
                self._newest = None

    def _learn_episode(self, episode: Batch) -> None:
        known = self._observed(episode)
        rest = episode.rows(slice(known, None))
        for i in range(len(rest)):
            self._add(
                rest.observations[i], int(rest.actions[i]), float(rest.rewards[i]), rest.costs[i],
                rest.next_observations[i], bool(rest.terminated[i]),
            )  # fmt: skip
        if len(rest) and len(self.rows) >= AT_RANDOM:
            self._refresh_if_due()
            self._rounds(min(len(rest) * self.settings["rounds"], MOST_OF_LOGGED))

    def _observed(self, episode: Batch) -> int:
        """How many of the first steps of an episode were observed as they happened; they no longer wait."""
        x = np.asarray(self.settings.value.encode(episode.observations))
        for copy, at in self.waiting.items():
            n = len(at)
            same = n <= len(episode) and (self.rows["a"][at] == episode.actions[:n]).all()
            same = same and (self.rows["x"][at] == x[:n]).all() and (self.rows["r"][at] == episode.rewards[:n]).all()
            if n and same:
                self.quality.after(self, at)
                del self.waiting[copy]
                return n
        return 0

    def _add(self, x: np.ndarray, a: int, r: float, g: np.ndarray, y: np.ndarray, ended: bool) -> int:
        x, y = (np.asarray(self.settings.value.encode(np.asarray(each)[None]))[0] for each in (x, y))
        change, deviation = self._predicted(x[None], np.array([a]))
        residual = y - x - change[0]
        standard = _standard(residual, deviation[0])
        self._newest = None
        return self.rows.add(x=x, a=a, r=r, g=g, y=y, ended=float(ended), residual=residual, standard=standard)

    def _predicted(self, x: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(n, o): the changes that the model predicts and their deviations, means of its members."""
        chosen = (a[:, None] == np.arange(self.sizes.actions)).astype(np.float32)
        found = world.predict_at(_in_numpy(self.state.steady), self.scales.inputs(x)[None], chosen[None])
        change, deviation = found.change.clip(-world.LARGEST, world.LARGEST).mean(0), world.deviation(found).mean(0)
        return np.asarray(change * self.scales.change), np.asarray(deviation * self.scales.change)

    def _floored(self, price: np.ndarray, violation: float) -> np.ndarray:
        """Eq. (13) for one price of all steps, which grows by the mean violation of a step."""
        observed, k = jnp.full((1, 1), violation, float), jnp.asarray(self.episode, jnp.int32)
        return np.asarray(self.penalty.update(jnp.asarray(price, float), observed, k), np.float64)

    @property
    def _rule(self) -> Rule:
        return Rule.of(self.settings.horizons, float(self.price[0, 0]), self.settings["tolerance"])

    def _rounds(self, count: int) -> None:
        """Rounds of learning, as many at a time as after each step."""
        k = self.settings["rounds"]
        units, rule = self.units, jax.tree.map(jnp.asarray, self._rule)
        for _ in range(max(count // k, 1)):
            drawn = rounds.draw(self.rng, self.rows, self.scales, self.sizes, k)
            if self.limit_agrees:
                drawn = drawn._replace(limit=self._limit_of(drawn))
            after, finite = rounds.learn(self.sizes, self.state, units, rule, drawn)
            if not finite:
                self.diverged += 1
                break
            self.state = after
        self._newest = None

    @property
    def units(self) -> Units:
        """Those of the scales, in arrays of JAX."""
        if self._units is None or self._units[0] is not self.scales:
            self._units = self.scales, Units(*map(jnp.asarray, self.scales.units))
        return self._units[1]

    def _limit_of(self, drawn: rounds.Drawn) -> np.ndarray | None:
        """(k, E, n, A, m): the constraints of imagined steps, called; None once they cannot be."""
        assert self.limit is not None
        scales, sizes = self.scales, self.sizes
        first = drawn.residuals[:, 0, :, :, 0]
        y = np.asarray(rounds.arrivals(sizes, self.state.steady, self.units, drawn.states, first))
        x = np.broadcast_to(drawn.states[..., None, :], y.shape)
        a = np.broadcast_to(np.arange(sizes.actions), y.shape[:-1])
        before, after = (scales.observations(each).reshape(-1, sizes.coordinates) for each in (x, y))
        g = self.limit(before, after, a.reshape(-1))
        if g is None or g.shape[1] != self.constraints:
            self.limit_agrees = False
            return None
        return scales.targets(g.reshape(*a.shape, self.constraints))

    def _refresh_if_due(self) -> None:
        two, last = self.scales.two, self.rows["g"][-1]
        surprised = bool((two & (last != self.scales.g_low) & (last != self.scales.g_high)).any())
        if self.fitted and not surprised and len(self.rows) < GROWN * self.fitted:
            return
        first = not self.fitted
        if self.limit is not None:
            self.limit_agrees = self.limit.agrees(*(self.rows[name] for name in ("x", "y", "a", "g")))
        self._rescale(self.scales.refreshed(self.rows, self.settings.environment.reward_range), anew=first)
        self.fitted = len(self.rows)
        if first:
            self._residuals_again()
        self._rounds(REFRESHED)
        self._rescale(self.scales.with_spread(*self._spread()))
        if first:
            self._residuals_again()

    def _rescale(self, new: Scales, anew: bool = False) -> None:
        """Other units, for the same functions; `anew`: nothing was learnt in the old ones."""
        if not anew:
            old, state = self.scales, jax.tree.map(np.asarray, self.state)
            made = {name: old.carried_world(getattr(state, name), new) for name in ("world", "steady")}
            made |= {name: old.carried_critics(getattr(state, name), new) for name in ("critics", "average")}
            self.state = self.state._replace(**jax.tree.map(jnp.asarray, made))
        self.scales = new

    def _residuals_again(self) -> None:
        """Those of the first steps, which nothing could predict."""
        rows = self.rows
        change, deviation = self._predicted(rows["x"], rows["a"])
        rows["residual"][:] = rows["y"] - rows["x"] - change
        rows["standard"][:] = _standard(rows["residual"], deviation)

    def _spread(self) -> tuple[np.ndarray, np.ndarray]:
        """(2 N,): mean and spread of the targets of critics."""
        of_world, average = _in_numpy(self.state.steady), _in_numpy(self.state.average)
        sizes, units = self.sizes, self.scales.units
        average = critics.scaled(average, sizes, units)
        means, spreads = [], []
        drawn = rounds.draw(self.rng, self.rows, self.scales, sizes, OF_SPREAD)
        for z, residuals in zip(drawn.states, drawn.residuals, strict=True):
            found = world.predict(of_world, z, sizes.actions)
            targets = critics.imagined(found, of_world, average, sizes, units, self._rule, z, residuals)
            targets = targets.reshape(-1, 2 * sizes.heads).astype(np.float64)
            means.append(targets.mean(0))
            spreads.append(targets.std(0))
        return np.mean(means, 0), np.mean(spreads, 0)

    # --- planning ----------------------------------------------------------------------------------------------------
    def newest(self, optimism: float | None = None) -> LearntPlan:
        """The plan of now, with the agent's optimism or another; nothing random is drawn from the agent's generator."""
        optimism = self.settings["optimism"] if optimism is None else optimism
        if self._newest is None or self._newest.optimism != optimism:
            self._newest = self._made(optimism)
        return self._newest

    def _made(self, optimism: float) -> LearntPlan:
        n, sizes, settings = len(self.rows), self.sizes, self.settings
        copies = (critics.DEPTH, sizes.members, copies_of(sizes.actions))
        residuals = np.zeros((*copies, sizes.coordinates), np.float32)
        if n:
            back = np.random.default_rng(n).integers(0, min(n, rounds.RECENT), copies)
            residuals = self.rows["standard"][n - 1 - back].astype(np.float32)
        return LearntPlan(
            value_encoder=settings.value,
            sizes=sizes,
            horizons=settings.horizons,
            scales=self.scales,
            model=_in_numpy(self.state.steady),
            averaged=_in_numpy(self.state.average),
            residuals=residuals,
            price=np.full((1, settings.environment.horizon), self.price[0, 0]),
            cost_scale=self.cost_scale,
            optimism=optimism,
            ahead=harm_to_go(self.constraints, settings.horizons, settings["tolerance"], optimism),
            trained=self.fitted > 0,
        )

    def plan(self, without_exploration: float | None = None) -> LearntPlan:
        """The newest plan; it is in force until the next episode."""
        if self.plan_in_force is None or len(self.rows) > self.planned:
            self.planned = len(self.rows)
            self.plans += 1
        self.plan_in_force = self.newest(without_exploration)
        return self.plan_in_force

    def plan_without_exploration(self, optimism: float = SHIPPED) -> LearntPlan:
        return self.newest(optimism)

    def plan_of_least_harm(self) -> None:
        """None: harm is that of the plan itself."""
        return None

    # --- saved and restored ------------------------------------------------------------------------------------------
    def saved(self, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        """Everything that decides how training goes on; plans are made again from it."""
        return {"fields": fields_but(self, MADE_AGAIN, arrays, "agent"), "planned": self.plan_in_force is not None}

    def restore(self, content: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Take over what `saved` returned. Raises ValueError if it does not fit together."""
        shapes = self._shapes()
        set_fields(self, MADE_AGAIN, content["fields"], arrays)
        self.rows.check(self.sizes.coordinates, self.constraints, self.sizes.actions)
        n, waiting = len(self.rows), list(self.waiting.values())
        fits = self._shapes() == shapes and all(np.isfinite(each).all() for each in self._numbers())
        fits = fits and self.quality.fits(n) and 0 <= self.fitted <= n and 0 <= self.planned <= n and self.episode >= 1
        fits = fits and bool(self.fitted) == (n >= AT_RANDOM)
        fits = fits and all(each.ndim == 1 and each.dtype.kind == "i" for each in waiting)
        fits = fits and all(((each >= 0) & (each < n)).all() for each in waiting)
        if not fits or not self.scales.usable:
            raise ValueError("other rows or networks")
        self._newest = None
        self.plan_in_force = self.newest() if content["planned"] else None

    def _numbers(self) -> list[np.ndarray]:
        """All arrays of networks and scales, and the price."""
        scales = {each.name: getattr(self.scales, each.name) for each in fields(Scales)}
        leaves = jax.tree.leaves((self.state, scales, self.price))
        return [np.asarray(each) for each in leaves]

    def _shapes(self) -> list[tuple[int, ...]]:
        return [each.shape for each in self._numbers()]


def _standard(residual: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """In predicted deviations."""
    return np.asarray((residual / deviation).clip(-MOST_DEVIATIONS, MOST_DEVIATIONS))


def _in_numpy(layers: Any) -> Any:
    """Views of arrays of JAX, which never change."""
    return jax.tree.map(np.asarray, layers)
