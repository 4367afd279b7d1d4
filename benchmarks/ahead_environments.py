"""Limits that one decision cannot keep, on environments: lsvi-ahead, LSVI-AE, prices inside the reward, DQN and PPO.

    python benchmarks/ahead_environments.py [--only cartpole,cruise,oil,highway] [--agents lsvi-ahead,DQN]
                                            [--mirrored yes|no] [--seeds 0:10] [--jobs 16]
                                            [--out out/ahead/environments.jsonl]
    python benchmarks/ahead_environments.py --table [--out out/ahead/environments.jsonl]

Every agent takes the same number of training steps and is told the limit as a user would say it:

    cartpole   the pole within 8 degrees, the cart within 2 m: g = max(|angle| / 8 degrees - 1, |x| / 2 m - 1)
    cruise     the distance to the car ahead above 0 (uppaal-gym's CruiseControl-v0; the car ahead drives at random)
    oil        the volume of the tank within its bounds (uppaal-gym's OilPump-v0)
    highway    no crash (highway-env, as examples/highway.py observes it)

with harm max(g, 0). In cruise and oil the penalty that their reward has for a crash is left out, because the limit
says it: the reward is 1 - distance / 200 m, and 1 - volume / 25. A crash ends the episode.

CartPole is the same in a mirror: every agent runs twice, once without knowing it and once told so ("mirrored"). Ours
then have `everystep.features.mirrored` features; DQN and PPO see the pole always on the right side and act in the
mirror where it is on the left (`OneSide`), so that they, too, need to learn one side alone.

Agents without a constraint learn reward - price * harm. Measured: the harm while learning; the mean return of the
episodes that end in the last 30 % of the steps; harm and return per episode of the final policy, without exploration,
over 20 episodes. Each (environment, agent, seed) writes one line as soon as it is done, and is not run again with the
same settings. Settings were chosen on seeds from 1000 on; the table is of seeds from 0 on.

Needs gymnasium and, for cruise, oil, highway, DQN and PPO, the packages of benchmarks/peers.txt.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

EVALUATED = 20  # episodes of the final policy
LAST = 0.7  # the share of steps after which returns are averaged
PRICES = (0.1, 1.0, 10.0, 100.0)
RIVAL_PRICES = (1.0, 10.0, 100.0)
ANGLE, TRACK = np.radians(8), 2.0
ONE_THREAD = {  # in each of the processes, because the matrices of a run are small
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}
Chosen = Callable[[Any, int], int]  # (observation, step of the episode from 0) to an action


# --- environments: each reports info["constraint"], signed, safe iff <= 0 -------------------------------------------
class CartPole(gymnasium.Wrapper):
    """CartPole-v1; reward 1 per step, ended beyond 12 degrees or 2.4 m."""

    def __init__(self) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))

    def step(self, action: Any) -> Any:
        x, reward, terminated, truncated, info = self.env.step(action)
        g = np.clip(max(abs(x[2]) / ANGLE - 1, abs(x[0]) / TRACK - 1), -1, 1)
        return x, reward, terminated, truncated, {**info, "constraint": float(g)}


class Uppaal(gymnasium.Wrapper):
    """An environment of uppaal-gym, whose `is_safe` is the limit. It draws from NumPy's global generator."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            np.random.seed(seed)  # noqa: NPY002
        return self.env.reset(seed=seed)

    def step(self, action: Any) -> Any:
        x, _, _, truncated, info = self.env.step(action)
        safe = bool(self.unwrapped.is_safe(self.state()))
        return x, self.reward(x), not safe, truncated, {**info, "constraint": -1.0 if safe else 1.0}


class Cruise(Uppaal):
    """CruiseControl-v0; cut after 120 steps, which its own class calls terminated."""

    def __init__(self) -> None:
        import uppaal_gym  # noqa: F401  (registers its environments)

        super().__init__(gymnasium.make("CruiseControl-v0", disable_env_checker=True, max_steps=10**9))

    def state(self) -> tuple[float, ...]:
        here = self.unwrapped
        return here.v_ego, here.v_front, here.distance

    def reward(self, x: np.ndarray) -> float:
        return float(np.clip(1 - x[2] / 200, 0, 1))


class Oil(Uppaal):
    """OilPump-v0; cut after 120 steps."""

    def __init__(self) -> None:
        import uppaal_gym  # noqa: F401

        super().__init__(gymnasium.make("OilPump-v0", disable_env_checker=True))

    def state(self) -> tuple[float, ...]:
        here = self.unwrapped
        return here.t, here.v, here.p, here.l

    def reward(self, x: np.ndarray) -> float:
        return float(np.clip(1 - x[1] / 25, 0, 1))


