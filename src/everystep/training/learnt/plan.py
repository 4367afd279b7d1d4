"""A plan that acts by networks, in NumPy: half critics, half imagined steps that begin with each action.

    Q, G (x, a)     mean of both halves, in sums over steps (`critics.py`)
    mean (x, a)     the expected harm of this step, the mean of the members; its width is their spread
    after (x, a)    G less the harm of this step; its width is the spread of the critics and of the members

It never changes. The same networks are used at every step of an episode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from everystep.errors import EverystepError, real_number, true_or_false, whole_number
from everystep.lsvi.ahead import HarmToGo
from everystep.lsvi.choices.basic import Penalised
from everystep.training.agent.acting import Estimates, EstimatingPlan
from everystep.training.agent.encoders import Encoder
from everystep.training.learnt import critics, networks, world
from everystep.training.learnt.critics import Rule
from everystep.training.learnt.networks import Layers
from everystep.training.learnt.scales import Scales, Units
from everystep.training.learnt.world import Sizes

AT_ONCE = 256  # observations
APART = "its networks do not fit together; save the policy again."
HALF = np.float32(0.5)


def harm_to_go(constraints: int, horizons: tuple[int, ...], tolerance: float, optimism: float) -> HarmToGo:
    """How harm is counted: what is observed, of the plan itself, over the mean horizon."""
    cap = constraints * float(np.mean(horizons))
    return HarmToGo(True, True, tolerance, np.ones(constraints), cap, optimism=optimism)


@dataclass(frozen=True)
class LearntPlan(EstimatingPlan):
    """See the module.

    sizes, horizons        of the networks, and of the critics' heads
    scales                 the units of what they see
    model, averaged        their parameters
    residuals (L, E, C, o) which imagined steps add, in predicted deviations; the same for all actions and observations
    price (1, H)           one price, at every step
    cost_scale (m,)        the largest |g|, by which harm is divided; 0 while all were 0
    trained                whether it has learnt anything; otherwise it prefers no action, and knows nothing
    """

    value_encoder: Encoder
    sizes: Sizes
    horizons: tuple[int, ...]
    scales: Scales
    model: Layers
    averaged: Layers
    residuals: np.ndarray
    price: np.ndarray
    cost_scale: np.ndarray
    optimism: float
    ahead: HarmToGo
    trained: bool
    has_costs = True
    choice = Penalised(rectify=True)

    @property
    def horizon(self) -> int:
        return int(self.price.shape[1])

    @property
    def actions(self) -> int:
        return self.sizes.actions

    @property
    def cost_encoder(self) -> Encoder:
        return self.value_encoder

    @cached_property
    def units(self) -> Units:
        return self.scales.units

    @cached_property
    def values(self) -> Layers:
        """The critics, in values themselves."""
        return critics.scaled(self.averaged, self.sizes, self.units)

    @cached_property
    def rule(self) -> Rule:
        return Rule.of(self.horizons, float(self.price[0, 0]), float(self.ahead.tolerance))

    def estimates(self, h: int, observations: np.ndarray) -> Estimates:
        x = np.asarray(self.value_encoder.encode(observations))
        if not self.trained:
            nothing, m = np.zeros((self.actions, len(x))), self.sizes.constraints
            unknown = np.zeros((m, *nothing.shape))
            return Estimates(nothing, unknown, unknown + 1, nothing, nothing + float(self.ahead.cap))
        if len(x) <= AT_ONCE:
            return self._estimates(self.scales.inputs(x))
        parts = [self._estimates(self.scales.inputs(x[i : i + AT_ONCE])) for i in range(0, len(x), AT_ONCE)]
        return Estimates(*(np.concatenate(each, -1) for each in zip(*parts, strict=True)))

    def _estimates(self, z: np.ndarray) -> Estimates:
        sizes, units, rule = self.sizes, self.units, self.rule
        found = world.predict(self.model, z[None], sizes.actions)
        cost = world.costs(units, found.g)  # (E, n, A, m)
        values = self.values
        heads = critics.bounded(units, critics.heads(values, sizes, z))
        residuals = self.residuals[:, :, None]
        steps = critics.imagined(found, self.model, values, sizes, units, rule, z[None], residuals).mean(2)
        Q, G = critics.sums(rule, HALF * heads.mean(0) + HALF * steps.mean(0))
        mean, width = cost.mean(0), cost.std(0)
        spread = np.stack([critics.sums(rule, each)[1] for each in heads]).std(0)
        members = np.stack([critics.sums(rule, each)[1] for each in steps]).std(0)
        after = G - mean.sum(-1).T
        arrays = (Q, mean.transpose(2, 1, 0), width.transpose(2, 1, 0), after, spread + members)
        Q, mean, width, after, after_width = (each.astype(np.float64) for each in arrays)
        return Estimates(Q, mean, width, after, after_width)

    def cost_intervals(self, h: int, observations: np.ndarray, widths: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Centre and half width of the expected harm of a step (m, A, n), in the units of the constraints."""
        x = np.asarray(self.value_encoder.encode(observations))
        shape = (self.sizes.constraints, self.actions, len(x))
        if not self.trained:
            return np.zeros(shape), self.in_units(np.ones(shape))
        mean, width = np.empty(shape), np.empty(shape)
        for i in range(0, len(x), AT_ONCE):
            z = self.scales.inputs(x[i : i + AT_ONCE])
            cost = world.costs(self.units, world.predict(self.model, z[None], self.actions).g)
            mean[..., i : i + AT_ONCE] = cost.mean(0).transpose(2, 1, 0)
            width[..., i : i + AT_ONCE] = cost.std(0).transpose(2, 1, 0)
        return self.in_units(mean), self.in_units(width)

    def with_cost(self, h: int, observation: np.ndarray, a: int, cost: np.ndarray) -> LearntPlan:
        """The plan itself: the agent learns at every step."""
        return self

    # --- files -------------------------------------------------------------------------------------------------------
    def to_json(self) -> Mapping[str, Any]:
        """Everything but the arrays and the encoders, ready for JSON."""
        return {
            "networks": {
                "sizes": list(self.sizes),
                "horizons": list(self.horizons),
                "tolerance": float(self.ahead.tolerance),
                "trained": self.trained,
            },
            "optimism": self.optimism,
        }

    def arrays(self) -> dict[str, np.ndarray]:
        found = {"price": self.price, "learnt_cost_scale": self.cost_scale, "learnt_residuals": self.residuals}
        found |= {f"learnt_scale_{each.name}": getattr(self.scales, each.name) for each in fields(Scales)}
        for name, layers in (("model", self.model), ("critics", self.averaged)):
            for i, (weights, biases) in enumerate(layers):
                found |= {f"learnt_{name}_weights_{i}": weights, f"learnt_{name}_biases_{i}": biases}
        return found

    @classmethod
    def read(cls, content: Mapping[str, Any], arrays: Mapping[str, np.ndarray], encoder: Encoder) -> LearntPlan:
        """The plan of a file. Raises if it is not one, or if a shape or a number could not have been learnt."""
        about = content["networks"]
        sizes = Sizes(*(whole_number("sizes", each) for each in about["sizes"]))
        horizons = tuple(whole_number("horizons", each) for each in about["horizons"])
        outer = {  # of the arrays that say how large all others are: nothing larger is made below
            "learnt_model_weights_0": (sizes.members, sizes.coordinates + sizes.actions, networks.WIDTH),
            "learnt_critics_biases_2": (sizes.critics, 2 * sizes.heads * (1 + sizes.actions)),
            "learnt_cost_scale": (sizes.constraints,),
        }
        if any(arrays[name].shape != shape for name, shape in outer.items()):
            raise EverystepError(APART)
        optimism = real_number("optimism", content["optimism"], -1, 1)
        tolerance = real_number("tolerance", about["tolerance"], 0)
        blank = Scales.blank(sizes.coordinates, sizes.constraints, sizes.heads)
        like = {f"learnt_scale_{each.name}": getattr(blank, each.name) for each in fields(Scales)}
        rng = np.random.default_rng(0)
        layers: dict[str, Layers] = {}
        for name, made in (("model", world.new(rng, sizes)), ("critics", critics.new(rng, sizes))):
            for i, pair in enumerate(made):
                like |= {f"learnt_{name}_weights_{i}": pair[0], f"learnt_{name}_biases_{i}": pair[1]}
            layers[name] = made
        like |= {"learnt_cost_scale": np.zeros(sizes.constraints)}
        for name, one in like.items():
            array = arrays[name]
            if array.shape != one.shape or array.dtype != one.dtype or not np.isfinite(array).all():
                raise EverystepError(
                    f"{name} does not hold {one.shape} finite numbers of type {one.dtype}; save the policy again."
                )
        price, residuals = arrays["price"], arrays["learnt_residuals"]
        fits = price.ndim == 2 and len(price) == 1 and price.shape[1] > 0 and residuals.ndim == 4
        fits = fits and residuals.shape[:2] == (critics.DEPTH, sizes.members) and residuals.size > 0
        fits = fits and residuals.shape[3] == sizes.coordinates
        fits = fits and len(horizons) == sizes.heads and encoder.actions == sizes.actions
        if not fits or not (np.isfinite(price).all() and np.isfinite(residuals).all()):
            raise EverystepError(APART)
        depth = range(len(layers["model"]))
        kinds = ("weights", "biases")
        model, averaged = (
            tuple((arrays[f"learnt_{name}_{kinds[0]}_{i}"], arrays[f"learnt_{name}_{kinds[1]}_{i}"]) for i in depth)
            for name in ("model", "critics")
        )
        return cls(
            value_encoder=encoder,
            sizes=sizes,
            horizons=horizons,
            scales=Scales(**{each.name: arrays[f"learnt_scale_{each.name}"] for each in fields(Scales)}),
            model=model,
            averaged=averaged,
            residuals=residuals,
            price=price,
            cost_scale=arrays["learnt_cost_scale"],
            optimism=optimism,
            ahead=harm_to_go(sizes.constraints, horizons, tolerance, optimism),
            trained=true_or_false("trained", about["trained"]),
        )


def copies_of(actions: int) -> int:
    """C, the residuals of each member that decisions average over."""
    return int(np.clip(96 // actions, 2, 8))
