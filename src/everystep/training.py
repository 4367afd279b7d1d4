"""Learn on any environment with finitely many actions: gymnasium's, or one that looks like it.

result = train(env, "lsvi-ae", constraint=lambda obs, action, obs_next, info: ..., features=fourier(100), episodes=200)
result.episodes["violation"]; result.policy(obs); result.save("out/mine")

`Learner` is the same in steps: learn from logged data, train for some episodes, look, train on.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from everystep import store
from everystep.agents import Recipe, recipe
from everystep.constraints import Constraint
from everystep.errors import EverystepError, real_number, whole_number
from everystep.experiment import versions
from everystep.logged.batch import Batch
from everystep.open_agent import OpenAgent
from everystep.open_setup import OpenSetup
from everystep.parts.features import bind, one_hot
from everystep.parts.observations import Coordinates
from everystep.policies import Policy
from everystep.problem import FiniteCMDP
from everystep.rollout import Played, Round, Stage, play
from everystep.sides import LinearSide

MOST_STEPS = 10_000  # of an episode: its rows are learnt together
COLUMNS = ("return", "length", "violation", "unsafe_steps", "soft_violation", "planned")
LOOK_AHEAD = 50  # steps a plan looks ahead when nobody says, and episodes last longer


class BrokenError(EverystepError):
    """Training that could not go on. `result` is everything until then, as `train` would have returned it."""

    def __init__(self, sentence: str, result: Trained | None) -> None:
        super().__init__(sentence)
        self.result = result


@dataclass(frozen=True)
class Trained:
    """What came of training.

    episodes   an array for each column, one row an episode: return, length, violation (the sum of max(g, 0)),
               violation_1 ... where there are several constraints, unsafe_steps, soft_violation, planned
    policy     acts on observations; explores no more
    plans      how often a plan was made; beside it stands what theory counts rare plans by, up to a constant
    """

    episodes: dict[str, np.ndarray]
    policy: Policy
    plans: int
    spec: dict[str, Any]
    remarks: tuple[str, ...]

    def save(self, out: str | Path) -> Path:
        """Write a run folder: episodes.parquet, spec.json and policy/ (not by regressors). Refuse one that is taken."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        with store.folder(Path(out), self.spec) as folder:
            with (folder / "episodes.parquet").open("wb") as file:
                pq.write_table(pa.table(dict(self.episodes)), file, compression="zstd")
            if self.policy.can_be_saved:
                self.policy.save(folder / "policy")
            (folder / "spec.json").write_text(json.dumps(self.spec, indent=2) + "\n", encoding="utf-8")
        return Path(out)

    def __str__(self) -> str:
        n, total = len(self.episodes["return"]), self.episodes["violation"].sum()
        last = self.episodes["return"][-100:].mean() if n else math.nan
        lines = [
            f"{self.spec['agent']} on {self.spec['environment']}: {n} episodes, {self.plans} plans{self._scale()}, "
            f"violation {total:.4g} in all, mean return {last:.4g} in the last {min(n, 100)}",
            *(f"note: {remark}" for remark in self.remarks),
        ]
        return "\n".join(lines)

    def _scale(self) -> str:
        """d log(1 + K), or d H log(1 + K), for agents that plan rarely."""
        spec, d = self.spec, self.spec["d"]
        if spec["settings"]["switch"] == "none" or d is None:
            return ""
        estimators, words = (1, "d") if spec["settings"]["share_values"] else (spec["horizon"], "d H")
        return f" ({words} log(1 + K) = {d * estimators * math.log1p(len(self.episodes['return'])):.0f})"


def train(
    env: Any,
    agent: str | Recipe = "lsvi-ae",
    *,
    episodes: int = 100,
    warm_start: Batch | None = None,
    progress: Callable[[int], None] | None = None,
    **settings: Any,
) -> Trained:
    """Learn for so many episodes; `settings` are those of `Learner`. `warm_start` is logged data to learn from first.

    `progress(n)` is told whenever n more episodes are done. If the environment or the constraint function breaks, the
    error raised (`BrokenError`) has everything until then in its `result`.
    """
    learner = Learner(env, agent, **settings)
    if warm_start is not None:
        learner.learn(warm_start)
    return learner.train(episodes, progress)


