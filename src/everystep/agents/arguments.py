"""Keywords that do not exist: an error with what to write instead, for functions of the library and for agents.

    @refuse_unknown("train")
    def train(env, agent=..., *, episodes=None, ...):

A keyword may be a name of other libraries, an argument of something else, a setting of an agent, or misspelt.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from types import MappingProxyType
from typing import ParamSpec, TypeVar

from everystep.errors import EverystepError, quoted, shown, unknown

P = ParamSpec("P")
T = TypeVar("T")
NOWHERE: Mapping[str, str] = MappingProxyType({})

RENAMED = {  # names of other libraries, and the name here
    "total_timesteps": "steps",
    "timesteps": "steps",
    "n_steps": "steps",
    "n_timesteps": "steps",
    "num_steps": "steps",
    "max_steps": "steps",
    "n_episodes": "episodes",
    "num_episodes": "episodes",
    "n_eval_episodes": "evaluate",
    "eval_episodes": "evaluate",
    "n_envs": "envs",
    "num_envs": "envs",
    "max_episode_steps": "length",
    "episode_length": "length",
    "time_limit": "length",
    "lookahead": "horizon",
    "look_ahead": "horizon",
    "feature_map": "features",
    "featurizer": "features",
    "random_state": "seed",
    "random_seed": "seed",
    "n_seeds": "seeds",
    "num_seeds": "seeds",
    "callback": "on_episode",
    "callbacks": "on_episode",
    "progress_bar": "progress",
    "log_dir": "out",
    "logdir": "out",
    "save_dir": "out",
    "output_dir": "out",
    "tensorboard_log": "out",
    "replay_buffer": "warm_start",
    "dataset": "warm_start",
    "ridge": "lam",
    "regularization": "lam",
    "lambda_": "lam",
    "bonus": "beta",
    "bonus_coef": "beta",
    "ucb_coef": "beta",
    "exploration": "beta",
    "delta": "p",
    "confidence": "p",
    "noise": "sigma",
    "value_model": "value",
    "cost_model": "cost",
    "safe_actions": "known_safe",
    "harm_price": "violation_price",  # its name before
}
_AGENT = "give the name of an agent second, as in train(env, 'lsvi-ahead')"
_CONSTRAINT = "use constraint=, a function of (obs, action, obs_next, info) that is safe where it is at most 0"
EXPLAINED = {  # names of other libraries for which there is no single name here
    "env_id": "give the environment first, as in train('CartPole-v1')",
    "environment": "give the environment first, as in train('CartPole-v1')",
    "policy": _AGENT,
    "algo": _AGENT,
    "algorithm": _AGENT,
    "cost_fn": _CONSTRAINT,
    "cost_function": _CONSTRAINT,
    "constraints": _CONSTRAINT,
    "cost_limit": _CONSTRAINT,
    "gamma": "values are not discounted: use horizon= of train, the steps that a plan looks ahead",
    "discount": "values are not discounted: use horizon= of train, the steps that a plan looks ahead",
    "learning_rate": "least squares have none: agents have beta and lam, as in es.agents.lsvi_ahead(beta=..., lam=...)",
    "lr": "least squares have none: agents have beta and lam, as in es.agents.lsvi_ahead(beta=..., lam=...)",
    "batch_size": "least squares use all data in every plan; leave it out",
    "verbose": "use progress=, a function of the number of finished episodes; a bar is shown unless it is given",
    "device": "JAX decides it; leave it out",
    "kernel": "give it in a model, as in es.agents.lsvi_ahead(value=es.kernel_values(...), cost=es.gp(...))",
}
# One spelling: what runs several seeds has `seeds`, what has one has `seed`.
_RANGE = 'use seeds=, a number, a list or a range, as in seeds="10:42"'
SEVERAL_SEEDS: Mapping[str, str] = MappingProxyType({"seed": _RANGE, "seed0": _RANGE})
ONE_SEED: Mapping[str, str] = MappingProxyType(
    {"seeds": "use seed=, because it trains one seed; `everystep train --seeds` trains several"}
)


def refuse_unknown(what: str, elsewhere: Mapping[str, str] = NOWHERE) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Refuse keywords that the function `es.{what}` does not have, and more arguments by position than it has.

    elsewhere   keywords that something else has, with where to give them
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        parameters = inspect.signature(function).parameters.values()
        known = [each.name for each in parameters if each.name not in ("self", "cls")]
        by_position = [each.name for each in parameters if each.kind is not inspect.Parameter.KEYWORD_ONLY]

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> T:
            for name in kwargs:
                if name not in known:
                    raise unknown_keyword(f"argument of {what}", name, known, elsewhere, f"help(es.{what}) lists all.")
            if len(args) > len(by_position):
                words = ", ".join(name for name in by_position if name in known)
                raise EverystepError(
                    f"{what} takes {words} by position; give {quoted(args[len(by_position)])} by name: help(es.{what})."
                )
            return function(*args, **kwargs)

        return checked

    return decorate


def unknown_keyword(
    kind: str, name: object, known: Iterable[str], elsewhere: Mapping[str, str], where_listed: str
) -> EverystepError:
    """The error for a name that is not `known`, with what to write instead."""
    word, known = shown(name), set(known)
    remedy = _remedy(word, known, elsewhere)
    if remedy is None:
        close = difflib.get_close_matches(word, sorted({*known, *elsewhere}), n=1, cutoff=0.6)
        if not close or close[0] in known:
            return unknown(f"{kind} called", word, known, where_listed)
        belongs = elsewhere[close[0]]
        remedy = f"did you mean {close[0]}? {belongs[0].upper()}{belongs[1:]}"
    return EverystepError(f"no {kind} called '{word}'; {remedy}.")


def _remedy(name: str, known: set[str], elsewhere: Mapping[str, str]) -> str | None:
    ours = RENAMED.get(name, name)
    return f"use {ours}=" if ours in known else elsewhere.get(ours) or EXPLAINED.get(name)