class Highway(gymnasium.Wrapper):
    """highway-fast-v0 as examples/highway.py observes it; 30 decisions an episode."""

    def __init__(self) -> None:
        sys.path.append(str(Path(__file__).parent.parent / "examples"))
        import highway

        super().__init__(gymnasium.wrappers.TimeLimit(highway.make(), 30))

    def step(self, action: Any) -> Any:
        x, reward, terminated, truncated, info = self.env.step(action)
        return x, reward, terminated, truncated, {**info, "constraint": 1.0 if info["crashed"] else -1.0}


class OneSide(gymnasium.Wrapper):
    """A problem that is its own mirror image, seen from one side: where `coordinate` is negative, its image is seen."""

    def __init__(self, env: gymnasium.Env, mirror: Mirror) -> None:
        super().__init__(env)
        self.mirror, self.flipped = mirror, False

    def seen(self, x: np.ndarray) -> np.ndarray:
        self.flipped = bool(x[self.mirror.coordinate] < 0)
        return x * np.float32(self.mirror.signs) if self.flipped else x

    def reset(self, **given: Any) -> Any:
        x, info = self.env.reset(**given)
        return self.seen(x), info

    def step(self, action: Any) -> Any:
        x, *rest = self.env.step(self.mirror.actions[int(action)] if self.flipped else action)
        return self.seen(x), *rest


class Recorder(gymnasium.Wrapper):
    """Records reward and harm of every step, and cuts the last episode after `steps` steps.

    price    is subtracted from the reward for each unit of harm
    scaled   whether observations are scaled to [-1, 1], for neural networks
    mirror   by which it is seen from one side
    """

    def __init__(
        self,
        task: Task,
        steps: int | None = None,
        price: float = 0.0,
        scaled: bool = False,
        mirror: Mirror | None = None,
    ) -> None:
        super().__init__(task.make() if mirror is None else OneSide(task.make(), mirror))
        self.steps, self.price, self.bounds = steps, price, task.bounds(self.env) if scaled else None
        if scaled:
            self.observation_space = gymnasium.spaces.Box(-2, 2, self.env.observation_space.shape, np.float32)
        self.rewards: list[float] = []
        self.harm: list[float] = []
        self.ends: list[int] = [0]  # steps at the end of each finished episode

    def seen(self, x: np.ndarray) -> np.ndarray:
        if self.bounds is None:
            return x
        low, high = self.bounds
        return np.clip((2 * x - low - high) / (high - low), -2, 2).astype(np.float32)

    def reset(self, **given: Any) -> Any:
        x, info = self.env.reset(**given)
        return self.seen(x), info

    def step(self, action: Any) -> Any:
        x, reward, terminated, truncated, info = self.env.step(int(action))
        harm = max(info["constraint"], 0.0)
        self.rewards.append(float(reward))
        self.harm.append(harm)
        if terminated or truncated:
            self.ends.append(len(self.harm))
        truncated = truncated or len(self.harm) == self.steps
        return self.seen(x), float(reward) - self.price * harm, terminated, truncated, info

    def returns(self) -> np.ndarray:
        return np.diff(np.cumsum([0.0, *self.rewards])[self.ends])


# --- what is compared ------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Mirror:
    """What the mirror multiplies observations by, the image of each action, and a coordinate that changes its sign."""

    signs: float
    actions: tuple[int, ...]
    coordinate: int


@dataclass(frozen=True)
class Task:
    """One environment, and the settings of every agent on it.

    low, high   bounds of observations; None: those of the space
    features    arguments of `everystep.features.fourier`, whose frequencies are drawn by the seed of the run, or of the
                function "of" of examples/applications: features of where an action leads
    ours        settings by agent: "horizon", "explored", the share of steps after which it acts as its policy will, and
                those of the agent itself; "shared" holds for all of them
    rivals      settings of stable-baselines3, by algorithm; "normalise" scales rewards by a running deviation
    """

    make: Callable[[], gymnasium.Env]
    unit: str  # of harm
    features: Mapping[str, Any]
    ours: Mapping[str, Mapping[str, Any]]
    rivals: Mapping[str, Mapping[str, Any]]
    steps: int = 6000
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    needs: tuple[str, ...] = field(default=())
    mirror: Mirror | None = None

    def bounds(self, env: gymnasium.Env) -> tuple[np.ndarray, np.ndarray]:
        if self.low is None or self.high is None:
            return env.observation_space.low, env.observation_space.high
        return np.array(self.low, np.float32), np.array(self.high, np.float32)


