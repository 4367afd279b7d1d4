"""features="auto": features of an environment, chosen by what was seen there and chosen again at stated moments.

    after the first episode            bounds by what was seen, and Fourier features with length scales of 1
    after 100, 500, 2000, 8000 steps   bounds again; kinds and length scales by evidence (`features/automatic.py`)

The first episode is played at random if there is no logged data. At every choice all transitions are learnt again with
the new features, so they are kept until the last choice and dropped then. Chosen are features of

    values   by the changes of the observation, the rewards, and max(g, 0) if harm is learnt, all of one step
    costs    by the constraints, or by max(g, 0) if harm is learnt (harm = events); with them lam_cost, the ridge, if
             it is left at auto

Values are always given Fourier features: the best of several actions has kinks, which a few products do not represent,
though what is observed may be linear. With harm the simplest features are not preferred, either: what one step shows
is smoother than the harm many steps ahead, which is learnt with the same features.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from everystep.agents.model_syntax import InKernel
from everystep.agents.registry import Recipe
from everystep.environments.play.batch import Batch
from everystep.features import automatic, spaces
from everystep.features.automatic import AUTO, Choice, Seen
from everystep.features.maps import Features
from everystep.features.spaces import Coordinates, Space
from everystep.features.specs import bind, one_hot
from everystep.lsvi.costs.gp import GP

MOMENTS = (1, 100, 500, 2000, 8000)  # transitions after which features are chosen
EVIDENCE = 100  # transitions below which length scales are left at 1


class Chosen(NamedTuple):
    """Features of both models, and the ridge of the costs; None where the default stays."""

    features: Features | None
    cost_features: Features | None
    cost_ridge: float | None = None


class AutomaticFeatures:
    """Keeps transitions, and chooses features by them.

    actions  their number, or their coordinates (A, k): then features are of observation and action together
    given    features that the user gave, bound, by name: "features", "cost_features"; the others are chosen
    events   whether the cost model learns max(g, 0)
    """

    def __init__(
        self, space: Space, actions: int | np.ndarray, seed: int, given: dict[str, Features], events: bool
    ) -> None:
        automatic.check_space(space)
        self.space, self.actions, self.seed, self.given, self.events = space, actions, seed, given, events
        self.kept: list[Batch] = []
        self.count = 0  # transitions seen
        self.chosen_after = 0  # transitions; 0: not yet
        self.choices: dict[str, Choice] = {}

    @classmethod
    def asked(
        cls, recipe: Recipe, space: Space, actions: int | np.ndarray, features: object, cost_features: object, seed: int
    ) -> AutomaticFeatures | None:
        """Features to be chosen for an agent; None where the user gave them, or kernels need none."""
        in_kernels = all(isinstance(recipe.settings.get(key), InKernel | GP) for key in ("value", "cost"))
        asked = _is_auto(features) or _is_auto(cost_features) or (features is None and not in_kernels)
        if not asked:
            return None
        given = {}
        if features is not None and not _is_auto(features):
            given["features"] = bind(features, space, actions)
            if cost_features is None:
                given["cost_features"] = given["features"]
        if cost_features is not None and not _is_auto(cost_features):
            given["cost_features"] = bind(cost_features, space, actions)
        events = "harm" in recipe.definition.settings and recipe.settings.get("harm", AUTO) in (AUTO, "events")
        return cls(space, actions, seed, given, events)

    @property
    def chooses(self) -> tuple[str, ...]:
        """What is chosen."""
        return tuple(name for name in ("features", "cost_features") if name not in self.given)

    @property
    def looking(self) -> bool:
        """Whether nothing has been chosen yet."""
        return not self.chosen_after

    @property
    def chosen(self) -> Chosen:
        """The features in use. Those before the first episode is over are placeholders: nothing is learnt with them."""
        before = self._standard(automatic.look(self.space, np.zeros((0, 1))))
        choices = {name: self.choices.get(name, before) for name in self.chooses}
        made = {name: bind(each.spec, self.space, self.actions) for name, each in choices.items()}
        ridge = choices["cost_features"].ridge if "cost_features" in choices else math.nan
        return Chosen(**(self.given | made), cost_ridge=None if math.isnan(ridge) else ridge)

    @property
    def remarks(self) -> tuple[str, ...]:
        """The last choice, in a sentence."""
        if not self.choices:
            return ()
        words = {"features": "values", "cost_features": "costs"}
        made = ", ".join(f"{words[name]} {automatic.described(each.spec)}" for name, each in self.choices.items())
        return (f"features were chosen after {self.chosen_after} transitions: {made}",)

    def due(self, batch: Batch) -> bool:
        """Keep the batch, and tell whether it is time to choose; false for ever after the last moment."""
        if self.chosen_after >= MOMENTS[-1]:
            return False
        for observations in (batch.observations, batch.next_observations):
            spaces.rows(observations, len(Coordinates.of(self.space).low))  # as the space declares them
        self.kept.append(batch)
        self.count += len(batch)
        return any(self.chosen_after < moment <= self.count for moment in MOMENTS)

    def choose(self) -> tuple[Chosen, list[Batch]]:
        """The choice, and all transitions, to be learnt with it."""
        kept, self.chosen_after = self.kept, self.count
        if self.count >= MOMENTS[-1]:
            self.kept = []
        names = ("observations", "next_observations", "actions", "costs", "rewards")
        x, after, actions, costs, rewards = (np.concatenate([getattr(each, name) for each in kept]) for name in names)
        costs = np.maximum(costs, 0) if self.events else costs
        of_values = np.concatenate([after - x, rewards[:, None], *([costs] if self.events else [])], 1)
        bounds = automatic.look(self.space, np.concatenate([x, after]))
        targets = {"features": of_values, "cost_features": costs}
        for name in self.chooses:
            if self.count < EVIDENCE:
                self.choices[name] = self._standard(bounds)
            else:
                self.choices[name] = automatic.choose(
                    self.space,
                    self.actions,
                    Seen(x, actions, targets[name]),
                    bounds,
                    self.seed,
                    polynomials=name == "cost_features",
                    tolerated=0.0 if self.events else automatic.TOLERATED,
                )
        return self.chosen, kept

    def _standard(self, bounds: tuple[np.ndarray, np.ndarray]) -> Choice:
        """Before length scales are chosen."""
        return Choice(automatic.standard(*bounds, self.seed, of_action=automatic.coordinates_of(self.actions)))

    # --- saved and restored ------------------------------------------------------------------------------------------
    def state(self) -> dict[str, Any]:
        """What changes, as plain values."""
        choices = {name: {**automatic.to_plain(each.spec), "ridge": each.ridge} for name, each in self.choices.items()}
        return {"kept": self.kept, "count": self.count, "chosen_after": self.chosen_after, "choices": choices}

    def restore(self, state: dict[str, Any]) -> Chosen:
        """Take over a saved state; the features that are in use in it."""
        self.kept, self.count, self.chosen_after = state["kept"], state["count"], state["chosen_after"]
        for name, each in state["choices"].items():
            self.choices[name] = Choice(automatic.from_plain(each, self.seed), each["ridge"])
        return self.chosen


def features_of(
    recipe: Recipe, space: Space, actions: int | np.ndarray, features: object, cost_features: object, seed: int
) -> tuple[AutomaticFeatures | None, Chosen]:
    """The features that were given, one-hot by default where observations are integers; or what chooses them."""
    if features is None and Coordinates.of(space).sizes is not None:
        features = one_hot()
    automatic = AutomaticFeatures.asked(recipe, space, actions, features, cost_features, seed)
    if automatic is not None:
        return automatic, automatic.chosen
    phi = None if features is None else bind(features, space, actions)
    return None, Chosen(phi, phi if cost_features is None else bind(cost_features, space, actions))


def _is_auto(given: object) -> bool:
    return isinstance(given, str) and given == AUTO
