"""lsvi-nets as it comes, with one setting for all tasks and no features, against tuned rivals.

    python benchmarks/no_hands.py [--tasks driving,cartpole] [--systems "lsvi-nets;DQN, price 10"] [--seeds 0:10]
                                  [--jobs 2] [--set members=5 --variant "5 members"] [--out out/no-hands/rows.jsonl]
    python benchmarks/no_hands.py --table [--out out/no-hands/rows.jsonl]
    python benchmarks/no_hands.py --tune [--out out/no-hands/tuning.jsonl]

Tasks are the five applications of examples/applications, whose limit is info["constraint"], and four environments of
Gymnasium, whose limit is a function of the next observation:

    cartpole      as benchmarks/ahead_environments.py: the pole within 8 degrees, the cart within 2 m
    lunar-lander  LunarLander-v3, |tilt| <= 0.4
    mountain-car  MountainCar-v0, |velocity| <= 0.05
    acrobot       Acrobot-v1, |first angular velocity| <= 2.5

Ours receives the environment, the limit, the length of an episode and a seed. Rivals on the applications are read from
examples/applications/results. On the other tasks DQN, QR-DQN and PPO learn reward - price * violation from scaled
observations. Their settings are those of GRID that TUNED names, chosen by --tune on seeds from 1000 on: of the settings
with at least 90 % of the highest final return (0 is that of random actions), the one with the least violation. On
cartpole they are those of benchmarks/ahead_environments.py.

Violation is max(g, 0), summed over all steps from the first. After `steps` steps the final policy plays 20 episodes.
Each run is one line of JSON, appended as soon as it is done; a run that is in the file is not run again. --variant
names settings of ours that are tried (--set); units and rivals are the same for all variants.

--table compares with the best rival as `everystep leaderboard` does, without lsvi-nets in the comparison: of the rivals
whose final policy keeps the limit and that reach 90 % of the best final return, the one with the least violation. That
violation is 1 of the normalised one; if no rival is good enough, or the best one does none, it is that of the worst.

Needs the packages of examples/applications/requirements.txt and gymnasium[box2d].
"""

from __future__ import annotations

import argparse
import copy
import fcntl
import importlib
import itertools
import json
import multiprocessing
import os
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pyarrow as pa

APPLICATIONS = Path(__file__).parent.parent / "examples" / "applications"
sys.path.append(str(APPLICATIONS))

import ahead_environments as ahead  # noqa: E402
import application  # noqa: E402
import compare  # noqa: E402
from application import Application, Choose, Recorder, System  # noqa: E402

import everystep as es  # noqa: E402
from everystep.reports.leaderboard import board, measures  # noqa: E402

OURS = "lsvi-nets"
PRICES = (1.0, 10.0, 100.0)
FROM_OTHERS = ("driving", "cruise-control", "oil-pump", "electric-motor", "power-grid")
LAST = 0.7  # the share of steps after which returns are averaged
SHARES = (5, 10, 25, 50, 75, 100)  # percent of the steps at which the violation so far is kept


# --- tasks -----------------------------------------------------------------------------------------------------------
LIMITS = {  # of the next observation
    "cartpole": lambda x: max(abs(float(x[2])) / ahead.ANGLE, abs(float(x[0])) / ahead.TRACK) - 1,
    "lunar-lander": lambda x: abs(float(x[4])) - 0.4,
    "mountain-car": lambda x: abs(float(x[1])) / 0.05 - 1,
    "acrobot": lambda x: abs(float(x[4])) / 2.5 - 1,
}


class Limited(gymnasium.Wrapper):
    """An environment of Gymnasium that reports its limit as info["constraint"]."""

    def __init__(self, name: str, task: str) -> None:
        super().__init__(gymnasium.make(name, disable_env_checker=True))
        self.task = task

    def step(self, action: Any) -> Any:
        x, reward, terminated, truncated, info = self.env.step(action)
        return x, reward, terminated, truncated, {**info, "constraint": float(LIMITS[self.task](x))}


