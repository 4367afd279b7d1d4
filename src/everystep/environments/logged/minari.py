"""Batches from Minari data sets. Needs the extra `minari`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from everystep.environments.constraints import Constraint, observed
from everystep.environments.logged.batch import Batch
from everystep.environments.logged.play import Rows, number_of_actions
from everystep.errors import EverystepError


def from_minari(data: Any, constraint: Constraint | None = None) -> Batch:
    """A batch from a Minari data set, or from the id of one on this machine. Needs the extra `minari`.

    The constraints are what `constraint(obs, action, obs_next, info)` returns, or without it the recorded
    infos["constraint"] or infos["cost"] (record_infos=True of Minari's DataCollector keeps them).
    """
    try:
        import minari
    except ImportError:
        raise EverystepError(
            "Minari data sets need minari, which is not installed; install it with pip install 'everystep[minari]'."
        ) from None
    if isinstance(data, str):
        try:
            data = minari.load_dataset(data)
        except FileNotFoundError:
            raise EverystepError(
                f"no Minari data set '{data}' here; `minari download {data}` fetches one that is published, "
                "and `minari list local` shows what is here."
            ) from None
        except (ValueError, OSError) as error:
            reason = " ".join(str(error).split())
            raise EverystepError(
                f"the Minari data set '{data}' cannot be read ({reason}); download it again."
            ) from None
    if not isinstance(data, minari.MinariDataset):
        raise EverystepError(f"data is {type(data).__name__}; give a Minari data set or its id.")
    count = number_of_actions(data.action_space)
    rows = Rows()
    for k, episode in enumerate(data.iterate_episodes()):
        if not isinstance(episode.observations, np.ndarray):
            raise EverystepError(
                f"observations of {data.spec.dataset_id} are {type(episode.observations).__name__}; "
                "give a data set whose observations are single arrays or numbers."
            )
        n = len(episode.rewards)
        for h in range(n):
            obs, action, after = episode.observations[h], episode.actions[h], episode.observations[h + 1]
            info = _info_at(episode.infos or {}, h, n)
            g = observed(constraint, obs, int(action), after, info)
            rows.add(obs, action, episode.rewards[h], g, after, episode.terminations[h], h, k)
    return rows.batch(count)


def _info_at(infos: Mapping[str, Any], h: int, n: int) -> dict[str, Any]:
    """What step h reported. Where reset's info was recorded too it comes first, so that there are n + 1 of each."""
    one = lambda value: _info_at(value, h, n) if isinstance(value, Mapping) else value[h + len(value) - n]
    return {name: one(value) for name, value in infos.items()}
