from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np


@dataclass(frozen=True, eq=False)
class Batch:
    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    costs: np.ndarray
    next_observations: np.ndarray
    terminated: np.ndarray
    steps: np.ndarray
    episode: np.ndarray

    def __len__(self):
        return len(self.actions)

    def __getitem__(self, which):
        return Batch(*(getattr(self, f.name)[which] for f in fields(self)))

    def episodes(self):
        cuts = np.flatnonzero(np.diff(self.episode)) + 1
        for part in np.split(np.arange(len(self)), cuts):
            if len(part):
                yield self[part]