class Until(gymnasium.Wrapper):
    """Truncates the last episode of a training after `steps` steps."""

    def __init__(self, recorder: Recorder, steps: int) -> None:
        super().__init__(recorder)
        self.recorder, self.steps = recorder, steps

    def step(self, action: Any) -> Any:
        x, reward, terminated, truncated, info = self.env.step(action)
        return x, reward, terminated, truncated or len(self.recorder.harm) >= self.steps, info


COMMON = {"gamma": 0.99, "normalise": True}
REPLAY = {
    "usual": {"learning_rate": 1e-3, "gradient_steps": 4, "learning_starts": 200, "exploration_fraction": 0.1},
    "early": {"learning_rate": 1e-3, "gradient_steps": 4, "learning_starts": 50, "exploration_fraction": 0.02},
    "sixteen": {"learning_rate": 3e-4, "gradient_steps": 16, "learning_starts": 50, "exploration_fraction": 0.02},
}
GRID: dict[str, dict[str, dict[str, Any]]] = {  # by algorithm and name; the rest is `deep.USUAL`
    "DQN": REPLAY,
    "QR-DQN": REPLAY,
    "PPO": {
        "usual": {"n_steps": 250, "batch_size": 50, "n_epochs": 10, "gae_lambda": 0.9},
        "long": {"n_steps": 512, "batch_size": 64, "n_epochs": 20, "gae_lambda": 0.95},
    },
}
RIVALS = {f"{algorithm}, price {price:g}": algorithm for algorithm in GRID for price in PRICES}
TUNED: dict[str, dict[str, str]] = {  # by system: of GRID; "usual" for those that are not tuned yet
    "lunar-lander": {"DQN, price 10": "sixteen"}, "mountain-car": {}, "acrobot": {},
}  # fmt: skip


def settings_of_rivals(task: str) -> dict[str, dict[str, Any]]:
    if task == "cartpole":
        known = ahead.TASKS["cartpole"].rivals
        given = {"DQN": known["DQN"], "QR-DQN": known["DQN"], "PPO": known["PPO"]}
        return {name: {"normalise": False, **given[algorithm]} for name, algorithm in RIVALS.items()}
    return {name: {**COMMON, **GRID[algorithm][TUNED[task].get(name, "usual")]} for name, algorithm in RIVALS.items()}


def of_gymnasium(name: str, environment: str, unit: str, length: int, steps: int, low: Any, high: Any) -> Application:
    """A task without features; low and high scale the observations of rivals."""
    return Application(
        name=name, title=environment, make=partial(Limited, environment, name), unit=unit, low=low, high=high,
        length=length, steps=steps, horizon=length, ours={}, rivals=settings_of_rivals(name), packages=("box2d",),
    )  # fmt: skip


POLE, LANDER = ahead.TASKS["cartpole"], ((-1, 0, -2, -2, -1, -2, 0, 0), (1, 1.5, 2, 2, 1, 2, 1, 1))
OF_GYMNASIUM = {
    each.name: each
    for each in (
        of_gymnasium("cartpole", "CartPole-v1", "limits exceeded", 500, 6000, POLE.low, POLE.high),
        of_gymnasium("lunar-lander", "LunarLander-v3", "rad", 1000, 8000, *LANDER),
        of_gymnasium("mountain-car", "MountainCar-v0", "limits exceeded", 200, 10_000, (-1.2, -0.07), (0.6, 0.07)),
        of_gymnasium("acrobot", "Acrobot-v1", "limits exceeded", 500, 8000, (-1,) * 4 + (-6, -12), (1,) * 4 + (6, 12)),
    )
}
TASKS = (*FROM_OTHERS, *OF_GYMNASIUM)


def task_of(name: str) -> Application:
    return OF_GYMNASIUM.get(name) or importlib.import_module(name.replace("-", "_")).APPLICATION