DQN = {
    "learning_rate": 1e-3, "learning_starts": 200, "batch_size": 64, "train_freq": 4, "gradient_steps": 4,
    "target_update_interval": 100, "exploration_fraction": 0.1, "exploration_final_eps": 0.02, "gamma": 0.98,
}  # fmt: skip
PPO = {
    "learning_rate": 1e-3, "n_steps": 250, "batch_size": 50, "n_epochs": 10, "gae_lambda": 0.9, "gamma": 0.98,
    "normalise": True,
}  # fmt: skip

NORMALISED_DQN = {**DQN, "normalise": True}
LONG_BATCHES = {**PPO, "n_steps": 256, "batch_size": 256, "n_epochs": 20, "gae_lambda": 0.8}
LITTLE_OPTIMISM = {
    "beta": 0.1, "beta_harm": 0.1, "beta_cost": 0.0, "lam_cost": 0.01, "floor": 100, "tolerance": 0.01,
    "explored": 0.85,
}  # fmt: skip

TASKS = {
    "cartpole": Task(
        make=CartPole, unit="harm", low=(-2.4, -3.0, -0.21, -3.0), high=(2.4, 3.0, 0.21, 3.0),
        features={"size": 150},
        ours={
            "shared": {"horizon": 60, "lam": 0.001},
            "lsvi-ahead": {
                "beta": 1.0, "beta_harm": 0.01, "beta_cost": 0.0, "lam_cost": 0.001, "floor": "k", "tolerance": 0.01,
                "explored": 0.85,
            },
            "lsvi-ae": {}, "lsvi": {},
        },
        rivals={"DQN": DQN, "PPO": PPO}, mirror=Mirror(-1.0, (1, 0), coordinate=2),
    ),
    "cruise": Task(
        make=Cruise, unit="crashes", low=(-10.0, -8.0, 0.0), high=(20.0, 20.0, 200.0),
        features={"of": "cruise_control.own_motion", "size": 75, "lengthscale": [1.0, 2.0, 0.3]},
        ours={
            "shared": {"horizon": 20},
            "lsvi-ahead": {**LITTLE_OPTIMISM, "lam": 0.001, "beta_harm": 0.05, "tolerance": 0.005},
            "lsvi-ae": {}, "lsvi": {},
        },
        rivals={"DQN": NORMALISED_DQN, "PPO": PPO}, needs=("uppaal_gym",),
    ),
    "oil": Task(
        make=Oil, unit="crashes", low=(0.0, 4.0, 0.0, -2.0), high=(20.0, 26.0, 1.0, 2.0),
        features={"of": "oil_pump.own_pump", "size": 75, "lengthscale": 0.7},
        ours={
            "shared": {"horizon": 30},
            "lsvi-ahead": {**LITTLE_OPTIMISM, "lam": 0.001, "beta": 1.0, "beta_harm": 0.05}, "lsvi-ae": {}, "lsvi": {},
        },
        rivals={"DQN": NORMALISED_DQN, "PPO": LONG_BATCHES}, needs=("uppaal_gym",),
    ),
    "highway": Task(
        make=Highway, unit="crashes", steps=1500,
        features={"size": 50},
        ours={"shared": {"horizon": 10}, "lsvi-ahead": LITTLE_OPTIMISM, "lsvi-ae": {}, "lsvi": {}},
        rivals={"DQN": {**DQN, "exploration_fraction": 0.3}, "PPO": PPO}, needs=("highway_env",),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Job:
    """One agent on one environment, with one seed. `price` is None for agents that learn from the constraint."""

    task: str
    learner: str
    price: float | None
    seed: int
    steps: int
    changed: tuple[tuple[str, Any], ...] = ()  # settings tried instead of the table's
    mirrored: bool = False

    @property
    def agent(self) -> str:
        price = "" if self.price is None else f", price {self.price:g}"
        return f"{self.learner}{', mirrored' * self.mirrored}{price}"

    @property
    def mirror(self) -> Mirror | None:
        return TASKS[self.task].mirror if self.mirrored else None

    @property
    def settings(self) -> dict[str, Any]:
        task = TASKS[self.task]
        if self.learner in task.rivals:
            return {**task.rivals[self.learner], **dict(self.changed)}
        settings = {"features": dict(task.features), **task.ours["shared"], **task.ours[self.learner]}
        settings |= dict(self.changed)
        return {name: each for name, each in settings.items() if each is not None}  # None: the default

    @property
    def key(self) -> str:
        """What a line of the file is recognised by."""
        return json.dumps([self.task, self.agent, self.seed, self.steps, self.settings], sort_keys=True)


def jobs(options: argparse.Namespace) -> Iterator[Job]:
    """Seeds in the outer loop, so that an interrupted run holds the same seeds of every agent."""
    first, last = map(int, options.seeds.split(":"))
    changed = tuple(json.loads(options.set or "{}").items())
    agents = [("lsvi-ahead", None), ("lsvi-ae", None), *(("lsvi", price) for price in PRICES)]
    agents += [(name, price) for name in ("DQN", "PPO") for price in RIVAL_PRICES]
    for seed in range(first, last):
        for name in options.only.split(","):
            missing = [each for each in TASKS[name].needs if importlib.util.find_spec(each) is None]
            if missing:
                continue
            sides = [False] if TASKS[name].mirror is None else [False, True]
            sides = [side for side in sides if options.mirrored in (None, "yes" if side else "no")]
            for learner, price in agents:
                if options.agents is None or learner in options.agents.split(","):
                    for side in sides:
                        yield Job(name, learner, price, seed, options.steps or TASKS[name].steps, changed, side)


# --- one run ---------------------------------------------------------------------------------------------------------
def run(job: Job) -> dict[str, Any]:
    """Train, then play the final policy; one line of the file."""
    began = time.perf_counter()
    task, theirs = TASKS[job.task], job.learner in TASKS[job.task].rivals
    mirror = job.mirror if theirs else None
    recorder = Recorder(task, job.steps, job.price or 0.0, scaled=theirs, mirror=mirror)
    recorder.reset(seed=job.seed)  # uppaal-gym draws from a global generator, which agents do not seed
    policy = (learn_theirs if theirs else learn_ours)(job, recorder)
    trained = time.perf_counter() - began
    final = Recorder(task, scaled=theirs, mirror=mirror)
    for episode in range(EVALUATED):
        (x, _), step, over = final.reset(seed=1_000_000 + episode), 0, False
        while not over:
            x, _, terminated, truncated, _ = final.step(policy(x, step))
            step, over = step + 1, terminated or truncated
    harm, ends = np.array(recorder.harm[: job.steps]), np.array(recorder.ends[1:])
    last = recorder.returns()[(ends > LAST * job.steps) & (ends <= job.steps)]
    return {
        "environment": job.task,
        "agent": job.agent,
        "seed": job.seed,
        "steps": job.steps,
        "settings": job.settings,
        "harm": float(harm.sum()),
        "unsafe_steps": int((harm > 0).sum()),
        "harm_by_quarter": [float(each.sum()) for each in np.array_split(harm, 4)],
        "last_return": float(last.mean()) if len(last) else None,
        "final_harm": float(np.sum(final.harm) / EVALUATED),
        "final_return": float(final.returns().mean()),
        "train_seconds": round(trained, 1),
        "seconds": round(time.perf_counter() - began, 1),
        "key": job.key,
    }


def learn_ours(job: Job, recorder: Recorder) -> Chosen:
    import everystep as es

    task, settings = TASKS[job.task], dict(job.settings)
    low, high = (each.tolist() for each in task.bounds(recorder))
    given = settings.pop("features")
    if given == "auto":
        spec: Any = given
    elif "of" in given:  # a function of examples/applications, by its name
        sys.path.append(str(Path(__file__).parent.parent / "examples" / "applications"))
        module, name = given["of"].split(".")
        arguments = {key: value for key, value in given.items() if key != "of"}
        spec = getattr(importlib.import_module(module), name)(**arguments, seed=job.seed)
    else:
        spec = es.features.fourier(**{"seed": job.seed, "low": low, "high": high, **given})
    if job.mirror is not None:
        spec = es.features.mirrored(spec, actions=job.mirror.actions, signs=job.mirror.signs)
    price, horizon, explored = job.price or 0.0, settings.pop("horizon"), settings.pop("explored", 1.0)
    learner = es.Learner(
        recorder,
        getattr(es.agents, job.learner.replace("-", "_"))(**settings),
        constraint=lambda x, action, after, info: info["constraint"],
        features=spec,
        horizon=horizon,
        reward_range=(-price, 1.0),
        seed=job.seed,
    )
    while len(recorder.harm) < job.steps:
        learner.play(1, explore=len(recorder.harm) < explored * job.steps)
    policy = learner.policy()
    return lambda x, step: int(policy(x, step + 1))


def learn_theirs(job: Job, recorder: Recorder) -> Chosen:
    import stable_baselines3 as sb3
    import torch
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    torch.set_num_threads(1)
    settings = dict(job.settings)
    env: Any = DummyVecEnv([lambda: recorder])
    if settings.pop("normalise", False):
        env = VecNormalize(env, norm_obs=False, norm_reward=True, gamma=settings["gamma"])
    if "net" in settings:
        settings["policy_kwargs"] = {"net_arch": settings.pop("net")}
    kind = {"DQN": sb3.DQN, "PPO": sb3.PPO}[job.learner]
    model = kind("MlpPolicy", env, seed=job.seed, device="cpu", **settings).learn(job.steps)
    return lambda x, step: int(model.predict(x, deterministic=True)[0])


# --- the file and the table ------------------------------------------------------------------------------------------
def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def work(options: argparse.Namespace) -> None:
    done = {line["key"] for line in lines(options.out)}
    left = [job for job in jobs(options) if job.key not in done]
    print(f"{len(left)} runs, {options.jobs} at a time", flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    os.environ.update(ONE_THREAD)
    context = multiprocessing.get_context("spawn")  # JAX has threads, which do not survive a fork
    with ProcessPoolExecutor(options.jobs, context) as pool, options.out.open("a", encoding="utf-8") as file:
        for future in as_completed([pool.submit(run, job) for job in left]):
            line = future.result()
            file.write(json.dumps(line) + "\n")
            file.flush()
            print(
                f"{line['environment']}, {line['agent']}, seed {line['seed']}: harm {line['harm']:.4g}, "
                f"last {line['last_return'] or float('nan'):.4g}, final harm {line['final_harm']:.4g}, "
                f"return {line['final_return']:.4g}; {line['seconds']:.0f} s",
                flush=True,
            )


def table(path: Path) -> str:
    """Markdown, one table per environment; one row per agent and settings, in the order of the harm."""
    grouped: dict[str, dict[tuple[str, str], list[dict[str, Any]]]] = {}
    for line in lines(path):
        which = (line["agent"], json.dumps(line["settings"], sort_keys=True))
        grouped.setdefault(line["environment"], {}).setdefault(which, []).append(line)
    parts = []
    for name, rows in grouped.items():
        unit, twice = TASKS[name].unit, len({agent for agent, _ in rows}) < len(rows)
        steps = sorted({line["steps"] for each in rows.values() for line in each})
        parts.append(f"**{name}**, {', '.join(f'{n:,}' for n in steps)} steps; means [minimum, maximum] over seeds\n")
        head = [
            "agent", "seeds", f"{unit} while learning", "return, last 30 %",
            f"final {unit} per episode", "final return", "seconds",
        ]  # fmt: skip
        body = []
        for (agent, settings), each in sorted(rows.items(), key=lambda row: np.mean([x["harm"] for x in row[1]])):
            column = lambda key, each=each: [x[key] for x in each if x[key] is not None]
            body.append(
                [agent + (f" {settings}" if twice else ""), str(len(each))]
                + [spread(column(key)) for key in ("harm", "last_return", "final_harm", "final_return")]
                + [f"{np.mean(column('seconds')):.0f}"]
            )
        parts.append("\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *body]) + "\n")
    return "\n".join(parts)


def spread(numbers: list[float]) -> str:
    if not numbers:
        return "none ended"
    show = lambda x: f"{x:.0f}" if abs(x) >= 100 else f"{x:.3g}"
    return f"{show(np.mean(numbers))} [{show(min(numbers))}, {show(max(numbers))}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default=",".join(TASKS), help="environments")
    parser.add_argument("--agents", help="lsvi-ahead, lsvi-ae, lsvi, DQN, PPO; all of them by default")
    parser.add_argument(
        "--mirrored", choices=("yes", "no"), help="only with, or only without the mirror; both if left out"
    )
    parser.add_argument("--seeds", default="0:10", help="first:end")
    parser.add_argument("--steps", type=int, help="training steps, if others than the table's")
    parser.add_argument("--set", help="settings tried instead of the table's, as JSON")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=Path("out/ahead/environments.jsonl"))
    parser.add_argument("--table", action="store_true", help="print the table of a file, and run nothing")
    options = parser.parse_args()
    if not options.table:
        work(options)
    print(table(options.out))


if __name__ == "__main__":
    main()
