"""Continuous actions: time by the number of candidates, and lsvi-ahead and LSVI-AE beside PPO and SAC with a price.

    python benchmarks/continuous.py --speed [--candidates 8,64,512] [--steps 10000]
    python benchmarks/continuous.py [--only pendulum,car] [--agents lsvi-ahead-64,PPO-10,...] [--seeds 0:5]
                                    [--out out/continuous.jsonl]
    python benchmarks/continuous.py --table [--out out/continuous.jsonl]

The first form trains lsvi-ahead on Pendulum with d = 200 and prints processor seconds per plan and per step for each
number of candidates, all in one run, and their ratios to the first.

The second form compares. Limits:

    pendulum   Pendulum-v1, angular speed at most 6 rad/s: g = (|speed| - 6) / 8; 6,000 steps
    car        MountainCarContinuous-v0, every action for 4 of its steps, speed at most 0.04: g = (|v| - 0.04) / 0.07,
               the highest of the 4; 5,000 decisions, at most 250 an episode

lsvi-ahead-64 has 64 candidates. PPO-10 and SAC-10 learn reward - 10 max(g, 0), with the settings that
rl-baselines3-zoo has for these environments (PPO on Pendulum in one environment instead of four, and PPO on the car
with batches of 8, as long as its rollouts). Settings and prices were chosen on seeds from 1000 on. Measured: harm while
learning; return and harm per episode of the final policy over 20 episodes, without exploration. One line per run is
written as soon as it is done.

Needs gymnasium, and stable-baselines3 for PPO and SAC.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import gymnasium
import numpy as np

EVALUATED = 20  # episodes of the final policy
STEPS = {"pendulum": 6_000, "car": 5_000}
CAUTIOUS = {"lam": 0.001, "lam_cost": 0.001, "beta_cost": 0.0, "beta_harm": 0.01}  # little optimism about harm
OURS: dict[str, dict[str, Any]] = {  # horizon and Fourier features (None: chosen), then settings of the agent
    "pendulum": {"horizon": 30, "lengths": (1.0, 1.0, 0.5, 2.0), "beta": 0.3, **CAUTIOUS},
    "car": {"horizon": 50, "lengths": None, "beta": 1.0, **CAUTIOUS},
}
ZOO: dict[str, dict[str, dict[str, Any]]] = {  # rl-baselines3-zoo, hyperparams/ppo.yml and sac.yml
    "pendulum": {
        "PPO": {
            "n_steps": 1024, "gae_lambda": 0.95, "gamma": 0.9, "n_epochs": 10, "ent_coef": 0.0, "learning_rate": 1e-3,
            "clip_range": 0.2, "use_sde": True, "sde_sample_freq": 4,
        },
        "SAC": {"learning_rate": 1e-3},
    },
    "car": {
        "PPO": {
            "batch_size": 8, "n_steps": 8, "gamma": 0.9999, "learning_rate": 7.77e-5, "ent_coef": 0.00429,
            "clip_range": 0.1, "n_epochs": 10, "gae_lambda": 0.9, "max_grad_norm": 5, "vf_coef": 0.19, "use_sde": True,
            "policy_kwargs": {"log_std_init": -3.29, "ortho_init": False},
        },
        "SAC": {
            "learning_rate": 3e-4, "buffer_size": 50_000, "batch_size": 512, "ent_coef": 0.1, "train_freq": 32,
            "gradient_steps": 32, "gamma": 0.9999, "tau": 0.01, "learning_starts": 0, "use_sde": True,
            "policy_kwargs": {"log_std_init": -3.67, "net_arch": [64, 64]},
        },
    },
}  # fmt: skip
NORMALISED = {("car", "PPO")}  # observations and rewards by running means, as the zoo does


class Limited(gymnasium.Wrapper):
    """An environment that reports its limit as info["constraint"], and records rewards and harm of all its steps."""

    def __init__(self, task: str, price: float = 0.0) -> None:
        name, self.repeat, self.speed, self.most, self.unit = {
            "pendulum": ("Pendulum-v1", 1, 2, 6.0, 8.0),
            "car": ("MountainCarContinuous-v0", 4, 1, 0.04, 0.07),
        }[task]
        super().__init__(gymnasium.make(name))
        self.spec_steps = -(-self.env.spec.max_episode_steps // self.repeat)
        self.price = price
        self.rewards: list[float] = []
        self.harm: list[float] = []

    def step(self, action: Any) -> Any:
        reward, g = 0.0, -np.inf
        for _ in range(self.repeat):
            x, earned, terminated, truncated, info = self.env.step(action)
            reward, g = reward + float(earned), max(g, (abs(float(x[self.speed])) - self.most) / self.unit)
            if terminated or truncated:
                break
        harm = max(g, 0.0)
        self.rewards.append(reward)
        self.harm.append(harm)
        return x, reward - self.price * harm, terminated, truncated, {**info, "constraint": g}


def ours(task: str, name: str, seed: int, steps: int, env: Limited) -> Callable[[Any, int], Any]:
    import everystep as es

    kind, _, candidates = name.rpartition("-")
    settings = dict(OURS[task])
    horizon, lengths = settings.pop("horizon"), settings.pop("lengths")
    if kind == "lsvi-ae":  # which does not look ahead
        del settings["beta_harm"]
    learner = es.Learner(
        env,
        getattr(es.agents, kind.replace("-", "_"))(**settings),
        features=None if lengths is None else es.features.fourier(100, lengths, constant=True),
        actions=es.actions.grid(int(candidates)),
        horizon=horizon,
        length=env.spec_steps,
        seed=seed,
    )
    learner.play(steps=steps)
    policy = learner.policy()
    return lambda x, t: policy(x, t + 1)


def theirs(task: str, name: str, seed: int, steps: int, env: Limited) -> Callable[[Any, int], Any]:
    import stable_baselines3
    import torch
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    torch.set_num_threads(1)
    kind, _, price = name.rpartition("-")
    env.price = float(price)
    vector: Any = DummyVecEnv([lambda: env])
    scaled = (task, kind) in NORMALISED
    vector = VecNormalize(vector, gamma=ZOO[task][kind]["gamma"]) if scaled else vector
    model = getattr(stable_baselines3, kind)("MlpPolicy", vector, seed=seed, device="cpu", **ZOO[task][kind])
    model.learn(steps)
    seen = vector.normalize_obs if scaled else lambda x: x
    return lambda x, t: model.predict(seen(x), deterministic=True)[0]


def run(task: str, name: str, seed: int) -> dict[str, Any]:
    """Train, then play the final policy."""
    began, steps, env = time.process_time(), STEPS[task], Limited(task)
    env.reset(seed=seed)
    choose = (ours if name.startswith("lsvi") else theirs)(task, name, seed, steps, env)
    trained = time.process_time() - began
    returns, harms = [], []
    for episode in range(EVALUATED):
        final = Limited(task)
        (x, _), t, over = final.reset(seed=1_000_000 + episode), 0, False
        while not over:
            x, _, terminated, truncated, _ = final.step(choose(x, t))
            t, over = t + 1, terminated or truncated
        returns.append(sum(final.rewards))
        harms.append(sum(final.harm))
    return {
        "task": task,
        "agent": name,
        "seed": seed,
        "steps": steps,
        "harm": sum(env.harm[:steps]),
        "final_return": float(np.mean(returns)),
        "final_harm": float(np.mean(harms)),
        "cpu_seconds": round(trained, 1),
    }


def table(path: Path) -> None:
    """Means over seeds, with the least and the largest."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    lines = [line for line in lines if line["seed"] < 1000]
    shown = lambda values: f"{np.mean(values):.4g} [{min(values):.4g}, {max(values):.4g}]"
    head = ("agent", "seeds", "harm while learning", "final return", "final harm per episode", "CPU s")
    for task in STEPS:
        print(task, f"| {' | '.join(head)} |", "|---" * len(head) + "|", sep="\n")
        for agent in dict.fromkeys(line["agent"] for line in lines if line["task"] == task):
            own = [line for line in lines if line["task"] == task and line["agent"] == agent]
            cells = [shown([line[key] for line in own]) for key in ("harm", "final_return", "final_harm")]
            seconds = np.mean([line["cpu_seconds"] for line in own])
            print(f"| {' | '.join([agent, str(len(own)), *cells, f'{seconds:.0f}'])} |")


