"""The options of a training, each declared once.

`TrainingOptions` is the table from which the flags and the TOML of `everystep train`, training.json, the arguments of
`es.Learner` and the values that a checkpoint compares are read. To add an option of `es.Learner`: a row here, a keyword
of `Learner` and of `train` (a test compares both with the table), and its use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from everystep.errors import MOST_COPIES, EverystepError, quoted
from everystep.experiments.options import (
    NUMBER,
    PAIR,
    SEEDS,
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

    env: str = field(metadata=option(TEXT, "an id of gymnasium, or module:factory", "E"))
    constraint: str | None = field(
        default=None,
        metadata=option(TEXT, "module:function of (obs, action, obs_next, info) (from info)", "C", LEARNER),
    )
    features: str | None = field(
        default=None,
        metadata=option(TEXT, "auto, one-hot, fourier(100), polynomial(2), tiles(8) ... (auto)", "F", LEARNER),
    )
    cost_features: str | None = field(
        default=None, metadata=option(TEXT, "features of the cost model (the same)", "F", LEARNER)
    )
    actions: str | None = field(
        default=None,
        metadata=option(TEXT, "candidates of a Box: grid(5), sobol(64), listed([...]) (grid(5))", "A", LEARNER),
    )
    agent: str = field(default="lsvi-ahead", metadata=option(TEXT, "an agent of `everystep list` (lsvi-ahead)", "A"))
    settings: Mapping[str, str | int | float] = field(
        default_factory=dict,
        metadata=option(SETTINGS, "a setting of the agent, of `everystep list`; may be repeated"),
    )
    horizon: int | None = field(
        default=None,
        metadata=option(whole(), "steps that a plan looks ahead (an episode, at most 50)", "H", LEARNER, CHECKPOINT),
    )
    length: int | None = field(
        default=None,
        metadata=option(
            whole(), "the most steps of an episode (the environment's own limit)", "N", LEARNER, CHECKPOINT
        ),
    )
    episodes: int | None = field(
        default=None, metadata=option(whole(), "number of episodes of each seed", "N", MAY_DIFFER)
    )
    steps: int | None = field(
        default=None,
        metadata=option(whole(), "or of steps: the episode that reaches them is the last", "N", MAY_DIFFER),
    )
    without_exploration: int = field(
        default=0, metadata=option(whole(0), "the last N episodes are played as the policy plays", "N")
    )
    reward_range: tuple[float, float] | None = field(
        default=None,
        metadata=option(PAIR, "of rewards, write --reward-range=-1,1 (as observed)", "LOW,HIGH", LEARNER, CHECKPOINT),
    )
    memory: int = field(
        default=MEMORY,
        metadata=option(
            whole(0), f"most states that plans compute values at; 0: no limit ({MEMORY})", "N", LEARNER, CHECKPOINT
        ),
    )
    envs: int = field(
        default=1, metadata=option(whole(1, MOST_COPIES), "copies of the environment stepped together (1)", "N")
    )
    reseed: bool = field(
        default=False,
        metadata=option(SWITCH, "begin every episode with reset(seed=...)", None, LEARNER, CHECKPOINT),
    )
    on_episode: str | None = field(
        default=None,
        metadata=option(TEXT, "module:function of the learner, called after every episode", "F", LEARNER, MAY_DIFFER),
    )
    on_plan: str | None = field(
        default=None,
        metadata=option(TEXT, "the same after every plan; True ends the training", "F", LEARNER, MAY_DIFFER),
    )
    stop_at_return: float | None = field(
        default=None, metadata=option(NUMBER, "end once the mean return of 20 episodes is R", "R", MAY_DIFFER)
    )
    seeds: Sequence[int] = field(
        default=(0,),
        metadata=option(
            SEEDS._replace(read=_seeds),
            "their number, a range 10:20 without its end, or a list 3,8 (1)",
            "M",
            MAY_DIFFER,
        ),
    )
    evaluate: int = field(
        default=EVALUATED,
        metadata=option(whole(0), f"episodes that each policy plays afterwards ({EVALUATED})", "N", MAY_DIFFER),
    )


OPTIONS = rows(TrainingOptions)


def names(where: str) -> tuple[str, ...]:
    """The options whose value is used there."""
    return tuple(each.name for each in OPTIONS.values() if where in each.travels)
