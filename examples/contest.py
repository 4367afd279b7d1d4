"""A fair comparison, shared by examples on gymnasium environments: one environment, one constraint, equally many steps.

Every learner plays inside `Books`, which count the harm of every step of its training. LSVI-AE and LSVI come from
everystep; those that people would reach for, with a price on harm, from `rivals`. What each has learnt then plays
`EVALUATED` episodes without learning. Seeds run in processes of their own; intervals are bootstrap over seeds.
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
from everystep import constraints, figures, stats, tables
from everystep.cli import bar

EVALUATED = 20  # episodes of what was learnt
OURS = ("lsvi-ae", "lsvi")
Policy = Callable[[Any, int], int]  # (observation, step from 1) to an action


@dataclass(frozen=True)
class Contest:
    """What is compared. Its functions are known to processes by their names, so they are named at the top of a script.

    make        the environment                    constraint   (obs, action, obs_next, info) -> signed, safe iff <= 0
    steps       of training, for every learner     settings     of the two agents (those of costs are for LSVI-AE alone)
    learner     what else `everystep.Learner` is given: features, horizon
    rivals      settings of stable-baselines3, by algorithm; prices: those tried on a unit of harm
    true_mean   (obs, action) -> mean constraint, counted instead of what was observed where it is known
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
    window: int = 5  # episodes in the moving average of the picture


class Books(gymnasium.Wrapper):
    """Writes down the reward and the harm of every step; takes `price` times the harm seen off the reward."""

    def __init__(self, contest: Contest, price: float = 0.0) -> None:
        super().__init__(contest.make())
        self.contest, self.price = contest, price
        self.rewards: list[float] = []
        self.harm: list[float] = []
        self.ends: list[int] = [0]  # steps done when an episode was over

    def reset(self, **given: Any) -> Any:
        self._seen, info = self.env.reset(**given)
        return self._seen, info

    def step(self, action: Any) -> Any:
        after, reward, terminated, truncated, info = self.env.step(action)
        g = self.contest.constraint(self._seen, int(action), after, info)
        mean = self.contest.true_mean
        self.rewards.append(float(reward))
        self.harm.append(constraints.harm(g if mean is None else mean(self._seen, int(action))))
        if terminated or truncated:
            self.ends.append(len(self.harm))
        self._seen = after
        return after, float(reward) - self.price * constraints.harm(g), terminated, truncated, info

    def returns(self) -> np.ndarray:
        """Of every episode that is over."""
        return np.diff(np.cumsum([0.0, *self.rewards])[self.ends])


@dataclass(frozen=True)
class Outcome:
    """One learner, one seed. By step of training: harm so far, and the mean return of the last `window` episodes."""

    harm: np.ndarray
    returns: np.ndarray
    final_return: float
    final_harm: float
    unsafe_steps: int
    seconds: float


@dataclass(frozen=True)
class Job:
    """One learner (a name, and the price on harm for a rival) and one seed."""

    learner: str
    price: float
    seed: int

    @property
    def label(self) -> str:
        return self.learner if self.learner in OURS else f"{self.learner}, price {self.price:g}"


# --- one learner, one seed -------------------------------------------------------------------------------------------
def outcome(contest: Contest, job: Job) -> Outcome:
    """Train for so many steps, then evaluate what was learnt."""
    began, books = time.process_time(), Books(contest, job.price)
    policy = (ours if job.learner in OURS else theirs)(contest, job, books)
    seconds, n = time.process_time() - began, contest.steps
    final = Books(contest)
    for episode in range(EVALUATED):
        (seen, _), step, over = final.reset(seed=1_000_000 + episode), 1, False
        while not over:
            seen, _, terminated, truncated, _ = final.step(policy(seen, step))
            step, over = step + 1, terminated or truncated
    ends = np.array(books.ends)
    smooth = np.concatenate([[np.nan], stats.moving_average(books.returns(), contest.window)])
    return Outcome(
        harm=np.cumsum(books.harm)[:n],
        returns=smooth[np.searchsorted(ends, np.arange(1, n + 1), side="right") - 1],
        final_return=float(final.returns().mean()),
        final_harm=float(np.sum(final.harm) / EVALUATED),
        unsafe_steps=int((np.array(books.harm[:n]) > 0).sum()),
        seconds=seconds,
    )