class Learner:
    """An agent in an environment.

    env            a gymnasium environment, a vector environment, or the id of one; Discrete actions
    constraint     (obs, action, obs_next, info) -> one number or several, safe iff <= 0; None: as `info` says
    features       of (x, a), as `everystep.features` makes them; None: one-hot where observations are whole numbers
    cost_features  of the cost model; None: the same
    horizon        how many steps a plan looks ahead; None: the length of an episode, at most 50
    length         the most steps of an episode; None: the environment's own limit, else the horizon
    reward_range   (low, high) of rewards, which are scaled to [0, 1] by it; None: of what was seen, and 0
    envs           copies stepped together, if `env` is an id or knows its own: they share a plan
    """

    def __init__(
        self,
        env: Any,
        agent: str | Recipe = "lsvi-ae",
        *,
        constraint: Constraint | None = None,
        features: Any = None,
        cost_features: Any = None,
        horizon: int | None = None,
        length: int | None = None,
        reward_range: tuple[float, float] | None = None,
        seed: int = 0,
        envs: int = 1,
    ) -> None:
        self.recipe = recipe(agent)
        self.seed = whole_number("seed", seed, at_least=0)
        env = _made(env, whole_number("envs", envs))
        self.stage = Stage(env, constraint, self.seed)
        self.name = _name(env)
        ahead = LOOK_AHEAD if horizon is None else whole_number("horizon", horizon)
        self.length = whole_number("length", length) if length is not None else _limit(env) or ahead
        self.horizon = min(self.length, ahead) if horizon is None else ahead
        if self.length > MOST_STEPS:
            raise EverystepError(f"length is {self.length}; cut episodes after at most {MOST_STEPS} steps.")
        if self.horizon > self.length:
            raise EverystepError(
                f"horizon is {horizon}, an episode has at most {self.length} steps; set length, or less."
            )
        space, A = self.stage.observation_space, self.stage.actions
        lists = Coordinates.of(space).sizes
        features = one_hot() if features is None and lists is not None else features
        self._features = None if features is None else bind(features, space, A)
        self._cost_features = self._features if cost_features is None else bind(cost_features, space, A)
        self._sizes = (len(Coordinates.of(space).low), A)
        self.reward_range = _range(reward_range)
        self._rng = np.random.default_rng(self.seed)
        self.agent: OpenAgent | None = None  # made when the first cost says how many constraints there are
        self._columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        self._setup(constraints=1)  # so that wrong settings are said now

    # --- learning ----------------------------------------------------------------------------------------------------
    def learn(self, batch: Batch) -> None:
        """Learn from logged transitions, before or between episodes, as if they had been its own."""
        flat = self._flat(batch)
        agent = self._ready(batch.constraints)
        for side in (
            agent.setup.value,
            agent.setup.cost,
        ):  # so that a row that does not fit is said before any is learnt
            side.at(np.concatenate([flat.observations, flat.next_observations]))
        agent.learn(flat)

    def train(self, episodes: int, progress: Callable[[int], None] | None = None) -> Trained:
        """So many episodes more, and what came of all of them; what was learnt before is kept."""
        self.play(episodes, progress)
        return self.result()

    def play(self, episodes: int, progress: Callable[[int], None] | None = None) -> None:
        """So many episodes more; with copies, as many as fill up the last round."""
        left = whole_number("episodes", episodes)
        while left > 0:
            plans, number = self.plans, self.number
            try:
                came = self._round()
                played = [each for each in came.played if each.actions]
                for i, each in enumerate(played):
                    self._ready(len(each.costs[0])).learn(each.batch(self.number))
                    self._book(each, planned=self.plans > plans and i == 0)
            except EverystepError as error:
                raise self._broken(f"episode {number}: {error}") from error
            if came.broken is not None:
                raise self._broken(f"episode {number}, {came.broken}")
            left -= len(played)
            if progress is not None:
                progress(len(played))

    def _broken(self, sentence: str) -> BrokenError:
        try:
            kept = None if self.agent is None else self.result()
        except EverystepError:  # what broke the episode breaks the last plan as well
            kept = None
        what = "Nothing is kept." if kept is None else "What was seen until then is kept."
        return BrokenError(f"{sentence} {what}", kept)

    def result(self) -> Trained:
        """What came of training so far."""
        if self.agent is None:
            raise EverystepError("nothing was seen yet; train for an episode, or learn from logged data.")
        columns = {name: np.array(values) for name, values in self._columns.items()}
        return Trained(columns, self.policy(), self.plans, self.spec, self.remarks)

    def policy(self, optimism: float | None = None) -> Policy:
        """What was learnt, as a policy that explores no more; `optimism` as the agent's, or another (-1: cautious)."""
        if self.agent is None:
            raise EverystepError("nothing was seen yet; train for an episode, or learn from logged data.")
        optimism = None if optimism is None else real_number("optimism", optimism, -1, 1)
        setup = self.agent.setup
        return Policy(self.agent.settled(optimism), setup.value, setup.cost, self.spec)

    # --- what a reader should know -----------------------------------------------------------------------------------
    @property
    def plans(self) -> int:
        """How often a plan was made."""
        return 0 if self.agent is None else self.agent.plans

    @property
    def number(self) -> int:
        """The number of the coming episode, from 1."""
        return len(self._columns["return"]) + 1

    @property
    def remarks(self) -> tuple[str, ...]:
        assert self.agent is not None
        low, high = self.agent.reward_scale
        how = "as declared" if self.reward_range else "of what was seen, and 0"
        said = [f"rewards were scaled to [0, 1] from {low:g} to {high:g}, {how}"]
        least, most = self.agent.rewards_seen
        if least < low or most > high:
            said.append(
                f"rewards from {least:g} to {most:g} were seen, outside that range: values may be cut at the cap"
            )
        if self.length > self.horizon:
            said.append(f"plans look {self.horizon} steps ahead in episodes of up to {self.length}")
        setup = self.agent.setup
        return tuple(dict.fromkeys([*said, *setup.value.remarks, *(setup.cost.remarks if setup.has_costs else ())]))

    @property
    def spec(self) -> dict[str, Any]:
        """Everything that was decided, ready for JSON."""
        assert self.agent is not None
        setup = self.agent.setup
        return {
            "environment": self.name,
            "agent": self.recipe.name,
            "settings": setup.shown(),
            "value": setup.value.to_json(),
            "cost": setup.cost.to_json(),
            "d": setup.value.phi.d if isinstance(setup.value, LinearSide) else None,  # a kernel has no such number
            "horizon": self.horizon,
            "length": self.length,
            "constraints": setup.constraints,
            "reward_range": list(self.agent.reward_scale),
            "seed": self.seed,
            "first_action": self.stage.first_action,
            "confidence": setup.confidence,
            "versions": versions(),
        }

    # --- inside ------------------------------------------------------------------------------------------------------
    def _setup(self, constraints: int) -> OpenSetup:
        seen = (self._features, self._cost_features, self._sizes)
        return OpenSetup.of(self.recipe, *seen, self.horizon, self.length, constraints, self.reward_range)

    def _ready(self, constraints: int) -> OpenAgent:
        """The agent, made when the number of constraints is known."""
        if self.agent is None:
            self.agent = OpenAgent(self._setup(constraints), self.seed)
        if self.agent.setup.constraints != constraints:
            raise EverystepError(
                f"there are {constraints} constraints, before there were {self.agent.setup.constraints}; give as many."
            )
        return self.agent

    def _round(self) -> Round:
        """An episode in every copy. The very first step is random: nobody knows yet how many constraints there are."""
        acting = None if self.agent is None else self.agent.plan()
        react = self.agent is not None and self.agent.setup["react"]

        def choose(t: int, observations: np.ndarray) -> np.ndarray:
            nonlocal acting
            if acting is None and self.agent is not None:
                acting = self.agent.plan()
            if acting is None:
                return self._rng.integers(0, self.stage.actions, len(observations))
            return acting.choose(max(t - (self.length - self.horizon), 0), observations, self._rng)

        def told(t: int, observation: np.ndarray, a: int, cost: np.ndarray) -> None:
            nonlocal acting
            self._ready(len(cost))
            if react and acting is not None:
                acting = acting.reacted(max(t - (self.length - self.horizon), 0), observation[None], a, cost)

        return play(self.stage, self.length, choose, told)

    def _flat(self, batch: Batch) -> Batch:
        """Logged data as an episode of the environment would be: observations in rows, as it has them."""
        if not isinstance(batch, Batch) or not len(batch):
            raise EverystepError("the batch holds no transitions; give a Batch, as everystep.logged makes them.")
        if batch.actions.max() >= self.stage.actions:
            raise EverystepError(
                f"the batch has action {batch.actions.max()}; the environment has {self.stage.actions}, counted from 0."
            )
        if _listed(self.stage.observation_space):
            rows = lambda x: x
            fits = batch.observations.ndim == 1 and batch.observations.dtype.kind == "i"
        else:
            rows = lambda x: x.reshape(len(x), -1).astype(np.float64)
            fits = rows(batch.observations).shape[1] == self._sizes[0]
        if not fits:
            raise EverystepError(
                f"the batch has observations of shape {batch.observations.shape[1:]} and type "
                f"{batch.observations.dtype}; the environment has {self.stage.observation_space}: log what it shows."
            )
        before, after = rows(batch.observations), rows(batch.next_observations)
        return replace(batch, observations=before, next_observations=after)

    def _book(self, played: Played, planned: bool) -> None:
        """One row of the table. Harm is that of the true mean where the environment knows it, else of what was seen."""
        g = np.stack(played.means)
        harm, m = np.maximum(g, 0), g.shape[1]
        row = {
            "return": sum(played.rewards),
            "length": len(played.actions),
            "violation": harm.sum(),
            **({f"violation_{i + 1}": harm[:, i].sum() for i in range(m)} if m > 1 else {}),
            "unsafe_steps": int((harm > 0).any(1).sum()),
            "soft_violation": g.sum(),
            "planned": planned,
        }
        for name, value in row.items():
            self._columns.setdefault(name, []).append(value)