def speed(candidates: list[int], steps: int) -> None:
    """Processor seconds per plan and per step."""
    import jax

    import everystep as es
    from everystep.training.agent.stored_agent import StoredAgent

    spent = {"plan": 0.0, "learn": 0.0}
    plan, learn = StoredAgent._new_plan, StoredAgent.learn

    def timed(name: str, function: Any) -> Any:
        def call(self: Any, *given: Any, **named: Any) -> Any:
            began = time.process_time()
            found = function(self, *given, **named)
            jax.block_until_ready(self.state)
            spent[name] += time.process_time() - began
            return found

        return call

    StoredAgent._new_plan, StoredAgent.learn = timed("plan", plan), timed("learn", learn)  # type: ignore[method-assign]
    print("candidates  states  ms per plan  ratio  ms per step  ratio  (after the first half; steps without plans)")
    first: tuple[float, float] | None = None
    for count in candidates:
        learner = es.Learner(
            Limited("pendulum"), "lsvi-ahead", actions=es.actions.grid(count), features=es.features.fourier(100)
        )
        learner.play(steps=steps // 2)
        spent.update(plan=0.0, learn=0.0)
        plans, began = learner.plans, time.process_time()
        learner.play(steps=steps // 2)
        total, made = time.process_time() - began, learner.plans - plans
        per_plan = 1e3 * spent["plan"] / made
        per_step = 1e3 * (total - spent["plan"]) / (steps // 2)
        first = first or (per_plan, per_step)
        states = learner.agent._slot_table.most if learner.agent else None
        print(
            f"{count:>10}  {states:>6}  {per_plan:>11.0f}  {per_plan / first[0]:>5.1f}  {per_step:>11.2f}  "
            f"{per_step / first[1]:>5.1f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--candidates", default="8,64,512")
    parser.add_argument("--steps", type=int, default=10_000, help="of --speed")
    parser.add_argument("--only", default="pendulum,car")
    parser.add_argument("--agents", default="lsvi-ahead-8,lsvi-ahead-64,lsvi-ahead-512,lsvi-ae-64,PPO-10,SAC-100")
    parser.add_argument("--seeds", default="0:5")
    parser.add_argument("--out", type=Path, default=Path("out/continuous.jsonl"))
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.speed:
        return speed([int(each) for each in options.candidates.split(",")], options.steps)
    if options.table:
        return table(options.out)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    done = {(line["task"], line["agent"], line["seed"]) for line in _lines(options.out)}
    low, high = map(int, options.seeds.split(":"))
    for seed in range(low, high):
        for task in options.only.split(","):
            for name in options.agents.split(","):
                if (task, name, seed) not in done:
                    line = json.dumps(run(task, name, seed))
                    with options.out.open("a", encoding="utf-8") as file:
                        file.write(line + "\n")
                    print(line, flush=True)
    return None


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


if __name__ == "__main__":
    main()
