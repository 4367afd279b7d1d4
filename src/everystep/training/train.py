"""`es.train`: a whole training in one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from everystep import files
from everystep.agents.arguments import ONE_SEED, refuse_unknown
from everystep.agents.registry import TRAINED_BY_DEFAULT, Recipe
from everystep.environments.play.action_sets import ActionSet, Candidates
from everystep.environments.play.batch import Batch
from everystep.environments.play.constraints import Constraint
from everystep.environments.protocols import AnyEnv
from everystep.errors import path_from, whole_number
from everystep.training.arguments import FeaturesLike
from everystep.training.callbacks import Callback
from everystep.training.learner import OF_AGENTS, Learner
from everystep.training.options import EVALUATED, LEARNER, MEMORY, names
from everystep.training.policy import evaluation
from everystep.training.result import TrainingResult
from everystep.training.schedule import Schedule, progress_shown


@refuse_unknown("train", {**OF_AGENTS, **ONE_SEED})
def train(
    env: AnyEnv | str,
    agent: str | Recipe = TRAINED_BY_DEFAULT,
    *,
    episodes: int | None = None,
    steps: int | None = None,
    without_exploration: int = 0,
    warm_start: Batch | None = None,
    evaluate: int | None = None,
    progress: Callable[[int], None] | None = None,
    out: str | Path | None = None,
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
) -> TrainingResult:
    """Train an agent in an environment for `episodes` episodes (100), or for at least `steps` steps.

    env                  a gymnasium environment, a vector environment, or the id of one
    agent                the name of an agent, or an agent with settings: es.agents.lsvi_ahead(switch="5%"). "auto" is
                         lsvi-nets, which learns the environment by networks, if observations are measurements, actions
                         are numbers and no features are given; else lsvi-ahead. lsvi-ae computes less, for constraints
                         that one decision can keep (see `es.check_constraint`)
    episodes             number of episodes; 100 if `steps` is not given either
    steps                number of steps; the last episode is completed
    without_exploration  the last N episodes are played without exploration, as the returned policy plays, so that the
                         policy is tried, and learns from its violations, before it is used
    warm_start           logged data to start from (`es.logged`)
    evaluate             episodes that the policy plays after training, without learning; None: 20 if the environment
                         is given by its id, so that a new one can be made, else 0
    progress             called with n whenever n more episodes are done; None: a bar on a terminal, lines in a log
    out                  a run folder with checkpoints: the same call resumes after a kill, Ctrl-C or an error, returns
                         the result of a finished training, and continues it if `episodes` is larger
    constraint           (obs, action, obs_next, info) -> one number or several, safe iff <= 0; None: from `info`
    features             features of (x, a) from `everystep.features`; None: one-hot where observations are integers,
                         else selected from the data
    horizon              the number of steps a plan looks ahead; None: the length of an episode, at most 50
    length               the most steps of an episode; None: the environment's own limit, else the horizon
    seed                 seed of all randomness: the same seed repeats a training

    The other arguments are those of `Learner`.

    If the environment or the constraint function fails, a `BrokenError` is raised; its `result` is the training so far.
    Ctrl-C returns the result so far; a second Ctrl-C raises KeyboardInterrupt.

    >>> env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
    >>> result = es.train(env, "lsvi-ae", episodes=3, evaluate=2)
    >>> result.columns["return"].shape, result.evaluation.columns["return"].shape
    ((3,), (2,))
    """
    options = {name: value for name, value in locals().items() if name in (*names(LEARNER), "seed", "envs")}
    place = None if out is None else files.absolute(path_from("out", out))  # the environment may change the folder
    by_id = isinstance(env, str)
    evaluated = whole_number("evaluate", (EVALUATED if by_id else 0) if evaluate is None else evaluate, 0)
    learner = Learner(env, agent, **options)
    schedule = Schedule.of(episodes, steps, without_exploration, learner.stage.copies)
    if place is not None:
        from everystep.training.folder import training_folder

        with progress_shown(learner, schedule.total, progress, schedule.steps) as report:
            result = training_folder.train(learner, place, schedule, warm_start, report)
    else:
        if warm_start is not None:
            learner.learn(warm_start)
        result = learner.train(episodes, progress, without_exploration, steps=steps)
    if not evaluated or not (schedule.is_over(*learner.played) or learner.stopped):  # it was stopped by Ctrl-C
        return result
    found = evaluation.evaluate(result.policy, env, constraint=constraint, episodes=evaluated)
    if place is not None:
        from everystep.training.policy import evaluation_file as training_evaluation

        training_evaluation.keep(result, found, place)
    return replace(result, evaluation=found)