def ours(contest: Contest, job: Job, books: Books) -> Policy:
    """LSVI-AE or LSVI, as many episodes as the steps allow."""
    of_costs = ("beta_cost", "lam_cost", "react")
    settings = {key: each for key, each in contest.settings.items() if job.learner == "lsvi-ae" or key not in of_costs}
    recipe = {"lsvi-ae": es.agents.lsvi_ae, "lsvi": es.agents.lsvi}[job.learner](**settings)
    learner = es.Learner(books, recipe, constraint=contest.constraint, seed=job.seed, **contest.learner)
    while len(books.harm) < contest.steps:
        learner.train(max((contest.steps - len(books.harm)) // learner.length, 1))
    policy, before_the_end = learner.policy(optimism=0.0), learner.length - learner.horizon  # no benefit of the doubt
    return lambda seen, step: policy(seen, max(step - before_the_end, 1))


def theirs(contest: Contest, job: Job, books: Books) -> Policy:
    predict = rivals.learn(job.learner, books, contest.steps, job.seed, contest.rivals[job.learner])
    return lambda seen, step: predict(seen)


# --- all of them -----------------------------------------------------------------------------------------------------
def run(contest: Contest, doc: str) -> None:
    """The command of an example: every learner and seed, a table, a picture, and both in a folder."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", default=f"out/examples/{contest.name}")
    options = parser.parse_args()
    learners = [(name, 0.0) for name in OURS] + list(product(contest.rivals, contest.prices))
    jobs = [Job(name, price, seed) for seed in range(options.seeds) for name, price in learners]
    came: dict[str, list[Outcome]] = {}
    for job, each in zip(jobs, side_by_side(partial(outcome, contest), jobs), strict=True):
        came.setdefault(job.label, []).append(each)
    best = best_rival({label: each for label, each in came.items() if label not in OURS})
    print(table(contest, came, best, options.seeds))
    out = Path(options.out)
    paths = figures.save(picture(contest, {label: came[label] for label in (*OURS, best)}), out / contest.name)
    (out / f"{contest.name}.json").write_text(json.dumps(numbers(came), indent=2) + "\n", encoding="utf-8")
    print(f"\nWritten to {out}; drawn: {paths[0]}")


def side_by_side(work: Callable[[Any], Any], jobs: Sequence[Any]) -> list[Any]:
    """`work` on every job, in as many processes as there are cores."""
    context = multiprocessing.get_context("spawn")  # JAX has threads, which do not survive a fork
    came = []
    with ProcessPoolExecutor(os.cpu_count(), context) as pool, bar(len(jobs)) as advanced:
        for each in pool.map(work, jobs):
            came.append(each)
            advanced(1)
    return came


def best_rival(came: Mapping[str, list[Outcome]]) -> str:
    """Least harm while learning among those whose final return is within a tenth of the best rival's."""
    final = {label: np.mean([each.final_return for each in outcomes]) for label, outcomes in came.items()}
    top = max(final.values())
    good = [label for label, value in final.items() if value >= top - 0.1 * abs(top)]
    return min(good, key=lambda label: np.mean([each.harm[-1] for each in came[label]]))


def numbers(came: Mapping[str, list[Outcome]]) -> dict[str, dict[str, list[float]]]:
    """What the table is made of: a number for each seed."""
    said = {
        "harm_while_learning": lambda each: float(each.harm[-1]),
        "unsafe_steps": lambda each: each.unsafe_steps,
        "final_return": lambda each: each.final_return,
        "final_harm": lambda each: each.final_harm,
        "cpu_seconds": lambda each: round(each.seconds, 1),
    }
    return {
        label: {key: [of(each) for each in outcomes] for key, of in said.items()} for label, outcomes in came.items()
    }


def table(contest: Contest, came: Mapping[str, list[Outcome]], best: str, seeds: int) -> str:
    """One line a learner, means over seeds with the least and the most."""
    spread = lambda row: f"{tables.number(np.mean(row))} [{tables.number(min(row))}, {tables.number(max(row))}]"
    rows = [
        [label + (" *" if label == best else ""), *map(spread, columns.values())]
        for label, columns in numbers(came).items()
    ]
    head = ["learner", *(key.replace("_", " ") for key in next(iter(numbers(came).values())))]
    return "\n".join(
        [
            f"{contest.name}: {contest.steps} steps of training, {seeds} seeds; mean [least, most]",
            "",
            tables.aligned([head, *rows]),
            "",
            f"final: mean of {EVALUATED} episodes without learning, harm per episode",
            "* the rival shown: least harm while learning among those within 10 % of the best rival's final return",
        ]
    )


def picture(contest: Contest, came: Mapping[str, list[Outcome]]) -> Figure:
    """Harm so far and return, while learning."""
    with mpl.rc_context(figures.STYLE):
        figure = Figure(figsize=(9.6, 3.9), layout="constrained")
        left, right = figure.subplots(1, 2)
        figures.bands(left, {label: np.stack([each.harm for each in outcomes]) for label, outcomes in came.items()})
        figures.bands(right, {label: np.stack([each.returns for each in outcomes]) for label, outcomes in came.items()})
        left.set(title="Harm while learning", xlabel="step of training", ylabel="sum of max(g, 0) so far")
        right.set(
            title="Return while learning",
            xlabel="step of training",
            ylabel=f"mean of the last {contest.window} episodes",
        )
        for axes in (left, right):
            figures.from_zero(axes)
            figures.name_ends(axes)
    return figure