def _made(env: Any, copies: int) -> Any:
    """The environment, from itself or its id, in so many copies."""
    if not isinstance(env, str) and copies == 1:
        return env
    spec = env if isinstance(env, str) else getattr(env, "spec", None)
    if spec is None:
        raise EverystepError(f"envs is {copies}, but the environment does not know how to be made again; give its id.")
    try:
        import gymnasium
    except ImportError:
        raise EverystepError("an environment by its id needs gymnasium; install everystep[gym].") from None
    try:
        return gymnasium.make(spec) if copies == 1 else gymnasium.make_vec(spec, num_envs=copies)
    except (gymnasium.error.Error, ImportError) as error:
        raise EverystepError(f"environment '{spec}' cannot be made ({error}); check its id.") from None


def _name(env: Any) -> str:
    spec = getattr(env, "spec", None)
    return str(spec.id) if spec is not None else type(env).__name__


def _limit(env: Any) -> int | None:
    """The most steps of an episode, if the environment says so."""
    env = env.envs[0] if getattr(env, "envs", None) else env
    limit = getattr(getattr(env, "spec", None), "max_episode_steps", None)
    problem = getattr(getattr(env, "unwrapped", env), "problem", None)
    return int(limit) if limit is not None else problem.horizon if isinstance(problem, FiniteCMDP) else None


def _listed(space: Any) -> bool:
    """Whether observations are whole numbers from a list."""
    return hasattr(space, "n") and getattr(space, "shape", ()) == ()


def _range(given: Any) -> tuple[float, float] | None:
    if given is None:
        return None
    try:
        low, high = (float(each) for each in given)
    except (TypeError, ValueError):
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise EverystepError(f"reward_range is {given!r}; give two finite numbers, the lower first.")
    return low, high
