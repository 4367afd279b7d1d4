"""A shield for agents that you already have: DQN, PPO and MaskablePPO with and without it, on CartPole and a highway.

    python examples/shield.py [--env cartpole|highway] [--agents DQN,PPO,MaskablePPO] [--seeds 0:5] [--steps N]
                              [--jobs 2] [--out out/examples/shield.jsonl]

CartPole: the constraint is the physical limit, the pole within 8 degrees and the cart within 2 m. One decision cannot
keep it, so the shield holds a learner that looks ahead; its features are mirror-symmetric
(`--set '{"mirrored": false}'` turns this off). The highway: time to react, as in highway.py, which
one decision nearly always keeps; the shield holds LSVI-AE. It knows nothing at the start: it learns from the episodes
of the agent that trains in front of it. DQN and PPO ask for actions, some of which are replaced, at a price of 1 in
their reward; MaskablePPO asks for admissible actions only.

Measured: the violation while learning, the sum of max(g, 0) over all steps; then 20 episodes of the agent without
exploration, with the shield (which learns no more) and, trained with it, also without it. Every run writes a line when
it is done, and is not repeated. Needs stable-baselines3, sb3-contrib for MaskablePPO, and highway-env for the highway.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

EVALUATED = 20
ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}


@dataclass(frozen=True)
class Setting:
    """An environment with its limit, and settings of the learner in the shield and of the agents in front of it.

    high    of observations, by which they are divided for networks
    shield  tolerance, and price of an action that is replaced
    """

    make: Callable[[], gymnasium.Env]
    constraint: Callable[..., float]
    high: np.ndarray
    learner: Callable[[gymnasium.Env, int, dict[str, Any]], Any]
    agents: dict[str, dict[str, Any]]
    shield: dict[str, Any]
    steps: int


# --- CartPole ---------------------------------------------------------------------------------------------------------
ANGLE, TRACK = np.radians(8), 2.0
HIGH = np.array([2.4, 3.0, 0.21, 3.0], np.float32)  # position, velocity, angle, angular velocity
AHEAD = {
    "beta": 1.0, "beta_harm": 0.01, "beta_cost": 0.0, "lam": 0.001, "lam_cost": 0.001, "floor": "k", "tolerance": 0.01,
}  # fmt: skip
PPO = {"learning_rate": 1e-3, "n_steps": 250, "batch_size": 50, "n_epochs": 10, "gae_lambda": 0.9, "gamma": 0.98}
DQN = {
    "learning_rate": 1e-3, "learning_starts": 200, "batch_size": 64, "train_freq": 4, "gradient_steps": 4,
    "target_update_interval": 100, "exploration_fraction": 0.3, "exploration_final_eps": 0.02, "gamma": 0.98,
}  # fmt: skip


def upright(before: np.ndarray, action: Any, x: np.ndarray, info: dict[str, Any]) -> float:
    return max(abs(x[2]) / ANGLE, abs(x[0]) / TRACK) - 1


def balancing(env: gymnasium.Env, seed: int, settings: dict[str, Any]) -> Any:
    import everystep as es

    features = es.features.fourier(settings["size"], low=(-HIGH).tolist(), high=HIGH.tolist(), seed=seed)
    return es.Learner(
        env,
        es.agents.lsvi_ahead(**AHEAD),
        features=es.features.mirrored(features, actions=[1, 0]) if settings["mirrored"] else features,
        horizon=settings["horizon"],
        reward_range=(0, 1),
        seed=seed,
    )


# --- the highway ------------------------------------------------------------------------------------------------------
NET = {"gamma": 0.8, "learning_rate": 5e-4, "policy_kwargs": {"net_arch": [256, 256]}}
ROAD_DQN = {
    "learning_starts": 100, "batch_size": 32, "train_freq": 1, "target_update_interval": 50,
    "exploration_fraction": 0.5, **NET,
}  # fmt: skip


def road() -> gymnasium.Env:
    import highway

    return highway.make()


def time_to_react(before: np.ndarray, action: Any, x: np.ndarray, info: dict[str, Any]) -> float:
    import highway

    return highway.time_to_react(before, action, x, info)


def driving(env: gymnasium.Env, seed: int, settings: dict[str, Any]) -> Any:
    import highway

    import everystep as es

    return es.Learner(env, es.agents.lsvi_ae(**highway.CONTEST.settings), seed=seed, **highway.CONTEST.learner)


SETTINGS = {
    "cartpole": Setting(
        lambda: gymnasium.make("CartPole-v1"),
        upright,
        HIGH,
        balancing,
        {"DQN": DQN, "PPO": PPO, "MaskablePPO": PPO},
        {"tolerance": 0.02, "price": 1.0, "horizon": 60, "size": 150, "mirrored": True},
        6000,
    ),
    "highway": Setting(
        road,
        time_to_react,
        np.ones(19, np.float32),
        driving,
        {"DQN": ROAD_DQN, "PPO": PPO | NET, "MaskablePPO": PPO | NET},
        {"tolerance": 0.0, "price": 1.0},
        3000,
    ),
}


class Limits(gymnasium.Wrapper):
    """An environment with info["constraint"]; keeps the reward and the harm of every step."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting.make())
        self._constraint = setting.constraint
        self._before: Any = None
        self.rewards: list[float] = []
        self.harm: list[float] = []
        self.episodes = 0

    def reset(self, **options: Any) -> Any:
        self._before, info = self.env.reset(**options)
        return self._before, info

    def step(self, action: Any) -> Any:
        x, reward, terminated, truncated, info = self.env.step(action)
        g = float(self._constraint(self._before, action, x, info))
        self._before = x
        self.rewards.append(float(reward))
        self.harm.append(max(g, 0.0))
        self.episodes += terminated or truncated
        return x, reward, terminated, truncated, {**info, "constraint": g}


