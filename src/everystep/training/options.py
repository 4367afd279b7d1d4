"""The options of a training, each declared once.

`TrainingOptions` is the table from which the flags and the TOML of `everystep train`, training.json, the arguments of
`es.Learner` and the values that a checkpoint compares are read. To add an option of `es.Learner`: a row here, a keyword
of `Learner` and of `train` (a test compares both with the table), and its use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass

from everystep.errors import MOST_COPIES, EverystepError, quoted
from everystep.experiments.options import (
    NUMBER,
    PAIR,
    SEEDS,
    SEEDS_HELP,
    SETTINGS,
    SWITCH,
    TEXT,
    Value,
    option,
    rows,
    seed_list,
    whole,
)

MEMORY = 4096  # default number of states that plans compute values at, if states do not recur
EVALUATED = 20  # default episodes of an evaluation
MOST_SEEDS = 1000
# Where else the value of an option is used:
LEARNER = "learner"  # an argument of `es.Learner`
CHECKPOINT = "checkpoint"  # a number or a switch that a checkpoint is compared with
MAY_DIFFER = "may differ"  # when a training in a folder is continued


def _seeds(name: str, value: Value) -> tuple[int, ...]:
    seeds = seed_list(name, value)
    if len(seeds) > MOST_SEEDS:
        raise EverystepError(f"{name} is {quoted(value)}; give at most {MOST_SEEDS} seeds.")
    return tuple(seeds)


@dataclass(frozen=True)
class TrainingOptions:
    """One agent in one environment, for several seeds: text and numbers."""

    env: str = option(TEXT, "E", "an id of gymnasium, or module:factory", MISSING)
    constraint: str | None = option(
        TEXT, "C", "module:function of (obs, action, obs_next, info) (from info)", None, LEARNER
    )
    features: str | None = option(
        TEXT, "F", "auto, one-hot, fourier(100), polynomial(2), tiles(8) ... (auto)", None, LEARNER
    )
    cost_features: str | None = option(TEXT, "F", "features of the cost model (the same)", None, LEARNER)
    actions: str | None = option(
        TEXT, "A", "candidates of a Box: grid(5), sobol(64), listed([...]) (grid(5))", None, LEARNER
    )
    agent: str = option(TEXT, "A", "an agent of `everystep list` (auto: lsvi-nets, or lsvi-ahead)", "auto")
    settings: Mapping[str, str | int | float] = option(
        SETTINGS, "", "a setting of the agent, of `everystep list`; may be repeated", {}
    )
    horizon: int | None = option(
        whole(), "H", "steps that a plan looks ahead (an episode, at most 50)", None, LEARNER, CHECKPOINT
    )
    length: int | None = option(
        whole(), "N", "the most steps of an episode (the environment's own limit)", None, LEARNER, CHECKPOINT
    )
    episodes: int | None = option(whole(), "N", "number of episodes of each seed", None, MAY_DIFFER)
    steps: int | None = option(whole(), "N", "or of steps: the last episode is completed", None, MAY_DIFFER)
    without_exploration: int = option(whole(0), "N", "the last N episodes are played as the policy plays", 0)
    reward_range: tuple[float, float] | None = option(
        PAIR, "LOW,HIGH", "of rewards, write --reward-range=-1,1 (as observed)", None, LEARNER, CHECKPOINT
    )
    memory: int = option(whole(0), "N", f"most states of plans; 0: no limit ({MEMORY})", MEMORY, LEARNER, CHECKPOINT)
    envs: int = option(whole(1, MOST_COPIES), "N", "copies of the environment stepped together (1)", 1)
    reseed: bool = option(SWITCH, "", "begin every episode with reset(seed=...)", False, LEARNER, CHECKPOINT)
    on_episode: str | None = option(
        TEXT, "F", "module:function of the learner, called after every episode", None, LEARNER, MAY_DIFFER
    )
    on_plan: str | None = option(
        TEXT, "F", "the same after every plan; True ends the training", None, LEARNER, MAY_DIFFER
    )
    stop_at_return: float | None = option(NUMBER, "R", "end once the mean return of 20 episodes is R", None, MAY_DIFFER)
    seeds: Sequence[int] = option(SEEDS._replace(read=_seeds), "M", f"{SEEDS_HELP} (1)", (0,), MAY_DIFFER)
    evaluate: int = option(
        whole(0), "N", f"episodes that each policy plays afterwards ({EVALUATED})", EVALUATED, MAY_DIFFER
    )


OPTIONS = rows(TrainingOptions)


def names(where: str) -> tuple[str, ...]:
    """The options whose value is used there."""
    return tuple(each.name for each in OPTIONS.values() if where in each.travels)
