"""The inputs from which every part of an agent is resolved: the problem, the settings, and the features."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from everystep import kernels
from everystep.agents.model_syntax import AUTO, text
from everystep.lsvi.costs.spec import CostSpec
from everystep.lsvi.regression.kernel_points import Points
from everystep.mdp.cmdp import FiniteCMDP


@dataclass(frozen=True, eq=False)
class Context:
    """An agent on a problem.

    problem   in the units that the agent learns in (`FiniteCMDP.in_units`)
    agent     its name, for messages
    given     the settings that the user set
    values    all settings, with defaults for those the user did not set
    phi       the features (S, A, d), None for one-hot features
    cap       the setting `cap` in units of the range of rewards
    lowest    what no value is below in these units: 0, unless values are not clipped or harm is part of the reward
    scale     what each constraint was divided by, (m,); 1 where g is in the user's units
    """

    problem: FiniteCMDP
    episodes: int
    agent: str
    given: Mapping[str, Any]
    values: Mapping[str, Any]
    phi: np.ndarray | None
    cap: float
    lowest: float
    scale: np.ndarray

    def __getitem__(self, setting: str) -> Any:
        return self.values[setting]

    def number(self, setting: str, otherwise: float) -> float:
        """A setting that the user may leave at auto."""
        value = self.given.get(setting, AUTO)
        return otherwise if isinstance(value, str) and value == AUTO else float(value)

    def sigma(self, otherwise: float, constraint: int | None = None) -> float:
        """The setting `sigma`, which is in the units of g, in those of a constraint; of all, in the finest unit."""
        return self.number("sigma", otherwise * self.unit_of(constraint)) / self.unit_of(constraint)

    def unit_of(self, constraint: int | None = None) -> float:
        """What a constraint was divided by; of all, the least."""
        return float(self.scale.min() if constraint is None else self.scale[constraint])


def setting_as_text(value: object) -> str:
    """A setting in a label: short for an array, as the user writes it for a cost model."""
    if isinstance(value, np.ndarray):
        return fingerprint(value)
    return text(value) if isinstance(value, CostSpec | tuple) else str(value)


def fingerprint(array: np.ndarray) -> str:
    """A short name for an array: its shape and a hash of its numbers."""
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]
    return f"{'x'.join(map(str, array.shape))}:{digest}"


def custom_kernels(problem: FiniteCMDP, used: list[kernels.Kernel]) -> str:
    """A hash of the kernels that are custom functions, whose text does not distinguish them."""
    custom = [kernel for kernel in used if any(isinstance(part, kernels.Custom) for part in kernels.parts_of(kernel))]
    return "".join(f" #{fingerprint(Points.of(problem, kernel).gram)}" for kernel in custom)
