"""A trained policy: acts on observations, certifies actions, and is kept in a folder of JSON and plain arrays.

    policy = result.policy                 action = policy(obs)                labels = policy.certify(obs)
    policy.save("out/mine")                policy = everystep.Policy.load("out/mine")

Nothing is pickled. Features that are somebody's own function are given again when loading.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from everystep import files
from everystep.environments import encoders
from everystep.environments.acting import Acting
from everystep.environments.encoders import RegressionSide, Side
from everystep.errors import EverystepError, whole_number
from everystep.features.spaces import flatten
from everystep.lsvi.choices.basic import Greedy, Penalised

FORMAT = 1


@dataclass(frozen=True)
class Policy:
    """What an agent came to, frozen.

    acting         its last plan                      value, cost   how its models see observations
    spec           how it was made, ready for JSON: settings, environment, what its certificates are worth
    """

    acting: Acting
    value: Side
    cost: Side
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
    def can_be_saved(self) -> bool:
        """Whether it is made of arrays alone."""
        return not isinstance(self.value, RegressionSide)

    @property
    def confidence(self) -> str:
        """What the labels are worth, in a sentence."""
        return str(self.spec["confidence"])

    def _row(self, observation: Any) -> np.ndarray:
        return flatten(observation)[None]

    def _h(self, step: int) -> int:
        H, h = self.acting.price.shape[1], whole_number("step", step)
        if h > H:
            raise EverystepError(f"step is {step}; give a whole number from 1 to {H}.")
        return h - 1

    # --- folders -----------------------------------------------------------------------------------------------------
    def save(self, folder: str | Path) -> Path:
        """Write policy.json and policy.npz into a folder, whole or not at all; a policy that is there is replaced."""
        target, acting = Path(folder), self.acting
        if not self.can_be_saved:
            raise EverystepError(
                "a policy by regressors cannot be saved without pickle; train a linear or kernel model."
            )
        arrays = {"price": acting.price}
        decisions = {"value": acting.values} | ({} if acting.costs is None else {"cost": acting.costs})
        for name, side in (("value", self.value), ("cost", self.cost)):
            arrays |= {f"{name}_side_{key}": array for key, array in side.arrays().items()}
        for name, decision in decisions.items():
            arrays |= {f"{name}_plan_{key}": array for key, array in encoders.arrays_of(decision).items()}
        content = {
            "format": FORMAT,
            "value": self.value.to_json(),
            "cost": self.cost.to_json(),
            "choice": "greedy" if isinstance(acting.choice, Greedy) else "penalised",
            "rectify": bool(getattr(getattr(acting.choice, "choice", acting.choice), "rectify", True)),
            "optimism": acting.optimism,
            "cap": acting.cap,
            "spec": self.spec,
        }
        with files.replacing(target) as folder_now:
            np.savez_compressed(folder_now / "policy.npz", **arrays)  # type: ignore[arg-type]
            (folder_now / "policy.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        return target

    @classmethod
    def load(cls, folder: str | Path, features: Any = None, cost_features: Any = None) -> Policy:
        """A saved policy. A function of one's own that made features is given again: `features`, `cost_features`."""
        where = Path(folder)
        broken = EverystepError(f"policy '{where}' cannot be read; give a folder that Policy.save wrote.")
        try:
            content = json.loads((where / "policy.json").read_text(encoding="utf-8"))
            if not zipfile.is_zipfile(where / "policy.npz"):  # numpy takes any other file for a pickle
                raise broken
            with np.load(where / "policy.npz", allow_pickle=False) as file:
                arrays = {key: file[key] for key in file.files}
            if content["format"] != FORMAT:
                raise EverystepError(f"policy '{where}' has format {content['format']}; this everystep reads {FORMAT}.")
            of = lambda prefix: {
                key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)
            }
            given = {"value": features, "cost": features if cost_features is None else cost_features}
            made = {name: encoders.again(content[name], of(f"{name}_side_"), phi) for name, phi in given.items()}
            plans = {name: encoders.decision(made[name], of(f"{name}_plan_")) for name in made if of(f"{name}_plan_")}
            if arrays["price"].ndim != 2 or not {"first_action", "confidence"} <= set(content["spec"]):
                raise broken
            acting = Acting(
                plans["value"],
                plans.get("cost"),
                made["value"].at,
                made["cost"].at,
                arrays["price"],
                Greedy() if content["choice"] == "greedy" else Penalised(content["rectify"]),
                float(content["optimism"]),
                float(content["cap"]),
            )
            return cls(acting, made["value"], made["cost"], content["spec"])
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, zlib.error) as error:
            raise (error if isinstance(error, EverystepError) else broken) from None
