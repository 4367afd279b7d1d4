"""A comparison shared by the examples on environments: one environment, one constraint, equally many training steps.

Every agent is trained inside a `Recorder`, which records the reward and the violation of every step. LSVI-AE and LSVI
come from everystep; the baselines, with a price on violations, from `rivals`. After training each plays `EVALUATED`
episodes. Every seed runs in a separate process; intervals are bootstrap over seeds.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium
import matplotlib as mpl
import numpy as np
import rivals
from matplotlib.figure import Figure

import everystep as es
from everystep.cli.shared import progress_bar
from everystep.environments.play import constraints
from everystep.experiments import figures, statistics, tables

EVALUATED = 20  # evaluation episodes
OURS = ("lsvi-ae", "lsvi")
Policy = Callable[[Any, int], int]  # (observation, step from 1) to an action


@dataclass(frozen=True)
class Contest:
    """What is compared. Its functions are sent to processes by name, so they must be defined at the top of a script.

    make        the environment                    constraint   (obs, action, obs_next, info) -> signed, safe iff <= 0
    steps       training steps, for every agent    settings     of LSVI-AE and LSVI (cost settings: LSVI-AE only)
    learner     further arguments of `everystep.Learner`: features, horizon
    rivals      settings of stable-baselines3, by algorithm; prices: the prices tried per unit of violation
    true_mean   (obs, action) -> mean constraint; if given, it is counted instead of the observed constraint
    """

    name: str
    make: Callable[[], gymnasium.Env]
    constraint: constraints.Constraint
    steps: int
    settings: Mapping[str, Any]
    learner: Mapping[str, Any]
    rivals: Mapping[str, Mapping[str, Any]]
    prices: tuple[float, ...] = (0.0, 1.0, 10.0)
    true_mean: Callable[[Any, int], Any] | None = None
    window: int = 5  # episodes in the moving average of the figure


class Recorder(gymnasium.Wrapper):
    """Records the reward and the violation of every step; subtracts `price` times the violation from the reward."""

    def __init__(self, contest: Contest, price: float = 0.0) -> None:
        super().__init__(contest.make())
        self.contest, self.price = contest, price
        self.rewards: list[float] = []
        self.violations: list[float] = []
        self.ends: list[int] = [0]  # number of steps at the end of each episode

    def reset(self, **given: Any) -> Any:
        self._seen, info = self.env.reset(**given)
        return self._seen, info

    def step(self, action: Any) -> Any:
        after, reward, terminated, truncated, info = self.env.step(action)
        g = self.contest.constraint(self._seen, int(action), after, info)
        mean = self.contest.true_mean
        self.rewards.append(float(reward))
        self.violations.append(constraints.violation(g if mean is None else mean(self._seen, int(action))))
        if terminated or truncated:
            self.ends.append(len(self.violations))
        self._seen = after
        return after, float(reward) - self.price * constraints.violation(g), terminated, truncated, info

    def returns(self) -> np.ndarray:
        """The return of every finished episode."""
        return np.diff(np.cumsum([0.0, *self.rewards])[self.ends])


@dataclass(frozen=True)
class Outcome:
    """One agent, one seed. By training step: cumulative violations, mean return of the last `window` episodes."""

    violations: np.ndarray
    returns: np.ndarray
    final_return: float
    final_violations: float
    unsafe_steps: int
    seconds: float


@dataclass(frozen=True)
class Job:
    """One agent (a name, and the price on violations for a baseline) and one seed."""

    learner: str
    price: float
    seed: int

    @property
    def label(self) -> str:
        return self.learner if self.learner in OURS else f"{self.learner}, price {self.price:g}"


# --- one agent, one seed ----------------------------------------------------------------------------------------------
def outcome(contest: Contest, job: Job) -> Outcome:
    """Train for `contest.steps` steps, then evaluate the policy."""
    began, recorder = time.process_time(), Recorder(contest, job.price)
    policy = (ours if job.learner in OURS else theirs)(contest, job, recorder)
    seconds, n = time.process_time() - began, contest.steps
    final = Recorder(contest)
    for episode in range(EVALUATED):
        (seen, _), step, over = final.reset(seed=1_000_000 + episode), 1, False
        while not over:
            seen, _, terminated, truncated, _ = final.step(policy(seen, step))
            step, over = step + 1, terminated or truncated
    ends = np.array(recorder.ends)
    smooth = np.concatenate([[np.nan], statistics.moving_average(recorder.returns(), contest.window)])
    return Outcome(
        violations=np.cumsum(recorder.violations)[:n],
        returns=smooth[np.searchsorted(ends, np.arange(1, n + 1), side="right") - 1],
        final_return=float(final.returns().mean()),
        final_violations=float(np.sum(final.violations) / EVALUATED),
        unsafe_steps=int((np.array(recorder.violations[:n]) > 0).sum()),
        seconds=seconds,
    )


def ours(contest: Contest, job: Job, recorder: Recorder) -> Policy:
    """LSVI-AE or LSVI, as many episodes as the steps allow."""
    of_costs = ("beta_cost", "lam_cost", "react")
    settings = {key: each for key, each in contest.settings.items() if job.learner == "lsvi-ae" or key not in of_costs}
    recipe = {"lsvi-ae": es.agents.lsvi_ae, "lsvi": es.agents.lsvi}[job.learner](**settings)
    learner = es.Learner(recorder, recipe, constraint=contest.constraint, seed=job.seed, **contest.learner)
    while len(recorder.violations) < contest.steps:
        learner.train(max((contest.steps - len(recorder.violations)) // learner.length, 1))
    return learner.policy()


def theirs(contest: Contest, job: Job, recorder: Recorder) -> Policy:
    predict = rivals.learn(job.learner, recorder, contest.steps, job.seed, contest.rivals[job.learner])
    return lambda seen, step: predict(seen)


# --- all of them -----------------------------------------------------------------------------------------------------
def run(contest: Contest, doc: str) -> None:
    """The command of an example: every agent and seed, a table and a figure, written to a folder."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", default=f"out/examples/{contest.name}")
    options = parser.parse_args()
    learners = [(name, 0.0) for name in OURS] + list(product(contest.rivals, contest.prices))
    jobs = [Job(name, price, seed) for seed in range(options.seeds) for name, price in learners]
    by_agent: dict[str, list[Outcome]] = {}
    for job, each in zip(jobs, in_parallel(partial(outcome, contest), jobs), strict=True):
        by_agent.setdefault(job.label, []).append(each)
    best = best_rival({label: each for label, each in by_agent.items() if label not in OURS})
    print(table(contest, by_agent, best, options.seeds))
    out = Path(options.out)
    paths = figures.save(figure_of(contest, {label: by_agent[label] for label in (*OURS, best)}), out / contest.name)
    (out / f"{contest.name}.json").write_text(json.dumps(numbers(by_agent), indent=2) + "\n", encoding="utf-8")
    print(f"\nWritten to {out}; drawn: {paths[0]}")


