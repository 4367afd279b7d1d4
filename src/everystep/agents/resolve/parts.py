"""What the parts of an agent share on problems given as tables and on environments (`registry.Parts`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from everystep.lsvi.ahead import HarmToGo
from everystep.lsvi.choices.basic import Penalised, Reacting
from everystep.lsvi.penalties import Floor
from everystep.lsvi.radii import Radius


class SharedParts(ABC):
    """Parts that follow from the settings alone."""

    values: Mapping[str, Any]

    def __getitem__(self, setting: str) -> Any:
        return self.values[setting]

    def penalised(self, rectify: bool) -> Penalised | Reacting:
        return Reacting(Penalised(rectify)) if self["react"] else Penalised(rectify)

    def floor(self) -> Floor:
        return Floor.from_setting(self["floor"])

    def harm_in_units(self, unit: float, weights: np.ndarray, horizon: int, radius: Radius | None) -> HarmToGo:
        """The harm-to-go in this unit of costs, with the weights (m,) of constraints."""
        return HarmToGo(
            of_plan=self["mode"] == "plan",
            events=self["harm"] == "events",
            tolerance=self["tolerance"] / unit,
            weights=weights,
            cap=float(horizon * len(weights)),
            radius=radius,
            p=self["p"],
        )

    @property
    @abstractmethod
    def known_safe(self) -> np.ndarray | None: ...

    @property
    @abstractmethod
    def switch(self) -> float | None: ...

    @property
    def options(self) -> dict[str, Any]:
        return {"optimism": self["optimism"], "known_safe": self.known_safe, "switch": self.switch}
