"""What `everystep train` is to train: from flags, from a TOML file whose values flags override, or from a folder.

env = "CartPole-v1"              # an id of gymnasium, or module:factory
constraint = "limits:tilt"       # module:function; left out: from info
features = "fourier(100)"        # also: cost_features, actions, agent, horizon, length, seed0, evaluate, out
episodes = 200                   # or steps = 50_000; without_exploration = 20 of them at the end
reward_range = [0, 1]            # left out: of observed rewards; also: memory, envs, reseed
stop_at_return = 475             # end early; on_episode, on_plan = "module:function" may, too
seeds = 5

[settings]                       # of the agent, as with --set
beta = 0.3
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from everystep.agents.registry import TRAINED_BY_DEFAULT, Recipe
from everystep.environments.play import action_sets, named
from everystep.environments.play.batch import BatchBuilder
from everystep.environments.play.rollout import calls, play
from everystep.errors import (
    LARGEST_SEED,
    MOST_COPIES,
    EverystepError,
    count,
    quoted,
    real_number,
    seed_number,
    shown,
    whole_number,
)
from everystep.experiments import config
from everystep.experiments.config import File, SettingFlag
from everystep.features import syntax
from everystep.files.forms import NUMBER
from everystep.training import callbacks
from everystep.training.arguments import MEMORY
from everystep.training.callbacks import Callback
from everystep.training.learner import Learner
from everystep.training.schedule import Schedule

FUNCTIONS = ("on_episode", "on_plan")
TEXTS = ("env", "constraint", "features", "cost_features", "actions", "agent", "out", *FUNCTIONS)
NUMBERS = ("horizon", "length", "episodes", "steps", "envs", "memory", "without_exploration", "seed0", "evaluate")
FROM_ZERO = ("memory", "without_exploration", "seed0", "evaluate")  # these may be 0
KEYS = (*TEXTS, *NUMBERS, "reseed", "reward_range", "stop_at_return", "seeds", "settings")
EVALUATED = 10  # default episodes of the evaluation after training
MOST_SEEDS = 1000
MAY_DIFFER = ("episodes", "steps", "seeds", "evaluate", "stop_at_return", *FUNCTIONS)  # when a training goes on


@dataclass(frozen=True)
class TrainingRequest:
    """One agent in one environment, for several seeds. All of it is text and numbers."""

    env: str
    agent: str = TRAINED_BY_DEFAULT
    constraint: str | None = None
    features: str | None = None
    cost_features: str | None = None
    actions: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    horizon: int | None = None
    length: int | None = None
    episodes: int | None = None
    steps: int | None = None
    without_exploration: int = 0
    reward_range: tuple[float, float] | None = None
    memory: int = MEMORY  # 0: no limit
    envs: int = 1
    reseed: bool = False
    on_episode: str | None = None
    on_plan: str | None = None
    stop_at_return: float | None = None
    seeds: tuple[int, ...] = (0,)
    evaluate: int = EVALUATED

    @property
    def names(self) -> dict[str, str | None]:
        """What it imports, by field."""
        return {name: getattr(self, name) for name in ("env", "constraint", *FUNCTIONS)}

    @property
    def recipe(self) -> Recipe:
        return Recipe(self.agent, self.settings)

    def __post_init__(self) -> None:
        whole_number("envs", self.envs, at_most=MOST_COPIES)

    @property
    def schedule(self) -> Schedule:
        return Schedule.of(self.episodes, self.steps, self.without_exploration, self.envs)

    @property
    def amount(self) -> str:
        return f"{self.schedule.total} episodes" if self.steps is None else f"{self.steps} steps"

    def learner(self, seed: int, log: Callback | None = None, env: Any = None) -> Learner:
        """A new learner in a new environment, as `es.train` makes it. `log` is called after every episode.

        `env` is an environment to use instead of a new one.
        """
        read = lambda name: None if (text := getattr(self, name)) is None else syntax.read(text, name)
        called = {name: named.function(name, getattr(self, name)) for name in FUNCTIONS}
        called["on_episode"] = callbacks.all_of(
            log,
            called["on_episode"],
            None if self.stop_at_return is None else callbacks.stop_at_return(self.stop_at_return),
        )
        return Learner(
            named.environments(self.env, self.envs) if env is None else env,
            self.recipe,
            constraint=named.constraint(self.constraint),
            features=read("features"),
            cost_features=read("cost_features"),
            actions=None if self.actions is None else action_sets.read(self.actions),
            horizon=self.horizon,
            length=self.length,
            reward_range=self.reward_range,
            memory=self.memory or None,
            reseed=self.reseed,
            seed=seed,
            **called,
        )

    def without_functions(self) -> TrainingRequest:
        """The same without the functions that look on: what is played again is not reported to them again."""
        return replace(self, stop_at_return=None, **dict.fromkeys(FUNCTIONS))  # type: ignore[arg-type]

    def check(self) -> None:
        """Raise what would go wrong before the second step, so that nothing is written then."""
        learner = self.learner(self.seeds[0])
        try:
            first = lambda t, observations, x: np.zeros(len(x), int)  # any action will do
            play(learner.stage, [BatchBuilder()] * learner.stage.copies, first, length=1)
        finally:
            close(learner.stage.env)

    def to_json(self) -> dict[str, Any]:
        lists = {"reward_range": None if self.reward_range is None else list(self.reward_range)}
        return asdict(self) | lists | {"seeds": list(self.seeds), "settings": dict(self.settings)}

    @classmethod
    def from_json(cls, content: Any) -> TrainingRequest:
        """What `to_json` wrote; a ValueError for anything else."""
        defaults = cls(env="").to_json()  # an earlier version may not have known all of them
        if not isinstance(content, dict) or not set(content) <= set(defaults) or "env" not in content:
            raise ValueError("other keys")
        content = defaults | content
        optional = ("constraint", "features", "cost_features", "actions", *FUNCTIONS)
        texts = [
            content[name] for name in ("env", "agent", *optional) if name not in optional or content[name] is not None
        ]
        if not all(isinstance(each, str) for each in texts):
            raise ValueError("a text is missing")
        least = dict.fromkeys(NUMBERS, 1) | dict.fromkeys(FROM_ZERO, 0)
        for name in ("horizon", "length", "episodes", "steps", "envs", "memory", "without_exploration", "evaluate"):
            if content[name] is not None or name not in ("horizon", "length", "episodes", "steps"):
                _whole(content[name], least[name])
        seeds, settings = content["seeds"], content["settings"]
        if not isinstance(seeds, list) or not seeds or len(set(map(str, seeds))) < len(seeds):
            raise ValueError("no list of seeds")
        for each in seeds:
            _whole(each, 0)
        if not isinstance(content["reseed"], bool):
            raise ValueError("reseed is wrong")
        limits = [content["stop_at_return"], *(content["reward_range"] or ())]
        if not all(each is None or NUMBER(each) for each in limits):
            raise ValueError("a number is wrong")
        if content["reward_range"] is not None:
            low, high = content["reward_range"]
            content["reward_range"] = (low, high)
        if not isinstance(settings, dict) or not all(isinstance(each, str | int | float) for each in settings.values()):
            raise ValueError("settings are wrong")
        made = cls(**content | {"seeds": tuple(seeds)})
        made.recipe, made.schedule  # noqa: B018  raise if they are no settings of this agent
        return made

    def check_continues(self, before: TrainingRequest, out: Path) -> None:
        """Raise unless this is the training `before`, or more of it."""
        for each in fields(self):
            old, new = (getattr(one, each.name) for one in (before, self))
            if each.name == "settings":
                old, new = before.recipe.label, self.recipe.label
            if each.name not in MAY_DIFFER and old != new:
                raise EverystepError(
                    f"out '{out}' holds a training with {each.name} {_in_words(old)}, not {_in_words(new)}; give the "
                    "same, or choose another folder."
                )
        less = (self.steps or 0) < (before.steps or 0) or self.schedule.total < before.schedule.total
        if (self.steps is None) != (before.steps is None) or less:
            raise EverystepError(
                f"out '{out}' holds a training of {before.amount}, not {self.amount}; ask for as many or more of the "
                "same, or choose another folder."
            )
        if missing := sorted(set(before.seeds) - set(self.seeds)):
            raise EverystepError(
                f"out '{out}' holds a training with seed {missing[0]}, which is not asked for; ask for its seeds and "
                "more, or choose another folder."
            )


def close(env: Any) -> None:
    """Close an environment that was made here; one that cannot be closed is left."""
    with suppress(EverystepError), calls("close"):  # its work is done
        env.close()


def _whole(value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= LARGEST_SEED:
        raise ValueError("a number is wrong")


def _in_words(value: Any) -> str:
    return "left out" if value is None else quoted(value)


# --- from a file and flags --------------------------------------------------------------------------------------------
def read(path: Path | None, flags: Mapping[str, Any], settings: Sequence[SettingFlag]) -> tuple[TrainingRequest, Path]:
    """The request and its folder; `flags` are those that were given."""
    file, content = (File(), {}) if path is None else config.opened(path)
    file.only(content, KEYS, "a training")
    given: dict[str, Any] = {name: file.text_of(name, content[name]) for name in TEXTS if name in content}
    given |= {
        name: file.whole(name, content[name], 0 if name in FROM_ZERO else 1) for name in NUMBERS if name in content
    }
    if not isinstance(content.get("reseed", False), bool):
        raise file.wrong("reseed", f"reseed is {quoted(content['reseed'])}; write true or false.")
    given |= {name: content[name] for name in ("reseed",) if name in content}
    for name, read_one in (("stop_at_return", _a_return), ("reward_range", _two_numbers)):
        if name in content:
            try:
                given[name] = read_one(content[name])
            except EverystepError as error:
                raise file.wrong(name, str(error)) from None
    if "seeds" in content:
        given["seeds"] = (
            [file.whole("seeds", each, 0, LARGEST_SEED) for each in content["seeds"]]
            if isinstance(content["seeds"], list)
            else file.whole("seeds", content["seeds"])
        )
    own = dict(file.table("settings", content.get("settings", {})))
    for key, value in own.items():
        if not isinstance(value, str | int | float):
            raise file.wrong(key, f"setting {key} is {quoted(value)}; write a number, a string, true or false.")
    for one, other in (("episodes", "steps"), ("steps", "episodes")):
        if one in flags and other not in flags:
            given.pop(other, None)  # the flag decides how long
    given |= _numbers(flags)
    for missing in ("env", "out"):
        if missing not in given:
            where = "" if path is None else f"; write {missing} = \"...\" in '{path}', or give it as a flag"
            raise EverystepError(f"--{missing} is missing{where or '; give it, or a FILE'}.")
    if ("episodes" in given) == ("steps" in given):
        both = "both are given" if "steps" in given else "neither is given"
        raise EverystepError(f"a training lasts for a number of episodes or of steps, and {both}; give one of the two.")
    out, seeds = Path(given.pop("out")), _seeds(given.pop("seeds", 1), given.pop("seed0", None))
    agent = given.get("agent", TRAINED_BY_DEFAULT)
    for flag in settings:
        if flag.agent not in (None, agent):
            raise EverystepError(f"--set is '{shown(str(flag))}', but the agent is {agent}; write key=value.")
        own[flag.key] = flag.value
    try:
        request = TrainingRequest(**given, settings=own, seeds=seeds)
        request.recipe, request.schedule  # noqa: B018
    except EverystepError as error:
        raise EverystepError(f"'{path}': {error}" if path is not None else str(error)) from None
    return request, out


def _numbers(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Flags with their numbers read."""
    from_zero = lambda name, value: whole_number(name, value, 0)
    read_by: dict[str, Callable[[str, Any], Any]] = {
        **dict.fromkeys(NUMBERS, whole_number),
        **dict.fromkeys(FROM_ZERO, from_zero),
        "seed0": seed_number,
        "seeds": count,
        "stop_at_return": lambda name, value: _a_return(value),
        "reward_range": lambda name, value: _two_numbers(value.split(",")),
    }
    as_it_is = lambda name, value: value
    return {name: read_by.get(name, as_it_is)(name, value) for name, value in flags.items()}


def _a_return(given: Any) -> float:
    return real_number("stop_at_return", given, -math.inf)


def _two_numbers(given: Any) -> tuple[float, float]:
    if not isinstance(given, list) or len(given) != 2:
        raise EverystepError(f"reward_range is {quoted(given)}; give two numbers, the lower first, such as -1,1.")
    low, high = (real_number("reward_range", each, -math.inf) for each in given)
    return low, high


def _seeds(given: int | list[int], first: int | None) -> tuple[int, ...]:
    if isinstance(given, list):
        if first is not None:
            raise EverystepError(f"seeds is {shown(given)}, so seed0 = {first} has no effect; leave seed0 out.")
        if not given or len(set(given)) < len(given):
            raise EverystepError(f"seeds is {shown(given)}; give each seed once.")
        seeds = tuple(given)
    else:
        seeds = tuple(range(first or 0, (first or 0) + min(given, MOST_SEEDS + 1)))
    if len(seeds) > MOST_SEEDS or max(seeds) > LARGEST_SEED:
        raise EverystepError(f"seeds is {shown(given)}; give at most {MOST_SEEDS}, each at most {LARGEST_SEED}.")
    return seeds
