"""Evaluation of a policy: episodes played without exploration and without learning.

found = evaluate(result.policy, env, constraint=..., episodes=20)
print(found)         # return and violation per episode with 95 % intervals, episodes and steps that were unsafe
found.columns       # an array for each column, one row per episode
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from everystep.environments.play.batch import BatchBuilder
from everystep.environments.play.constraints import Constraint
from everystep.environments.play.making import made
from everystep.environments.play.rollout import Stage, play
from everystep.environments.protocols import AnyEnv
from everystep.errors import EverystepError, check_type, seed_number, shown, user_code, whole_number
from everystep.experiments import statistics
from everystep.runtime.progress import counting
from everystep.training.options import EVALUATED
from everystep.training.policy.policy import Policy

FIRST_SEED = 1_000_000  # of the episodes of an evaluation by default: none that training began with


@dataclass(frozen=True)
class Evaluation:
    """Episodes of a policy: return, length, violation (the sum of max(g, 0)) and unsafe_steps of each.

    >>> env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
    >>> policy = es.train(env, episodes=2, seed=0).policy
    >>> mean, low, high = es.evaluate(policy, env, episodes=3).interval("length")
    >>> mean, low, high
    (4.0, 4.0, 4.0)
    """

    columns: dict[str, np.ndarray]

    def interval(self, column: str) -> tuple[float, float, float]:
        """The mean of a column over episodes, and its 95 % bootstrap interval."""
        found = statistics.mean_over_seeds(self.columns[column])
        return float(found.mean), float(found.low), float(found.high)

    def __str__(self) -> str:
        n, steps = len(self.columns["return"]), int(self.columns["length"].sum())
        unsafe = self.columns["unsafe_steps"]
        parts = ["{} {:.4g} [{:.4g}, {:.4g}]".format(name, *self.interval(name)) for name in ("return", "violation")]
        return (
            f"the policy without exploration, {n} episodes: {', '.join(parts)} per episode; "
            f"{int(unsafe.sum())} of {steps} steps unsafe, in {int((unsafe > 0).sum())} episodes"
        )


def evaluate(
    policy: Policy,
    env: AnyEnv | str,
    *,
    constraint: Constraint | None = None,
    episodes: int = EVALUATED,
    seed: int = FIRST_SEED,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Play a policy for some episodes; episode i begins with reset(seed=seed + i).

    `env` and `constraint` are as in training, and so is the length of an episode. `progress(n)` is called whenever n
    more episodes are done; None: a bar on a terminal, lines in a log. Ctrl-C ends it with the episodes that were
    finished.

    >>> env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
    >>> policy = es.train(env, episodes=2, seed=0).policy
    >>> es.evaluate(policy, env, episodes=3).columns["violation"].shape
    (3,)
    """
    check_type("policy", policy, Policy, "a policy, as TrainingResult.policy and Policy.load give them")
    if progress is not None:
        check_type("progress", progress, Callable, "a function of the number of episodes")  # type: ignore[arg-type]
    episodes, seed = whole_number("episodes", episodes), seed_number("seed", seed)
    env = made(env, 1)
    stage = lambda seed: Stage(env, constraint, seed, actions=policy.candidates)
    if stage(seed).is_vector:
        raise EverystepError(f"env is {shown(env)}; give one environment, not a vector of them.")
    rows: list[dict[str, Any]] = []
    try:
        with counting(episodes, "episodes") if progress is None else nullcontext(progress) as report:
            for i in range(episodes):
                rows.append(_played(policy, stage(seed + i)))
                with user_code(lambda name, words: f"progress raised {name} ({words}); correct it."):
                    report(1)
    except KeyboardInterrupt:
        if not rows:
            raise
    return Evaluation({name: np.array([row[name] for row in rows]) for name in rows[0]})


def _played(policy: Policy, stage: Stage) -> dict[str, Any]:
    """One episode."""
    builder = BatchBuilder()
    choose = lambda t, observations, x: policy.numbers(x, step=t + 1)
    play(stage, [builder], choose, length=policy.countdown.length)
    g = np.maximum(np.stack(builder.mean_costs), 0)
    return {
        "return": sum(builder.rewards),
        "length": len(builder),
        "violation": g.sum(),
        "unsafe_steps": int((g > 0).any(1).sum()),
    }
