"""The settings of an agent that learns the world by networks, decided for an environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from everystep.agents.model_syntax import AUTO
from everystep.agents.registry import Recipe
from everystep.errors import EverystepError
from everystep.features.spaces import Coordinates, Space
from everystep.training.agent.countdown import Countdown
from everystep.training.agent.encoders import RawEncoder
from everystep.training.agent.resolve import EnvironmentInfo
from everystep.training.learnt.agent import LearntAgent
from everystep.training.learnt.limit import Limit

MOST_COORDINATES = 512
HORIZONS = (5, 20, 60)  # that decisions weigh equally, each at most the length of an episode


def check_inputs(agent: str, space: Space, features: object, cost_features: object) -> None:
    """Refuse what networks do not take: features, images, and observations that are states of a list."""
    for name, given in (("features", features), ("cost_features", cost_features)):
        if given is not None and not (isinstance(given, str) and given == AUTO):
            raise EverystepError(f"{name} is given, but {agent} learns by networks, which need none; leave it out.")
    coordinates = Coordinates.of(space)
    o, axes = len(coordinates.low), getattr(space, "shape", None) or ()
    if o > MOST_COORDINATES or (len(axes) > 1 and np.dtype(space.dtype) == np.uint8):
        raise EverystepError(
            f"observations have {o:,} numbers, and {agent} learns from at most {MOST_COORDINATES}, and not "
            "from images; make fewer numbers of them in a wrapper, or train lsvi-ahead with features= of your own."
        )
    if coordinates.single:
        raise EverystepError(
            f"the observation space is {space}, and {agent} learns from measurements; use lsvi-ahead, which counts "
            "states of a list."
        )


@dataclass(frozen=True)
class LearntSettings:
    """See the module."""

    recipe: Recipe
    environment: EnvironmentInfo
    values: Mapping[str, Any]
    value: RawEncoder
    limit: Limit | None = None
    steps = 1
    has_costs = True
    learns_at_every_step = True
    confidence = None
    guarantee = "heuristic: the spread of networks carries no probability"

    @classmethod
    def resolve(cls, recipe: Recipe, environment: EnvironmentInfo) -> LearntSettings:
        encoder = RawEncoder(environment.coordinates, environment.actions)
        return cls(recipe, environment, recipe.all_settings(), encoder, environment.limit)

    @property
    def cost(self) -> RawEncoder:
        return self.value

    @property
    def countdown(self) -> Countdown:
        return Countdown(self.environment.length, self.environment.horizon)

    @property
    def horizons(self) -> tuple[int, ...]:
        """The horizons of the critics."""
        return tuple(sorted({min(each, self.environment.length) for each in HORIZONS}))

    def __getitem__(self, setting: str) -> Any:
        return self.values[setting]

    def to_json(self) -> dict[str, Any]:
        """The settings, ready for JSON."""
        return {key: self.values[key] for key in self.recipe.definition.settings}

    def agent(self, constraints: int, seed: int) -> LearntAgent:
        """A new agent, once the number of constraints is known."""
        return LearntAgent(self, constraints, seed)