# --- systems and runs ------------------------------------------------------------------------------------------------
def learn_ours(app: Application, recorder: Recorder, steps: int, seed: int, settings: Mapping[str, Any]) -> Choose:
    by_user = lambda x, action, after, info: LIMITS[app.name](after)
    reported = lambda x, action, after, info: info["constraint"]
    constraint, agent = by_user if app.name in LIMITS else reported, es.agents.lsvi_nets(**settings)
    learner = es.Learner(Until(recorder, steps), agent, constraint=constraint, length=app.length, seed=seed)
    while len(recorder.harm) < steps:
        learner.play(1)
    policy = learner.policy()
    return lambda x, step: int(policy(x, step + 1))


def system_of(name: str) -> System:
    if name == OURS:
        return System(OURS, "ours", learn_ours, lambda app: {})
    import deep  # torch

    if name in RIVALS:
        return deep.priced(RIVALS[name], float(name.split(" price ")[1]))
    return next(each for each in deep.SYSTEMS if each.name == name)


@dataclass(frozen=True)
class Job:
    task: str
    system: str
    seed: int
    steps: int
    changed: tuple[tuple[str, Any], ...] = ()  # settings tried instead of the table's
    variant: str = ""

    @property
    def key(self) -> tuple[Any, ...]:
        """What a row of the file is recognised by."""
        settings = {**system_of(self.system).settings(task_of(self.task)), **dict(self.changed)}
        return self.task, self.system, self.variant, self.seed, self.steps, json.dumps(settings, sort_keys=True)


def jobs(options: argparse.Namespace) -> Iterator[Job]:
    """Seeds in the outer loop, so that an interrupted file holds the same seeds of everything; likewise of settings."""
    names = options.systems.split(";") if options.systems else [OURS, board.RANDOM, *RIVALS]
    changed = tuple((name, json.loads(text)) for name, _, text in (each.partition("=") for each in options.set))
    tried = list(dict.fromkeys(name for each in GRID.values() for name in each)) if options.tune else [""]
    for seed, which, task, name in itertools.product(
        range(*map(int, options.seeds.split(":"))), tried, options.tasks.split(","), names
    ):
        steps = options.steps or task_of(task).steps
        if name == OURS and not options.tune:
            yield Job(task, name, seed, steps, changed, options.variant or ", ".join(options.set))
        elif task in FROM_OTHERS or name == OURS:  # rivals on applications are read from their results
            continue
        elif not options.tune or (name == board.RANDOM and which == tried[0]):
            yield Job(task, name, seed, steps)
        elif which in GRID.get(RIVALS.get(name, ""), {}):
            yield Job(task, name, seed, steps, tuple({**COMMON, **GRID[RIVALS[name]][which]}.items()), which)


