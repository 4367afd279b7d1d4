"""A trained policy: acts on observations, certifies actions, and is kept in a folder of JSON and plain arrays.

    policy = result.policy                 action = policy(obs)                labels = policy.certify(obs)
    policy.save("out/mine")                policy = everystep.Policy.load("out/mine")

Nothing is pickled. Features that are somebody's own function are given again when loading.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from everystep import store
from everystep.acting import Acting
from everystep.errors import EverystepError
from everystep.open_setup import columns
from everystep.parts import features as feature_maps
from everystep.parts.choices import Greedy, Penalised
from everystep.parts.features import Features
from everystep.parts.observations import flatten
from everystep.parts.stored import LinearDecision

FORMAT = 1


@dataclass(frozen=True)
class Policy:
    """What an agent came to, frozen.

    acting    its last plan
    spec      how it was made, ready for JSON: settings, environment, what its certificates are worth
    """

    acting: Acting
    features: Features
    cost_features: Features
    spec: dict[str, Any]

    def __call__(self, observation: Any, step: int = 1) -> int:
        """The action for one observation. `step` counts from 1; later ones look fewer steps ahead."""
        rng = np.random.default_rng(0)
        return int(self.acting.choose(self._h(step), self._row(observation), rng)[0]) + self.spec["first_action"]

    def certify(self, observation: Any, step: int = 1) -> np.ndarray:
        """For each action 1 (safe), -1 (unsafe) or 0 (not known), by the cost intervals. See `confidence`."""
        return self.acting.labels(self._h(step), self._row(observation))[0]

    def bounds(self, observation: Any, step: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """The lower and upper end of every cost interval, (m, A)."""
        _, mean, width = self.acting.judge(self._h(step), self._row(observation))
        return (mean - width)[..., 0], (mean + width)[..., 0]

    @property
    def confidence(self) -> str:
        """What the labels are worth, in a sentence."""
        return str(self.spec["confidence"])

    def _row(self, observation: Any) -> np.ndarray:
        return flatten(observation)[None]

    def _h(self, step: int) -> int:
        H = self.acting.price.shape[1]
        if not 1 <= step <= H:
            raise EverystepError(f"step is {step}; give a whole number from 1 to {H}.")
        return step - 1

    # --- folders -----------------------------------------------------------------------------------------------------
    def save(self, folder: str | Path) -> Path:
        """Write policy.json and policy.npz into a folder, whole or not at all; a policy that is there is replaced."""
        target = Path(folder)
        parts = {"features": self.features, "cost_features": self.cost_features}
        arrays = {f"{name}_{key}": array for name, phi in parts.items() for key, array in phi.arrays().items()}
        acting = self.acting
        decisions = {"values": acting.values} | ({} if acting.costs is None else {"costs": acting.costs})
        for name, decision in decisions.items():
            arrays |= {f"{name}_{key}": np.asarray(value) for key, value in decision._asdict().items()}
        content = {
            "format": FORMAT,
            **{name: phi.to_json() for name, phi in parts.items()},
            "choice": "greedy" if isinstance(acting.choice, Greedy) else "penalised",
            "rectify": bool(getattr(acting.choice, "rectify", True)),
            "optimism": acting.optimism,
            "cap": acting.cap,
            "spec": self.spec,
        }
        with store.replacing(target) as partial_folder:
            np.savez_compressed(partial_folder / "policy.npz", price=acting.price, **arrays)
            (partial_folder / "policy.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        return target

    @classmethod
    def load(cls, folder: str | Path, features: Any = None, cost_features: Any = None) -> Policy:
        """A saved policy. `features` (bound ones) stand for those that are a function of one's own."""
        where = Path(folder)
        try:
            content = json.loads((where / "policy.json").read_text(encoding="utf-8"))
            if not zipfile.is_zipfile(where / "policy.npz"):
                raise ValueError
            with np.load(where / "policy.npz", allow_pickle=False) as file:
                arrays = {key: file[key] for key in file.files}
        except (OSError, ValueError, KeyError, zipfile.BadZipFile):
            raise EverystepError(f"policy '{where}' cannot be read; give a folder that Policy.save wrote.") from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise EverystepError(f"policy '{where}' has format {content.get('format')}, this everystep reads {FORMAT}.")
        of = lambda name: {key.removeprefix(name + "_"): array for key, array in arrays.items() if key.startswith(name)}
        made = lambda name, given: given if given is not None else feature_maps.rebuild(content[name], of(name))
        phi = made("features", features)
        phi_cost = made("cost_features", cost_features if cost_features is not None else features)
        decision = lambda name: LinearDecision(**{key: arrays[f"{name}_{key}"] for key in LinearDecision._fields})
        acting = Acting(
            decision("values"),
            decision("costs") if "costs_weights" in arrays else None,
            partial(columns, phi),
            partial(columns, phi_cost),
            arrays["price"],
            Greedy() if content["choice"] == "greedy" else Penalised(content["rectify"]),
            content["optimism"],
            content["cap"],
        )
        return cls(acting, phi, phi_cost, content["spec"])
