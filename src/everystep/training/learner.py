"""Learning on any environment: gymnasium's, or one with the same interface.

result = train(env, constraint=lambda obs, action, obs_next, info: ..., features=fourier(100), episodes=200)
result.columns["violation"]; result.episodes; result.policy(obs); result.save("out/mine")

`Learner` does the same in steps: learn from logged data, train for some episodes, look at the result, train on.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from everystep.agents.arguments import ONE_SEED, refuse_unknown
from everystep.agents.registry import TRAINED_BY_DEFAULT, Recipe, recipe, suited_to, where_settings_belong
from everystep.environments.play.action_sets import ActionSet, Candidates
from everystep.environments.play.batch import Batch, BatchBuilder
from everystep.environments.play.constraints import Constraint
from everystep.environments.play.making import environment_name, episode_limit, made
from everystep.environments.play.rollout import Stage, StepError, Transition, play
from everystep.environments.protocols import AnyEnv
from everystep.errors import (
    LARGEST,
    MOST_COPIES,
    EverystepError,
    check_type,
    path_from,
    raised,
    real_number,
    seed_number,
    true_or_false,
    whole_number,
)
from everystep.experiments.experiment import versions
from everystep.experiments.folder import run_folder
from everystep.experiments.result import episode_columns
from everystep.features.spaces import Coordinates
from everystep.runtime.signals import PausedError, deferred
from everystep.training import callbacks
from everystep.training.agent.automatic import Chosen, features_of
from everystep.training.agent.contract import StepwiseAgent, TrainingAgent, TrainingPlan, TrainingSettings
from everystep.training.agent.resolve import EnvironmentInfo, ResolvedForTraining
from everystep.training.agent.stored_agent import SHIPPED
from everystep.training.arguments import FeaturesLike, flattened, is_listed, most_states, range_of_rewards
from everystep.training.blas_threads import one_blas_thread
from everystep.training.callbacks import Callback
from everystep.training.columns import Columns, Number
from everystep.training.diagnosis import checks, record
from everystep.training.diagnosis.finding import Diagnosis
from everystep.training.diagnosis.fit import CostFit, about_cost_features
from everystep.training.learnt.limit import limit_of
from everystep.training.learnt.settings import LearntSettings, check_inputs
from everystep.training.options import MEMORY
from everystep.training.policy.observed import Observed
from everystep.training.policy.policy import Policy
from everystep.training.result import BrokenError, TrainingResult
from everystep.training.schedule import Schedule, interrupt_remark, progress_shown

FORMAT = 2  # of spec.json; format 1 had no number, and the guarantee under "confidence"
MOST_STEPS = 10_000  # of an episode, whose rows are learnt together
COLUMNS = ("return", "length", "violation", "unsafe_steps", "soft_violation", "planned")
LOOK_AHEAD = 50  # default steps a plan looks ahead, if episodes are longer

OF_AGENTS = where_settings_belong()
_OF_TRAIN = {  # arguments of `train`, but not of `Learner`
    **{
        name: f"give it to its train, as in learner.train({name}=...)"
        for name in ("episodes", "steps", "without_exploration", "progress")
    },
    "warm_start": "give it to its learn, as in learner.learn(batch)",
    "evaluate": "use es.evaluate(learner.policy(), env)",
    "out": "use es.train, which keeps checkpoints, or learner.save",
}
_SAVED = "it is saved with the learner; leave it out"


class SoFar(NamedTuple):
    steps: int
    violation: float


class Learner:
    """An agent in an environment.

    env            a gymnasium environment, a vector environment, or the id of one
    agent          an agent, as in `train`
    constraint     (obs, action, obs_next, info) -> one number or several, safe iff <= 0; None: from `info`
    features       features of (x, a) from `everystep.features`, or "auto": selected from the data
                   (`training/agent/automatic.py`); None: one-hot where observations are integers, else "auto"
    cost_features  features of the cost model; None: the same as `features`
    horizon        the number of steps a plan looks ahead; None: the length of an episode, at most 50
    length         the most steps of an episode; None: the environment's own limit, else the horizon
    reward_range   (low, high), which scales rewards to [0, 1]; None: the range of the observed rewards and 0
    memory         the most states at which plans compute values, where observations are not integers: beyond it,
                   neighbouring states share a value; 0 or None: no limit
    actions        the candidates where the action space is a Box: es.actions.grid(5), sobol(64) or listed(...);
                   None: grid(5) if it has at most 125 candidates, else sobol(64)
    seed           seed of all randomness: the same seed repeats a training
    envs           number of copies stepped together with one plan, if `env` is an id or has a spec
    reseed         begin every episode with reset(seed=...), derived from `seed` and the number of the episode
    on_episode     a function of the learner, called after every episode (see `callbacks.py`); True ends the training
    on_plan        likewise after every new plan; training then ends after the episode

    >>> env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
    >>> learner = es.Learner(env, "lsvi-ae", seed=0)
    >>> learner.learn(es.logged.from_env(env, None, episodes=2))
    >>> result = learner.train(2)
    >>> result.columns["return"].shape, learner.number, learner.plans
    ((2,), 3, 2)
    """

    @refuse_unknown("Learner", {**OF_AGENTS, **_OF_TRAIN, **ONE_SEED})
    def __init__(
        self,
        env: AnyEnv | str,
        agent: str | Recipe = TRAINED_BY_DEFAULT,
        *,
        constraint: Constraint | None = None,
        features: FeaturesLike | None = None,
        cost_features: FeaturesLike | None = None,
        horizon: int | None = None,
        length: int | None = None,
        reward_range: tuple[float, float] | None = None,
        memory: int | None = MEMORY,
        actions: ActionSet | Candidates | None = None,
        seed: int = 0,
        envs: int = 1,
        reseed: bool = False,
        on_episode: Callback | None = None,
        on_plan: Callback | None = None,
    ) -> None:
        self.on_episode, self.on_plan = on_episode, on_plan
        for name, given in (("on_episode", on_episode), ("on_plan", on_plan)):
            check_type(name, given, (Callable, type(None)), "a function of the learner")  # type: ignore[arg-type]
        self.stopped = False  # by one of them
        named = None if agent == TRAINED_BY_DEFAULT else recipe(agent)
        self.seed = seed_number("seed", seed)
        env = made(env, whole_number("envs", envs, at_most=MOST_COPIES))
        self.stage = Stage(env, constraint, self.seed, reseed=true_or_false("reseed", reseed), actions=actions)
        self.name = environment_name(env)
        ahead = LOOK_AHEAD if horizon is None else whole_number("horizon", horizon)
        own_limit = episode_limit(env)
        self.length = whole_number("length", length) if length is not None else own_limit or ahead
        self.cuts_unasked = length is None and own_limit is None
        self.horizon = min(self.length, ahead) if horizon is None else ahead
        if self.length > MOST_STEPS:
            raise EverystepError(f"length is {self.length}; cut episodes after at most {MOST_STEPS} steps.")
        if self.horizon > self.length:
            raise EverystepError(
                f"horizon is {horizon}, but an episode has at most {self.length} steps; set length, or a lower horizon."
            )
        space, A = self.stage.observation_space, self.stage.action_points
        coordinates = Coordinates.of(space)
        featured, numbered = not (features is None is cost_features), self.stage.candidates.points is None
        self.recipe = named or recipe(suited_to(is_listed(space), numbered, featured))
        if by_networks := self.recipe.definition.networks:
            check_inputs(self.recipe.name, space, features, cost_features)
        found = None if by_networks else features_of(self.recipe, space, A, features, cost_features, self.seed)
        self.automatic, chosen = found or (None, Chosen(None, None))
        kind = LearntSettings if by_networks else ResolvedForTraining
        self.resolved: TrainingSettings = kind.resolve(
            self.recipe,
            EnvironmentInfo(
                **chosen._asdict(),
                coordinates=len(coordinates.low),
                actions=self.stage.actions,
                horizon=self.horizon,
                length=self.length,
                reward_range=range_of_rewards(reward_range),
                limit=limit_of(constraint, space, self.stage.candidates) if by_networks else None,
                memory=None if coordinates.sizes is not None else most_states(memory, self.stage.candidates),
            ),
        )
        self.requested = self.resolved  # before features are chosen
        self.observed = Observed.of(space, self.resolved.cost.shares_nothing)
        self._rng = np.random.default_rng(self.seed)
        self.agent: TrainingAgent | None = None  # made when the first cost shows how many constraints there are
        self._columns: dict[str, list[Number]] = {name: [] for name in COLUMNS}
        self._as_arrays = Columns()
        self._plans_in_rows = 0  # those that the column `planned` shows
        self._interrupts: list[str] = []
        self.fit = CostFit(self.resolved.steps)
        self.recent: list[Batch] = []  # the last transitions, for `diagnose`

    # --- learning ----------------------------------------------------------------------------------------------------
    @one_blas_thread()
    def learn(self, batch: Batch) -> None:
        """Learn from logged transitions, before or between episodes, as from episodes that it played."""
        flat = flattened(batch, self.stage)
        agent = self._ready(batch.constraints)
        for encoder in (self.resolved.value, self.resolved.cost):  # a wrong row is refused before any row is learnt
            encoder.encode(np.concatenate([flat.observations, flat.next_observations]))
        self._learn(agent, flat)

    def train(
        self,
        episodes: int | None = None,
        progress: Callable[[int], None] | None = None,
        without_exploration: int = 0,
        *,
        steps: int | None = None,
    ) -> TrainingResult:
        """Play `episodes` or `steps` more (see `play`), and return the result of all episodes; Ctrl-C ends it early.

        The last `without_exploration` episodes are played without exploration, as the returned policy plays.
        """
        schedule = Schedule.of(episodes, steps, without_exploration)
        try:
            with progress_shown(self, schedule.total, progress, steps) as report:
                if steps is not None:
                    self.play(progress=report, steps=steps)
                else:
                    self.play(schedule.exploring, report)
                    if (last := schedule.total - schedule.exploring) and not self.stopped:
                        self.play(last, report, explore=False)
        except KeyboardInterrupt:
            if self.agent is None:  # there is nothing to return
                raise
        return self.result()

    @one_blas_thread()
    def play(
        self,
        episodes: int | None = None,
        progress: Callable[[int], None] | None = None,
        explore: bool = True,
        *,
        steps: int | None = None,
    ) -> None:
        """Play `episodes` more episodes, or at least `steps` more steps; the last episode is completed.

        With copies the last round is completed. With explore=False it acts as `policy()` does, and keeps learning. On
        Ctrl-C it learns every step that was played, and raises KeyboardInterrupt. `stopped` is True if `on_episode` or
        `on_plan` ended it early.

        >>> env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
        >>> learner = es.Learner(env, "lsvi-ae", seed=0)
        >>> learner.play(2)
        >>> learner.so_far.steps, learner.last_episode["length"], len(learner.columns["violation"])
        (8, 4, 2)
        """
        self.stopped = False
        total = None if steps is None else self.so_far.steps + whole_number("steps", steps)
        wanted = LARGEST if episodes is None and steps is not None else whole_number("episodes", episodes)
        first, last = self.number, self.number + wanted
        if progress is not None:
            check_type("progress", progress, Callable, "a function of the number of episodes")  # type: ignore[arg-type]
        waiting: list[BatchBuilder] = []  # played, but not learnt
        try:
            while (number := self.number) < last and (total is None or self.so_far.steps < total) and not self.stopped:
                self._play_and_learn(waiting, explore)
                if progress is not None:
                    self._tell(progress, self.number - number)
        except PausedError:
            raise
        except KeyboardInterrupt:
            unfinished = [len(each) for each in waiting if len(each) and not each.over]
            self.learn_played(waiting)
            self._interrupts.append(interrupt_remark(self.number - first, None if total else wanted, unfinished))
            raise

    def _play_and_learn(self, waiting: list[BatchBuilder], explore: bool) -> None:
        """An episode in every copy. After an interrupt `waiting` holds what has not been learnt."""
        number, failure = self.number, None
        waiting[:] = [BatchBuilder() for _ in range(self.stage.copies)]
        try:
            self._play_round(list(waiting), explore)
        except StepError as error:
            failure = error
        except EverystepError as error:
            raise self._broken(f"episode {number}: {error}") from error
        self.learn_played(waiting)
        if failure is not None:
            raise self._broken(f"episode {number}, {failure}") from failure

    def learn_played(self, waiting: list[BatchBuilder]) -> None:
        """Learn what was played, one episode after another; each is learnt and has a row, or neither."""
        try:
            while waiting:
                with deferred():
                    builder = waiting.pop(0)
                    if len(builder):
                        batch = builder.batch(self.stage.actions)
                        agent = self._ready(batch.constraints)
                        if agent.plan_in_force is not None:
                            self.fit.add(agent.plan_in_force, batch, np.stack(builder.mean_costs))
                        self._learn(agent, batch)
                        self._add_row(builder)
                if len(builder):
                    self._ask("on_episode")
        except BrokenError:
            raise
        except EverystepError as error:
            raise self._broken(f"episode {self.number}: {error}") from error

    def _ask(self, name: str) -> None:
        """Call `on_episode` or `on_plan`, which may end training."""
        try:
            asked = callbacks.asks_to_stop(name, getattr(self, name), self)
        except EverystepError as error:
            raise self._broken(f"after episode {self.number - 1}, {error}") from error
        if asked and not self.stopped:
            self.stopped = True
            self._interrupts.append(f"{name} ended training after {self.so_far.steps} steps")

    def _tell(self, progress: Callable[[int], None], episodes: int) -> None:
        """Call `progress`; its errors are reported, and no data is lost."""
        try:
            progress(episodes)
        except (KeyboardInterrupt, EverystepError):
            raise
        except BaseException as error:
            sentence = "progress raised {} ({}); correct it.".format(*raised(error))
            raise self._broken(f"after episode {self.number - 1}, {sentence}") from error

    def _broken(self, sentence: str) -> BrokenError:
        try:
            kept = None if self.agent is None else self.result()
        except EverystepError:  # the last plan fails like the episode
            kept = None
        what = "Nothing is kept." if kept is None else "Everything before it is kept."
        return BrokenError(f"{sentence} {what}", kept)

    @one_blas_thread()
    def result(self) -> TrainingResult:
        """The result of training so far.

        >>> env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
        >>> learner = es.Learner(env, "lsvi-ae", seed=0)
        >>> learner.play(1)
        >>> learner.result().plans, learner.spec["horizon"], len(learner.actions)
        (1, 4, 4)
        >>> learner.remarks[0]
        'rewards were scaled to [0, 1] from 0 to 0.01, the range of observed rewards and 0'
        """
        policy = self.policy()
        found = checks.observed(self, policy.plan)
        if any(each.about in ("agent", "fit") for each in found):  # costs that are not understood: would others be?
            found += about_cost_features(self)
        error = self.fit.error_remark
        remarks = (*self.remarks, *(() if error is None else (error,)), *(each.remark for each in found))
        columns = {name: each.copy() for name, each in self.columns.items()}
        return TrainingResult(columns, policy, self.plans, self.spec, remarks, found=record.of(self, remarks))

    @one_blas_thread()
    def policy(self, optimism: float = SHIPPED) -> Policy:
        """The policy without exploration.

        optimism   which estimate of costs, and of the violation ahead, its choices use: 0 the mean, -1 the upper end of
                   the interval, 1 the lower end, as an agent does while it explores

        >>> env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
        >>> learner = es.Learner(env, "lsvi-ae", seed=0)
        >>> learner.play(5)
        >>> learner.policy(optimism=-1).certify(0).tolist()
        [1, 1, 1, 1]
        """
        if self.agent is None:
            raise EverystepError("there is no data yet; train for an episode, or learn from logged data.")
        optimism = real_number("optimism", optimism, -1, 1)
        known = self.actions
        chosen = None if known.values is None else known
        return Policy(self.agent.plan_without_exploration(optimism), self.spec, self.observed, chosen)

    def diagnose(self) -> Diagnosis:
        """Problems of the training, each with the setting to change; print it.

        >>> env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
        >>> learner = es.Learner(env, "lsvi-ae", seed=0)
        >>> learner.play(3)
        >>> str(learner.diagnose()).split(":")[0]
        'constraints'
        """
        return checks.diagnose(self)

    # --- folders -----------------------------------------------------------------------------------------------------
    def save(self, folder: str | Path, force: bool = False) -> Path:
        """Save everything that training depends on, atomically; an existing learner is replaced.

        A file that another program wrote or changed is replaced only with `force`.

        >>> env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
        >>> learner = es.Learner(env, "lsvi-ae", seed=0)
        >>> learner.play(1)
        >>> folder = learner.save("out/learner")
        >>> es.Learner.load("out/learner", env).number
        2
        """
        from everystep.training.folder import checkpoint

        target = path_from("folder of a learner", folder)
        checkpoint.save(self, target, force)
        return target

    @classmethod
    @refuse_unknown("Learner.load", dict.fromkeys(("horizon", "length", "seed", "memory", "actions", "envs"), _SAVED))
    def load(
        cls,
        folder: str | Path,
        env: AnyEnv | str,
        agent: str | Recipe | None = None,
        *,
        constraint: Constraint | None = None,
        features: FeaturesLike | None = None,
        cost_features: FeaturesLike | None = None,
    ) -> Learner:
        """A saved learner, in the same environment, which continues as if it had not stopped.

        Functions are not saved: pass a constraint function, custom features, and an agent with a custom kernel again.
        """
        from everystep.training.folder import checkpoint

        saved = checkpoint.SavedLearner(path_from("folder of a learner", folder))
        saved.check_environment(name=environment_name(made(env, 1)) if isinstance(env, str) else environment_name(env))
        learner = cls(env, **saved.arguments(env, agent, constraint, features, cost_features))
        saved.restore(learner)
        return learner

    # --- about the training ------------------------------------------------------------------------------------------
    @property
    def actions(self) -> Candidates:
        """The actions that it chooses among, by number; `nearest` numbers logged ones."""
        return self.stage.candidates

    @property
    def plans(self) -> int:
        """The number of plans so far."""
        return 0 if self.agent is None else self.agent.plans

    @property
    def so_far(self) -> SoFar:
        """The number of steps, and the violation, until now."""
        columns = self.columns
        return SoFar(int(columns["length"].sum()), float(columns["violation"].sum()))

    @property
    def played(self) -> tuple[int, int]:
        """The numbers of episodes and of steps until now."""
        return self.number - 1, self.so_far.steps

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """The columns of the result so far, as arrays that cannot be changed."""
        return {name: self._as_arrays.of(name, values) for name, values in self._columns.items()}

    @property
    def last_episode(self) -> dict[str, Number]:
        """The newest row of `columns`, by name."""
        if self.number == 1:
            raise EverystepError("there is no episode yet; train for one.")
        return {name: values[-1] for name, values in self._columns.items()}

    @property
    def number(self) -> int:
        """The number of the coming episode, from 1."""
        return len(self._columns["return"]) + 1

    @property
    def remarks(self) -> tuple[str, ...]:
        """Notes on the results, one sentence each."""
        assert self.agent is not None
        resolved, (low, high) = self.resolved, self.agent.reward_scale
        source = "as declared" if resolved.environment.reward_range else "the range of observed rewards and 0"
        found = [f"rewards were scaled to [0, 1] from {low:g} to {high:g}, {source}"]
        least, most = self.agent.rewards_seen
        if least < low or most > high:
            found.append(f"rewards from {least:g} to {most:g} were observed, outside that range: values may be clipped")
        for i, scale in enumerate(self.agent.cost_scale, 1):
            which = "the constraint" if self.agent.constraints == 1 else f"constraint {i}"
            if scale not in (0, 1):  # 0: there was no cost but 0
                found.append(f"{which} was divided by {scale:g}, its largest size, before it was learnt")
        found += () if self.actions.remark is None else (self.actions.remark,)
        if self.length > self.horizon and not self.resolved.learns_at_every_step:
            found.append(f"plans look {self.horizon} steps ahead in episodes of up to {self.length}")
        found += self.agent.remarks
        found += [*resolved.value.remarks, *(resolved.cost.remarks if resolved.has_costs else ()), *self._interrupts]
        found += () if self.automatic is None else self.automatic.remarks
        return tuple(dict.fromkeys(found))

    @property
    def decided(self) -> dict[str, Any]:
        """The seed, and the values of the options that a checkpoint is compared with (`training/options.py`)."""
        declared, memory = self.resolved.environment.reward_range, self.resolved.environment.memory
        return {
            "horizon": self.horizon,
            "length": self.length,
            "reward_range": None if declared is None else list(declared),
            "memory": memory,
            "seed": self.seed,
            "reseed": self.stage.reseed,
        }

    @property
    def spec(self) -> dict[str, Any]:
        """Everything that was decided, ready for JSON."""
        assert self.agent is not None
        resolved = self.resolved
        return {
            "kind": run_folder.TRAINING,
            "format": FORMAT,
            "environment": self.name,
            "agent": self.recipe.name,
            "settings": resolved.to_json(),
            "value": resolved.value.to_json(),
            "cost": resolved.cost.to_json(),
            "d": resolved.value.d,
            **self.decided,
            "reward_range": list(self.agent.reward_scale),
            "constraints": self.agent.constraints,
            "first_action": self.stage.first_action,
            "confidence": resolved.confidence,
            "guarantee": resolved.guarantee,
            "versions": versions(),
        }

    # --- inside ------------------------------------------------------------------------------------------------------
    def _ready(self, constraints: int) -> TrainingAgent:
        """The agent, made when the number of constraints is known."""
        if self.agent is None:
            self.agent = self.resolved.agent(constraints, self.seed)
        if self.agent.constraints != constraints:
            raise EverystepError(
                f"there are {constraints} constraints, and {self.agent.constraints} before; give the same number."
            )
        return self.agent

    def _learn(self, agent: TrainingAgent, batch: Batch) -> None:
        """Learn a batch; where features are chosen, everything again whenever they are."""
        self.recent = checks.recent(self.recent, batch)
        self.observed = self.observed.with_rows(batch.observations)
        if self.automatic is None or not self.automatic.due(batch):
            agent.learn(batch)
            return
        chosen, batches = self.automatic.choose()
        self.use_features(chosen)
        self.agent = self.resolved.agent(agent.constraints, self.seed)
        self.agent.plans, self.agent.rng = agent.plans, agent.rng
        for each in batches:
            self.agent.learn(each)

    def use_features(self, chosen: Chosen) -> None:
        """Resolve the settings for features that were selected; the caller makes the agent again."""
        environment = self.resolved.environment._replace(**chosen._asdict())
        self.resolved = ResolvedForTraining.resolve(self.recipe, environment)

    def _play_round(self, builders: list[BatchBuilder], explore: bool) -> None:
        """An episode in every copy. The first action is random, because the number of constraints is unknown."""
        looking = self.automatic is not None and self.automatic.looking
        plan = None if self.agent is None or looking else self._plan(explore)
        reacts = self.resolved["react"] and not looking
        stepwise = self.resolved.learns_at_every_step
        plan_step = self.resolved.countdown

        def choose(t: int, observations: list[Any], x: np.ndarray) -> np.ndarray:
            nonlocal plan
            if plan is None and self.agent is not None and not looking:
                plan = self._plan(explore)
            if plan is None:
                return self._rng.integers(0, self.stage.actions, len(x))
            if stepwise and t:
                plan = cast(StepwiseAgent, self.agent).newest(None if explore else SHIPPED)
            return plan.choose(plan_step(t), x, self._rng)

        def on_step(step: Transition) -> None:
            nonlocal plan
            agent = self._ready(len(step.cost))
            if stepwise:
                cast(StepwiseAgent, agent).observe(step)
            if reacts:  # also in the very first episode, which has a plan once the number of constraints is known
                plan = self._plan(explore) if plan is None else plan
                plan = plan.with_cost(plan_step(step.step), step.observation[None], step.action, step.cost)

        play(self.stage, builders, choose, length=self.length, episode=self.number, on_step=on_step)

    def _plan(self, explore: bool) -> TrainingPlan:
        assert self.agent is not None
        before = self.plans
        plan = self.agent.plan() if explore else self.agent.plan_without_exploration()
        if self.plans > before:
            self._ask("on_plan")
        return plan

    def _add_row(self, builder: BatchBuilder) -> None:
        """Add a row. Violations are of the true mean constraints where the environment reports them."""
        planned, self._plans_in_rows = self.plans > self._plans_in_rows, self.plans
        g = np.stack(builder.mean_costs)
        violation, earned = np.maximum(g, 0), sum(builder.rewards)
        columns = episode_columns(
            earned=earned,
            violation=violation.sum(),
            by_constraint=[each.sum() for each in violation.T],
            unsafe_steps=int((violation > 0).any(1).sum()),
            soft_violation=g.sum(),
        )
        row = {"return": earned, "length": len(builder)} | columns | {"planned": planned}
        for name, value in row.items():
            self._columns.setdefault(name, []).append(value)
