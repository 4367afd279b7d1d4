"""Arguments of a learner, checked: how many states it keeps, the range of rewards, logged data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from everystep.environments.play.action_sets import Candidates
from everystep.environments.play.batch import Batch
from everystep.environments.play.rollout import Stage
from everystep.environments.protocols import Space
from everystep.errors import LARGEST_MEASUREMENT, EverystepError, as_number, quoted, whole_number
from everystep.features.maps import Features
from everystep.features.spaces import Coordinates
from everystep.features.specs import Spec
from everystep.training.options import MEMORY

# Features as a user gives them: text ("auto"), a spec, an array (a table), or a function of an observation.
FeaturesLike = Spec | Features | ArrayLike | Callable[[Any], ArrayLike]

FEW_CANDIDATES, MEMORY_LEAST = 32, 512  # with more candidates, MEMORY * 32 / A states, and at least 512


def most_states(memory: int | None, actions: Candidates) -> int | None:
    """The most states of plans; the default is lower with many candidates, because plans grow with both."""
    most = 0 if memory is None else whole_number("memory", memory, 0)
    if not most:
        return None
    if most == MEMORY and actions.values is not None:
        return min(MEMORY, max(MEMORY_LEAST, MEMORY * FEW_CANDIDATES // len(actions)))
    return most


def is_listed(space: Space) -> bool:
    """Whether observations are integers from a finite list."""
    return hasattr(space, "n") and getattr(space, "shape", ()) == ()


def range_of_rewards(given: Iterable[object] | None) -> tuple[float, float] | None:
    """(low, high), checked; None stays None."""
    if given is None:
        return None
    try:
        low, high = (math.nan if (number := as_number(each)) is None else float(number) for each in given)
    except Exception:  # not two numbers, or an object that fails while it is read
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise EverystepError(f"reward_range is {quoted(given)}; give two finite numbers, the lower first.")
    return low, high


def flattened(batch: Batch, stage: Stage) -> Batch:
    """Logged data with observations in rows, as of episodes that were played."""
    if not isinstance(batch, Batch) or not len(batch):
        raise EverystepError("the batch has no transitions; give a Batch, as everystep.logged makes them.")
    if batch.actions.max() >= stage.actions:
        raise EverystepError(
            f"the batch has action {batch.actions.max()}; the environment has {stage.actions} actions, from 0."
        )
    for name in ("observations", "rewards", "costs", "next_observations"):
        if (np.abs(column := getattr(batch, name)) > LARGEST_MEASUREMENT).any():
            most = np.abs(column).max()
            raise EverystepError(
                f"the batch has {name} of size {most:g}; scale them to stay below {LARGEST_MEASUREMENT:g}."
            )
    if is_listed(stage.observation_space):
        rows = lambda x: x
        fits = batch.observations.ndim == 1 and batch.observations.dtype.kind == "i"
    else:
        rows = lambda x: x.reshape(len(x), -1).astype(np.float64)
        fits = rows(batch.observations).shape[1] == len(Coordinates.of(stage.observation_space).low)
    if not fits:
        raise EverystepError(
            f"the batch has observations of shape {batch.observations.shape[1:]} and type "
            f"{batch.observations.dtype}; the environment has {stage.observation_space}: log its observations."
        )
    before, after = rows(batch.observations), rows(batch.next_observations)
    return replace(batch, observations=before, next_observations=after)