def in_parallel(work: Callable[[Any], Any], jobs: Sequence[Any]) -> list[Any]:
    """`work` on every job, in one process per core."""
    context = multiprocessing.get_context("spawn")  # JAX has threads, which do not survive a fork
    by_agent = []
    with ProcessPoolExecutor(os.cpu_count(), context) as pool, progress_bar(len(jobs)) as advanced:
        for each in pool.map(work, jobs):
            by_agent.append(each)
            advanced(1)
    return by_agent


def best_rival(by_agent: Mapping[str, list[Outcome]]) -> str:
    """The fewest violations during training among those whose final return is within 10 % of the best baseline's."""
    final = {label: np.mean([each.final_return for each in outcomes]) for label, outcomes in by_agent.items()}
    top = max(final.values())
    good = [label for label, value in final.items() if value >= top - 0.1 * abs(top)]
    return min(good, key=lambda label: np.mean([each.violations[-1] for each in by_agent[label]]))


def numbers(by_agent: Mapping[str, list[Outcome]]) -> dict[str, dict[str, list[float]]]:
    """The numbers of the table, one per seed."""
    columns = {
        "violations_during_training": lambda each: float(each.violations[-1]),
        "unsafe_steps": lambda each: each.unsafe_steps,
        "final_return": lambda each: each.final_return,
        "final_violations_per_episode": lambda each: each.final_violations,
        "cpu_seconds": lambda each: round(each.seconds, 1),
    }
    return {
        label: {key: [of(each) for each in outcomes] for key, of in columns.items()}
        for label, outcomes in by_agent.items()
    }


def table(contest: Contest, by_agent: Mapping[str, list[Outcome]], best: str, seeds: int) -> str:
    """One line per agent: means over seeds with minimum and maximum."""
    spread = lambda row: f"{tables.number(np.mean(row))} [{tables.number(min(row))}, {tables.number(max(row))}]"
    rows = [
        [label + (" *" if label == best else ""), *map(spread, columns.values())]
        for label, columns in numbers(by_agent).items()
    ]
    head = ["agent", *(key.replace("_", " ") for key in next(iter(numbers(by_agent).values())))]
    return "\n".join(
        [
            f"{contest.name}: {contest.steps} training steps, {seeds} seeds; mean [minimum, maximum]",
            "",
            tables.aligned([head, *rows]),
            "",
            f"final: mean of {EVALUATED} evaluation episodes",
            "* the baseline in the figure: fewest violations among those within 10 % of the best final return",
        ]
    )


def figure_of(contest: Contest, by_agent: Mapping[str, list[Outcome]]) -> Figure:
    """Cumulative violations and return during training."""
    with mpl.rc_context(figures.STYLE):
        figure = Figure(figsize=(9.6, 3.9), layout="constrained")
        left, right = figure.subplots(1, 2)
        figures.bands(
            left, {label: np.stack([each.violations for each in outcomes]) for label, outcomes in by_agent.items()}
        )
        figures.bands(
            right, {label: np.stack([each.returns for each in outcomes]) for label, outcomes in by_agent.items()}
        )
        left.set(title="Violations during training", xlabel="training step", ylabel="cumulative violations")
        right.set(
            title="Return during training",
            xlabel="training step",
            ylabel=f"mean of the last {contest.window} episodes",
        )
        for axes in (left, right):
            figures.from_zero(axes)
            figures.name_ends(axes)
    return figure