def run(job: Job) -> dict[str, Any]:
    """One row: the columns of files of results (docs/reference/files.md), and what is measured here besides."""
    app, system, recorders = task_of(job.task), system_of(job.system), []

    def learn(app: Application, recorder: Recorder, steps: int, seed: int, settings: Mapping[str, Any]) -> Choose:
        recorders.append(recorder)
        return system.learn(app, recorder, steps, seed, copy.deepcopy(dict(settings)))  # QR-DQN writes into its own

    row = application.run(app, replace(system, learn=learn), job.seed, job.steps, **dict(job.changed))
    curve, ends, returns = row["harm_curve"], np.array(recorders[0].ends[1:]), recorders[0].returns()
    late = returns[(ends > LAST * job.steps) & (ends <= job.steps)]
    row = {name: each for name, each in row.items() if name not in ("harm_curve", "return_curve", "command")}
    return row | {
        "variant": job.variant,
        "harm_at": {f"{share} %": curve[share * len(curve) // 100 - 1] for share in SHARES},
        "last_return": float(late.mean()) if len(late) else None,
    }


def key_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("problem", "system", "variant", "seed", "steps", "settings"))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def one(job: Job, path: Path) -> dict[str, Any] | None:
    """Run a job and append its row, unless another process has done so since."""
    if job.key in map(key_of, lines(path)):
        return None
    row = run(job)
    with path.open("a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps(row) + "\n")
    return row


def work(options: argparse.Namespace) -> None:
    done = set(map(key_of, lines(options.out)))
    left = [job for job in jobs(options) if job.key not in done]
    print(f"{len(left)} runs, {options.jobs} at a time", flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    os.environ.update(compare.ONE_THREAD)
    context = multiprocessing.get_context("spawn")  # JAX has threads, which do not survive a fork
    with ProcessPoolExecutor(options.jobs, context) as pool:
        for future in as_completed([pool.submit(one, job, options.out) for job in left]):
            try:
                row = future.result()
            except Exception as error:  # the others go on; what failed is run again by the same command
                print(f"FAILED: {type(error).__name__}: {error}", flush=True)
                continue
            if row is not None:
                shown = ("problem", "system", "variant", "seed", "harm", "final_return", "final_harm", "seconds")
                print(", ".join(f"{name} {row[name]}" for name in shown), flush=True)


# --- tables ----------------------------------------------------------------------------------------------------------
def grouped(rows: list[dict[str, Any]]) -> dict[str, dict[str, board.Runs]]:
    columns = ("problem", "system", "seed", *board.MEASURED)
    return board.grouped(pa.Table.from_pylist([{name: row[name] for name in columns} for row in rows]))


def last_return(rows: list[dict[str, Any]]) -> str:
    ended = [row["last_return"] for row in rows if row["last_return"] is not None]
    return show(np.mean(ended)) if ended else "none ended"


def tables(path: Path, steps: int | None) -> Iterator[str]:
    """Markdown: for each variant of ours its tasks and interquartile means; then the rivals of Gymnasium's tasks."""
    found = [row for row in lines(path) if row["steps"] == (steps or task_of(row["problem"]).steps)]
    which = lambda row: (row["problem"], row["system"], row["variant"])
    last = {which(row): row["settings"] for row in found}  # the settings that the file has last
    found = [row for row in found if row["settings"] == last[which(row)]]
    rivals = [row for row in found if row["system"] != OURS]
    others = rivals + [row for each in FROM_OTHERS for row in compare.rows(APPLICATIONS / f"results/{each}.parquet")]
    kinds, runs = {row["system"]: row["kind"] for row in others}, grouped(others)
    unit = {name: board.units(each, kinds) for name, each in runs.items()}
    for variant in dict.fromkeys(row["variant"] for row in found if row["system"] == OURS):
        rows = [row for row in found if row["system"] == OURS and row["variant"] == variant]
        ours = {name: each[OURS] for name, each in grouped(rows).items() if name in unit}
        body = []
        for name in (each for each in TASKS if each in ours):
            units, mean, mine = unit[name], ours[name].mean, [row for row in rows if row["problem"] == name]
            early = sum(row["harm_at"]["5 %"] for row in mine) / (sum(row["harm"] for row in mine) or 1)
            body.append([
                name, str(len(mine)), show(mean("harm")),
                units.best_rival or f"none; {units.harm_of}", show(units.harm),
                show(units.harms(np.array(mean("harm")))), f"{100 * early:.0f} %", last_return(mine),
                show(mean("final_return")), f"{100 * units.returns(np.array(mean('final_return'))):.0f} %",
                show(mean("final_harm")), show(runs[name][units.best_rival or units.harm_of].mean("final_harm")),
            ])  # fmt: skip
        yield f"**{OURS}{f', {variant}' * bool(variant)}**; means over seeds, the final violation per episode\n"
        yield markdown(
            "task | seeds | violation | best rival | unit | violation / unit | in the first 5 % | return, last 30 % "
            "| final return | share of the best | final violation | of the rival", body,
        )  # fmt: skip
        for what, names in (("applications", FROM_OTHERS), ("Gymnasium", OF_GYMNASIUM), ("all", TASKS)):
            scores = [unit[name].harms(ours[name].columns["harm"]) for name in names if name in ours]
            if scores:
                mean, low, high = measures.interquartile_mean(scores, np.random.default_rng(0))
                yield f"- {what}, {len(scores)} tasks: normalised violation {mean:.3g} [{low:.3g}, {high:.3g}]"
        yield ""
    for name in (each for each in OF_GYMNASIUM if each in runs):
        body = [
            [
                system + " \\*" * (system == unit[name].best_rival), str(len(each.seeds)), show(each.mean("harm")),
                last_return([row for row in rivals if (row["problem"], row["system"]) == (name, system)]),
                show(each.mean("final_return")), show(each.mean("final_harm")),
            ]
            for system, each in sorted(runs[name].items(), key=lambda item: item[1].mean("harm"))
        ]  # fmt: skip
        yield f"**{name}**; \\* is the best rival\n"
        yield markdown("system | seeds | violation | return, last 30 % | final return | final violation", body)


def show(x: Any) -> str:
    return f"{x:.0f}" if abs(x) >= 100 else f"{x:.3g}"


def markdown(head: str, body: list[list[str]]) -> str:
    columns = head.split(" | ")
    return "\n".join("| " + " | ".join(row) + " |" for row in [columns, ["---"] * len(columns), *body]) + "\n"


def chosen(rows: list[dict[str, Any]]) -> Iterator[str]:
    """What TUNED should be, by the runs of --tune."""
    for task, systems in grouped([row | {"system": f"{row['system']};{row['variant']}"} for row in rows]).items():
        yield f'"{task}": {{'
        for name in RIVALS:
            tried = {key.split(";")[1]: each.mean for key, each in systems.items() if key.startswith(f"{name};")}
            returns = np.array([mean("final_return") for mean in tried.values()])
            chance = [systems[f"{board.RANDOM};"].mean("final_return")] if f"{board.RANDOM};" in systems else returns
            share = measures.share(returns, min(chance, default=0.0), max(returns, default=0.0)) >= board.ENOUGH
            enough = [which for which, kept in zip(tried, share, strict=True) if kept]
            for best in sorted(enough, key=lambda which, tried=tried: tried[which]("harm"))[:1]:
                seen = [f"{which} {show(mean('harm'))}, {show(mean('final_return'))}" for which, mean in tried.items()]
                yield f'    "{name}": "{best}",  # violation, final return: {"; ".join(seen)}'
        yield "},"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tasks", help=", ".join(TASKS) + "; all of them by default")
    parser.add_argument("--systems", help="separated by ;, such as 'lsvi-nets;DQN, price 10'; all by default")
    parser.add_argument("--seeds", help="first:end; 0:10 by default, 1000:1001 with --tune")
    parser.add_argument("--steps", type=int, help="training steps, if others than the task's")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of ours, in JSON")
    parser.add_argument("--variant", default="", help="the name of what is tried; by default that of --set")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="out/no-hands/rows.jsonl, or tuning.jsonl with --tune")
    parser.add_argument("--table", action="store_true", help="print the tables of a file, and run nothing")
    parser.add_argument("--tune", action="store_true", help="try the settings of GRID, and print what TUNED should be")
    options = parser.parse_args()
    options.tasks = options.tasks or ",".join(TUNED if options.tune else TASKS)
    options.seeds = options.seeds or ("1000:1001" if options.tune else "0:10")
    options.out = options.out or Path("out/no-hands") / ("tuning.jsonl" if options.tune else "rows.jsonl")
    if not options.table:
        work(options)
    print("\n".join(chosen(lines(options.out)) if options.tune else tables(options.out, options.steps)))


if __name__ == "__main__":
    main()
