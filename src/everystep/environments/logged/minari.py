"""Batches from Minari data sets. Needs the extra `minari`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from everystep.environments.logged.play import to_array
from everystep.environments.play.action_sets import ActionSet, Candidates, for_a_batch
from everystep.environments.play.batch import Batch, BatchBuilder
from everystep.environments.play.constraints import Constraint, observed
from everystep.errors import EverystepError


def from_minari(
    data: Any, constraint: Constraint | None = None, actions: ActionSet | Candidates | None = None
) -> Batch:
    """A batch from a Minari data set, or from the id of a local one. Needs the extra `minari`.

    The constraints are what `constraint(obs, action, obs_next, info)` returns, or without it the recorded
    infos["constraint"] or infos["cost"] (record_infos=True of Minari's DataCollector keeps them). Where the action
    space is no list of numbers, the nearest of `actions` (es.actions.grid(5), ...) counts as the action.

    >>> batch = es.logged.from_minari("cartpole/cautious-v0", constraint=tilt)  # doctest: +SKIP
    """
    try:
        import minari
    except ImportError:
        raise EverystepError(
            "Minari data sets need minari, which is not installed; install it with pip install 'everystep[minari]'."
        ) from None
    if isinstance(data, str):
        # Minari would create this folder, only to find no data set in it.
        place = os.environ.get("MINARI_DATASETS_PATH", os.path.expanduser("~/.minari/datasets"))
        try:
            if not os.path.isdir(place):
                raise FileNotFoundError(place)
            data = minari.load_dataset(data)
        except FileNotFoundError:
            raise EverystepError(
                f"no Minari data set '{data}' here; `minari download {data}` fetches a published one, "
                "and `minari list local` lists the local ones."
            ) from None
        except (ValueError, OSError) as error:
            reason = " ".join(str(error).split())
            raise EverystepError(
                f"the Minari data set '{data}' cannot be read ({reason}); download it again."
            ) from None
    if not isinstance(data, minari.MinariDataset):
        raise EverystepError(f"data is {type(data).__name__}; give a Minari data set or its id.")
    known = for_a_batch(data.action_space, actions)
    builder = BatchBuilder()
    for k, episode in enumerate(data.iterate_episodes()):
        if not isinstance(episode.observations, np.ndarray):
            raise EverystepError(
                f"observations of {data.spec.dataset_id} are {type(episode.observations).__name__}; "
                "give a data set whose observations are single arrays or numbers."
            )
        n = len(episode.rewards)
        for h in range(n):
            obs, action, after = episode.observations[h], episode.actions[h], episode.observations[h + 1]
            try:
                info = _info_at(episode.infos or {}, h, n)
                builder.add(
                    observation=to_array(obs),
                    action=action if known.values is None else known.number_of(action),
                    reward=float(episode.rewards[h]),
                    cost=observed(constraint, obs, int(action) if known.values is None else action, after, info),
                    next_observation=to_array(after),
                    terminated=bool(episode.terminations[h]),
                    step=h,
                    episode=k,
                )
            except EverystepError as error:
                raise EverystepError(f"episode {k + 1}, step {h + 1}: {error}") from error
    return builder.batch(len(known))


def _info_at(infos: Mapping[str, Any], h: int, n: int) -> dict[str, Any]:
    """The info of step h. Where the info of reset is recorded too it comes first, so that there are n + 1 of each."""
    entry = lambda value: _info_at(value, h, n) if isinstance(value, Mapping) else value[h + len(value) - n]
    return {name: entry(value) for name, value in infos.items()}
