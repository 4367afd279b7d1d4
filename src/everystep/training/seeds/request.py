"""What `everystep train` trains: from flags, from a TOML file whose values flags override, or from a folder.

env = "CartPole-v1"              # an id of gymnasium, or module:factory
constraint = "limits:tilt"       # module:function; left out: from info
features = "fourier(100)"        # also: cost_features, actions, agent, horizon, length, evaluate, out
episodes = 200                   # or steps = 50_000; without_exploration = 20 of them at the end
reward_range = [0, 1]            # left out: of observed rewards; also: memory, envs, reseed
stop_at_return = 475             # end early; on_episode, on_plan = "module:function" may, too
seeds = 5                        # or a range "10:15", or a list

[settings]                       # of the agent, as with --set
beta = 0.3

The keys are those of `TrainingOptions` (`training/options.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from everystep.agents.registry import TRAINED_BY_DEFAULT, Recipe
from everystep.environments.play import action_sets, named
from everystep.environments.play.batch import BatchBuilder
from everystep.environments.play.rollout import calls, play
from everystep.environments.protocols import AnyEnv
from everystep.errors import EverystepError, quoted, shown
from everystep.experiments import config
from everystep.experiments.config import File
from everystep.experiments.options import PATH, Option, SettingFlag
from everystep.features import syntax
from everystep.training import callbacks
from everystep.training.callbacks import Callback
from everystep.training.learner import Learner
from everystep.training.options import LEARNER, MAY_DIFFER, OPTIONS, TrainingOptions, names
from everystep.training.schedule import Schedule

FUNCTIONS = ("on_episode", "on_plan")
OUT = {"out": Option("out", None, PATH, "", "", ())}  # the folder, which is no part of a request


def _features(name: str, text: str) -> object:
    return syntax.read(text, name)


# How the text of an option becomes an argument of `Learner`; other values are arguments as they are.
MADE: Mapping[str, Callable[[str, str], object]] = {
    "constraint": lambda name, text: named.constraint(text),
    "features": _features,
    "cost_features": _features,
    "actions": lambda name, text: action_sets.read(text),
    **dict.fromkeys(FUNCTIONS, named.function),
}


@dataclass(frozen=True)
class TrainingRequest(TrainingOptions):
    """`TrainingOptions` whose values have been checked."""

    def __post_init__(self) -> None:
        for name, each in OPTIONS.items():
            object.__setattr__(self, name, each.checked(getattr(self, name)))

    @property
    def names(self) -> dict[str, str | None]:
        """What it imports, by field."""
        return {name: getattr(self, name) for name in ("env", "constraint", *FUNCTIONS)}

    @property
    def recipe(self) -> Recipe | None:
        """The agent with its settings; None where the environment decides."""
        if self.agent != TRAINED_BY_DEFAULT:
            return Recipe(self.agent, self.settings)
        if self.settings:
            raise EverystepError(f"settings are given for the agent '{self.agent}'; name the agent that has them.")
        return None

    @property
    def label(self) -> str:
        """The agent in words."""
        return self.agent if self.recipe is None else self.recipe.label

    @property
    def schedule(self) -> Schedule:
        return Schedule.of(self.episodes, self.steps, self.without_exploration, self.envs)

    @property
    def amount(self) -> str:
        return f"{self.schedule.total} episodes" if self.steps is None else f"{self.steps} steps"

    def learner(self, seed: int, log: Callback | None = None, env: AnyEnv | None = None) -> Learner:
        """A new learner in a new environment, as `es.train` makes it. `log` is called after every episode.

        `env` is an environment to use instead of a new one.
        """
        given: dict[str, Any] = {name: getattr(self, name) for name in names(LEARNER)}
        given |= {name: make(name, given[name]) for name, make in MADE.items() if given[name] is not None}
        stop = None if self.stop_at_return is None else callbacks.stop_at_return(self.stop_at_return)
        given["on_episode"] = callbacks.all_of(log, given["on_episode"], stop)
        env = named.environments(self.env, self.envs) if env is None else env
        return Learner(env, self.recipe or TRAINED_BY_DEFAULT, seed=seed, **given)

    def without_functions(self) -> TrainingRequest:
        """The same without callbacks, which are not called again for episodes that are played again."""
        return replace(self, stop_at_return=None, on_episode=None, on_plan=None)

    def check(self) -> None:
        """Raise what would go wrong before the second step, so that nothing is written then."""
        learner = self.learner(self.seeds[0])
        try:
            first = lambda t, observations, x: np.zeros(len(x), int)  # any action will do
            play(learner.stage, [BatchBuilder()] * learner.stage.copies, first, length=1)
        finally:
            close(learner.stage.env)

    def to_json(self) -> dict[str, Any]:
        lists = {name: list(value) for name, value in asdict(self).items() if isinstance(value, tuple)}
        return asdict(self) | lists

    @classmethod
    def from_json(cls, content: object) -> TrainingRequest:
        """What `to_json` wrote; a ValueError for anything else."""
        if not isinstance(content, dict) or not set(content) <= set(OPTIONS) or "env" not in content:
            raise ValueError("other keys")
        made = cls(**content)
        made.recipe, made.schedule  # noqa: B018  raise if they are no settings of this agent
        return made

    def check_continues(self, before: TrainingRequest, out: Path) -> None:
        """Raise unless this is the training `before`, or more of it."""
        for name in OPTIONS:
            old, new = (getattr(one, name) for one in (before, self))
            if name == "settings":
                old, new = before.label, self.label
            if name not in names(MAY_DIFFER) and old != new:
                raise EverystepError(
                    f"out '{out}' holds a training with {name} {_in_words(old)}, not {_in_words(new)}; give the same, "
                    "or choose another folder."
                )
        less = (self.steps or 0) < (before.steps or 0) or self.schedule.total < before.schedule.total
        if (self.steps is None) != (before.steps is None) or less:
            raise EverystepError(
                f"out '{out}' holds a training of {before.amount}, not {self.amount}; ask for as many or more of the "
                "same, or choose another folder."
            )
        if missing := sorted(set(before.seeds) - set(self.seeds)):
            raise EverystepError(
                f"out '{out}' holds a training with seed {missing[0]}, which is not among the seeds; give its seeds "
                "and more, or choose another folder."
            )


def close(env: object) -> None:
    """Close an environment that was made here; one that cannot be closed is left."""
    with suppress(EverystepError), calls("close"):  # its work is done
        getattr(env, "close")()  # noqa: B009  which not every environment has


def _in_words(value: object) -> str:
    return "left out" if value is None else quoted(value)


# --- from a file and flags --------------------------------------------------------------------------------------------
def read(path: Path | None, flags: Mapping[str, Any], settings: Sequence[SettingFlag]) -> tuple[TrainingRequest, Path]:
    """The request and its folder; `flags` are those that were given."""
    file, content = (File(), {}) if path is None else config.opened(path)
    known = OPTIONS | OUT
    file.only(content, tuple(known), "a training")
    given = {name: file.checked(known[name], value) for name, value in content.items()}
    for one, other in (("episodes", "steps"), ("steps", "episodes")):
        if one in flags and other not in flags:
            given.pop(other, None)  # the flag decides how long
    given |= flags
    for missing in ("env", "out"):
        if missing not in given:
            where = "" if path is None else f"; write {missing} = \"...\" in '{path}', or give it as a flag"
            raise EverystepError(f"--{missing} is missing{where or '; give it, or a FILE'}.")
    if ("episodes" in given) == ("steps" in given):
        both = "both are given" if "steps" in given else "neither is given"
        raise EverystepError(f"a training lasts for a number of episodes or of steps, and {both}; give one of the two.")
    out, agent = Path(given.pop("out")), given.get("agent", OPTIONS["agent"].default)
    for flag in settings:
        if flag.agent not in (None, agent):
            raise EverystepError(f"--set is '{shown(str(flag))}', but the agent is {agent}; write key=value.")
    given["settings"] = dict(given.get("settings", {})) | {flag.key: flag.value for flag in settings}
    try:
        request = TrainingRequest(**given)
        request.recipe, request.schedule  # noqa: B018
    except EverystepError as error:
        raise EverystepError(f"'{path}': {error}" if path is not None else str(error)) from None
    return request, out
