"""A plan from the JSON and the arrays that the folders of policies and of trainings hold of it.

plan.to_json(), plan.arrays()        what a file holds (`acting.py`), without the JSON of the encoders
read(content, arrays, value, cost)   the plan again, with its encoders
check(plan, arrays)                  raises if its shapes differ, or a number is not finite
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from everystep.agents.settings import UNCLIPPED
from everystep.errors import LARGEST_MEASUREMENT, UNLIKE, EverystepError, real_number, true_or_false
from everystep.lsvi.ahead import HarmToGo
from everystep.lsvi.choices.basic import Greedy, Penalised
from everystep.training.agent.acting import SIDE, ActingPlan, AheadJson, PlanJson
from everystep.training.agent.encoders import ModelEncoder

if TYPE_CHECKING:
    from everystep.training.agent.contract import TrainingPlan

Arrays = Mapping[str, np.ndarray]
NAMES = ("price", "value_", "cost_", "harm_", "learnt_")  # how the names of the arrays begin


def read(content: PlanJson, arrays: Arrays, value: ModelEncoder, cost: ModelEncoder) -> ActingPlan:
    """The plan of a file, with its encoders. Raises KeyError, TypeError or ValueError if it is not one."""
    if content["choice"] not in ("greedy", "penalised"):
        raise ValueError(content["choice"])
    of = {"value": value, "cost": cost, "harm": value}
    found = {name: named(arrays, f"{name}_plan_") for name in of}
    predictors = {name: of[name].predictor(each) for name, each in found.items() if each}
    ahead, scale = content["ahead"], content["cost_scale"]
    rectify = true_or_false("rectify", content["rectify"])
    return ActingPlan(
        values=predictors["value"],
        costs=predictors.get("cost"),
        value_encoder=value,
        cost_encoder=cost,
        price=arrays["price"],
        choice=Greedy() if content["choice"] == "greedy" else Penalised(rectify),
        optimism=real_number("optimism", content["optimism"], -1, 1),
        cap=real_number("cap", content["cap"]),
        lowest=real_number("lowest", content["lowest"], -UNCLIPPED, 0),
        ahead=None if ahead is None else _ahead_from_json(ahead),
        harm_ahead=None if ahead is None else predictors["harm"],
        cost_scale=None if scale is None else np.array([real_number("cost_scale", each, 0) for each in scale]),
    )


def named(arrays: Arrays, prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin with `prefix`, without it."""
    return {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}


def _ahead_from_json(content: AheadJson) -> HarmToGo:
    return HarmToGo(
        of_plan=False,
        events=true_or_false("events", content["events"]),
        tolerance=real_number("tolerance", content["tolerance"], 0),
        weights=np.array([real_number("weights", each, 0) for each in content["weights"]]),
        cap=real_number("cap", content["cap"], 0),
        optimism=real_number("optimism", content["optimism"], -1, 1),
    )


# --- checks -----------------------------------------------------------------------------------------------------------
def check(plan: TrainingPlan, arrays: Arrays) -> None:
    """Raise what would make a plan act or certify on numbers that were never learnt: shapes, and entries not finite."""
    for name, array in arrays.items():
        largest = np.finfo(np.float64).max if SIDE in name else LARGEST_MEASUREMENT
        if array.dtype.kind not in "biuf" or not _within(array, largest):
            raise EverystepError(
                f"{name} holds entries that are not finite numbers, or too large; save the policy again."
            )
    if isinstance(plan, ActingPlan):
        _check_shapes(plan)
    x = plan.value_encoder.example()
    if x is not None and not _acts(plan, x):
        raise EverystepError("its features do not fit its arrays; save the policy again.")


def _check_shapes(plan: ActingPlan) -> None:
    m, H = plan.price.shape if plan.price.ndim == 2 else (0, 0)
    if plan.ahead is not None:
        m = len(plan.ahead.weights) if m == 1 else 0
    A = plan.actions
    if not m or not H or plan.cost_encoder.actions != A:
        raise EverystepError(f"price has shape {plan.price.shape} for {A} actions; save the policy again.")
    for name, predictor, encoder in (
        ("values", plan.values, plan.value_encoder),
        ("costs", plan.costs, plan.cost_encoder),
        ("harm", plan.harm_ahead, plan.value_encoder),
    ):
        expected = (m,) if name == "costs" else ()
        if predictor is not None and not predictor.fits(encoder.shape, H, expected):
            raise EverystepError(
                f"the arrays of {name} do not have the shapes of {A} actions and {H} steps; give the features that the "
                "policy was trained with, or save it again."
            )
    if plan.cost_scale is not None and len(plan.cost_scale) != m:
        raise EverystepError(
            f"cost_scale has {len(plan.cost_scale)} numbers for {m} constraints; save the policy again."
        )


def _within(array: np.ndarray, largest: float) -> bool:
    """Whether all entries are numbers of at most this size; it makes no array of that size."""
    return not array.size or (float(array.min()) >= -largest and float(array.max()) <= largest)


def _acts(plan: TrainingPlan, x: np.ndarray) -> bool:
    """Whether the plan gives finite estimates at one observation."""
    try:
        with np.errstate(all="ignore"):
            Q, mean, width, after, _ = plan.estimates(0, x)
        found = (Q, mean, *((width,) if plan.has_costs else ()), *(() if after is None else (after,)))
        return all(np.isfinite(each).all() for each in found)
    except UNLIKE:
        return False