def scaled(env: gymnasium.Env, high: np.ndarray) -> gymnasium.Env:
    """Observations in about [-1, 1], for networks; around the shield, which sees those of the environment."""
    space = gymnasium.spaces.Box(-np.inf, np.inf, high.shape, np.float32)
    return gymnasium.wrappers.TransformObservation(env, lambda x: (x / high).astype(np.float32), space)


# --- one run ---------------------------------------------------------------------------------------------------------
def run(where: str, name: str, shielded: bool, seed: int, steps: int, changed: dict[str, Any]) -> dict[str, Any]:
    """Train, then evaluate; one line of the file."""
    import stable_baselines3 as sb3
    import torch

    import everystep as es

    torch.set_num_threads(1)
    setting = SETTINGS[where]
    began, limits, settings = time.perf_counter(), Limits(setting), {**setting.shield, **changed}
    shield = es.shield(setting.learner(limits, seed, settings), settings["tolerance"]) if shielded else None
    env = limits if shield is None else shield.wrap(limits, price=settings["price"])
    if name == "MaskablePPO":
        import sb3_contrib

        kind = sb3_contrib.MaskablePPO
    else:
        kind = {"DQN": sb3.DQN, "PPO": sb3.PPO}[name]
    model = kind("MlpPolicy", scaled(env, setting.high), seed=seed, device="cpu", **setting.agents[name]).learn(steps)
    seconds = time.perf_counter() - began
    asked = lambda x: int(model.predict((x / setting.high).astype(np.float32), deterministic=True)[0])  # without a mask
    harm = np.array(limits.harm[:steps])
    final = evaluated(setting, asked, shield)
    line = {"env": where, "agent": name, "shielded": shielded, "seed": seed, "steps": steps, "changed": changed}
    line |= {"harm": float(harm.sum()), "unsafe_steps": int((harm > 0).sum()), "episodes": limits.episodes}
    line |= {"harm_by_fifth": [float(each.sum()) for each in np.array_split(harm, 5)]}
    line |= {"final_return": final[0], "final_harm": final[1], "seconds": round(seconds, 1)}
    if shield is not None:
        alone = evaluated(setting, asked, None)
        line |= {"return_without": alone[0], "harm_without": alone[1], "plans": shield.learner.plans}
    return line


def evaluated(setting: Setting, asked: Any, shield: Any) -> tuple[float, float]:
    """Mean return and harm of an episode."""
    limits = Limits(setting)
    env = limits if shield is None else shield.wrap(limits, learn=False)
    for episode in range(EVALUATED):
        (x, _), over = env.reset(seed=1_000_000 + episode), False
        while not over:
            x, _, terminated, truncated, _ = env.step(asked(x))
            over = terminated or truncated
    return float(sum(limits.rewards) / EVALUATED), float(sum(limits.harm) / EVALUATED)


# --- the file and the table ------------------------------------------------------------------------------------------
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--env", choices=SETTINGS, default="cartpole")
    parser.add_argument("--agents", default="DQN,PPO,MaskablePPO")
    parser.add_argument("--seeds", default="0:5", help="first:end")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", choices=("with", "without"), help="runs with the shield, or without it")
    parser.add_argument("--set", default="{}", help="settings tried instead of those above, as JSON")
    parser.add_argument("--out", type=Path, default=Path("out/examples/shield.jsonl"))
    parser.add_argument("--table", action="store_true", help="print the table of the file, and run nothing")
    options = parser.parse_args()
    first, last = map(int, options.seeds.split(":"))
    changed, key = json.loads(options.set), lambda job: json.dumps(job[:5] + (job[5] if job[2] else {},))
    steps = options.steps or SETTINGS[options.env].steps
    text = options.out.read_text(encoding="utf-8") if options.out.exists() else ""
    lines = [json.loads(line) for line in text.splitlines()]
    which = ("env", "agent", "shielded", "seed", "steps", "changed")
    done = {key(tuple(line[name] for name in which)) for line in lines}
    sides = {None: (False, True), "with": (True,), "without": (False,)}[options.only]
    jobs = [
        (options.env, name, side, seed, steps, changed if side else {})
        for seed in range(first, last) for name in options.agents.split(",") for side in sides
        if side or name != "MaskablePPO"  # without a mask it is PPO
    ]  # fmt: skip
    os.environ.update(ONE_THREAD)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")  # JAX has threads, which do not survive a fork
    if not options.table:
        with ProcessPoolExecutor(options.jobs, context) as pool, options.out.open("a", encoding="utf-8") as file:
            for future in as_completed([pool.submit(run, *job) for job in jobs if key(job) not in done]):
                lines.append(future.result())
                print(json.dumps(lines[-1]), file=file, flush=True)
                print(lines[-1], flush=True)
    print(table(lines))


def table(lines: list[dict[str, Any]]) -> str:
    """Means [minimum, maximum] over seeds."""
    columns = ("harm", "unsafe_steps", "final_return", "final_harm", "return_without", "harm_without", "seconds")
    rows = [["agent", "shield", "seeds", *(name.replace("_", " ") for name in columns)]]
    rows.append(["---"] * len(rows[0]))
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for line in lines:
        with_it = ("yes " + json.dumps(line["changed"]) * bool(line["changed"])).strip() if line["shielded"] else "no"
        groups.setdefault((f"{line['env']}, {line['agent']}, {line['steps']:,} steps", with_it), []).append(line)
    for which, each in sorted(groups.items()):
        found = [[line[name] for line in each if name in line] for name in columns]
        cells = [f"{np.mean(x):.3g} [{min(x):.3g}, {max(x):.3g}]" if x else "" for x in found]
        rows.append([*which, str(len(each)), *cells])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


if __name__ == "__main__":
    main()
