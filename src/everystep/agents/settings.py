"""The settings of agents: how each is read from a text or a value, its default, and what it does."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from everystep.agents import model_syntax
from everystep.agents.model_syntax import AUTO
from everystep.errors import LARGEST, as_array, as_number, shown
from everystep.lsvi.costs.gp import BETA_GP, LAM_GP
from everystep.lsvi.costs.spec import BETA_COST, LAM_COST

UNCLIPPED = 1e9  # a cap that never binds, in units of the range of rewards
SWITCH = 2.0  # the factor of rare switching in the literature
PRINTED = "printed"
RADII = ("tuned", "paper", "coordinate")
PRECISIONS = ("float64", "float32")


class Reader(NamedTuple):
    """How a setting is read from a text or a value, and what it may be in Python: types, and words."""

    read: Callable[[object], Any]
    types: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    def __call__(self, value: object) -> object:
        return self.read(value)

    @property
    def type(self) -> str:
        """The annotation, as signatures show it: float | Literal["auto"]."""
        words = ", ".join(f'"{word}"' for word in self.words)
        return " | ".join([*self.types, *([f"Literal[{words}]"] if words else [])])


class Setting(NamedTuple):
    """One setting: how it is read, its default, and what it does."""

    read: Reader
    default: object
    help: str


def _number(at_least: float = -math.inf, at_most: float = math.inf, above: float = -math.inf) -> Reader:
    low = f"above {above:g}" if above > -math.inf else f"at least {at_least:g}" if at_least > -math.inf else ""
    high = f"at most {at_most:g}" if at_most < math.inf else ""
    wanted = " and ".join(part for part in (low, high) if part)

    def read(value: object) -> float:
        given = as_number(value)
        try:
            number = math.nan if given is None else float(given)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number) or number < at_least or number > at_most or number <= above:
            raise ValueError(f"give a number {wanted}".rstrip())
        return number

    return Reader(read, ("float",))


def _one_of(*options: str) -> Reader:
    def read(value: object) -> str:
        if not isinstance(value, str) or value not in options:
            raise ValueError(f"choose {', '.join(options[:-1])} or {options[-1]}")
        return value

    return Reader(read, words=options)


def _read_yes_no(value: object) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if not isinstance(value, str | int | np.integer) or shown(value).lower() not in words:
        raise ValueError("choose true or false")
    return words[shown(value).lower()]


_yes_no = Reader(_read_yes_no, ("bool",))


def _or(word: str, read: Reader) -> Reader:
    """`read`, or the word that is also allowed."""

    def either(value: object) -> object:
        if value is None or (isinstance(value, str) and value == word):
            return word
        try:
            return read(value)
        except ValueError as error:
            raise ValueError(f"{error}, or {word}") from None

    return Reader(either, read.types, (*read.words, word))


def _whole(at_least: int) -> Reader:
    number_of: Callable[[object], float] = _number(at_least=at_least).read

    def read(value: object) -> int:
        number = number_of(value)
        if number != int(number):
            raise ValueError(f"give a whole number of at least {at_least}")
        if number > LARGEST:
            raise ValueError(f"give a whole number from {at_least} to {LARGEST}")
        return int(number)

    return Reader(read, ("int",))


def _cap(value: object) -> object:
    try:
        return "none" if isinstance(value, str) and value == "none" else _or(AUTO, _number())(value)
    except ValueError as error:
        raise ValueError(f"{error} or none") from None


def _floor(value: object) -> object:
    if isinstance(value, str) and value in ("k", "sqrt"):
        return value
    try:
        return _number(at_least=0)(value)
    except ValueError:
        raise ValueError("choose k, sqrt or a number of at least 0") from None


def _switch(value: object) -> object:
    if value is None or value is False or (isinstance(value, str) and value in ("none", "false")):
        return "none"
    if value is True or (isinstance(value, str) and value == "true"):
        return SWITCH
    if share(value) is not None:
        return value
    try:
        return _number(above=1)(value)
    except ValueError:
        raise ValueError(
            f"choose none, true (a factor of {SWITCH:g}), a number above 1, or a percentage such as 5%"
        ) from None


def share(switch: object) -> float | None:
    """The share of new transitions that `switch` asks for if it is a percentage above 0, such as "5%"; else None."""
    if not isinstance(switch, str) or not switch.endswith("%"):
        return None
    try:
        percent = float(switch[:-1])
    except ValueError:
        return None
    return percent / 100 if 0 < percent < math.inf else None


def _features(value: object) -> object:
    if isinstance(value, str) or value is None:
        return _one_of(AUTO, "one-hot")(AUTO if value is None else value)
    array = as_array(value)
    if array.ndim != 3 or array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        raise ValueError("give a finite array of shape (S, A, d)")
    return array.astype(np.float64)


def _known_safe(value: object) -> object:
    if value is None or isinstance(value, str):
        return _one_of("none", "safest")("none" if value is None else value)
    array = as_array(value)
    if array.ndim not in (1, 2) or array.dtype.kind not in "biu":
        raise ValueError("choose none, safest, or from Python give an action for each state, or booleans (S, A)")
    return array


def _safe_action(value: object) -> object:
    if value is None or isinstance(value, str):
        return _one_of(AUTO, "safest")(AUTO if value is None else value)
    array = as_array(value)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError("choose auto, safest, or from Python give an action for each state")
    return array


def _threshold(value: object) -> object:
    array = as_array(value)
    if array.ndim == 0:
        return _or(AUTO, _number())(value)
    if array.ndim > 1:
        raise ValueError("give a number, or one per constraint, or auto")
    return np.array([_number()(number) for number in array])


class Auto(NamedTuple):
    """What `auto` becomes on a problem given as a table, and on an environment.

    printed   where the radius is not tuned: the factor on the paper's formulas, or their ridge; None: the same
    """

    table: float | str
    environment: float | str
    printed: float | None = None
    environment_printed: float | None = None


# Widths and ridges of tables were chosen by `benchmarks/sweep.py` over the lake and generated maps, on seeds that no
# report uses: docs/sweep.md. In units of the range of rewards (`mdp/units.py`). What depends on a problem besides (its
# noise, horizon, kernel) is decided where it is resolved: `resolve/`, `training/agent/resolve.py`.
DEFAULTS = {
    "beta": Auto(0.025, math.nan, 1.0, 1.0),  # a table: 2 sigma if that is more; an environment: sqrt(lam) cap
    "lam": Auto(0.003, 0.01, 1.0, 1.0),
    "lam_cost": Auto(LAM_COST, LAM_COST, 1.0, 1.0),
    "beta_cost": Auto(BETA_COST, BETA_COST, 1.0, 1.0),
    "mode": Auto("least", "plan"),
    "harm": Auto("mean", "events"),
    # Estimates of harm on environments are never exactly 0. Without a width an action that was tried mostly just before
    # harm, such as braking, is never tried again.
    "tolerance": Auto(0.0, 0.05),
    "beta_harm": Auto(0.0, 0.03, 1.0),
}
# Of LSVI-NEW, chosen on synthetic problems (seeds 1000 and 1001); its printed formulas exceed any feasible K.
SEED_EPISODES, SAFETY_BONUS, LAM_TRIPLES = 20, 0.3, 0.01


class SettingValues(dict[str, Any]):
    """All settings of one agent while each `auto` is being decided, on a problem or on an environment."""

    def decide(self, setting: str, value: object) -> None:
        """Set a setting that was left at `auto`."""
        if isinstance(self[setting], str) and self[setting] == AUTO:
            self[setting] = value

    def default(self, setting: str, environment: bool) -> float | str:
        """What `auto` becomes, by the table."""
        row = DEFAULTS[setting]
        tuned = self["radius_cost" if setting.endswith("_cost") else "radius"] == "tuned"
        printed = row.environment_printed if environment else row.printed
        return (row.environment if environment else row.table) if tuned or printed is None else printed


SETTINGS: dict[str, Setting] = {
    "beta": Setting(
        _or(AUTO, _number(at_least=0)),
        AUTO,
        "width of Q in units of the range of rewards, or a factor on the formula if radius is not tuned "
        f"(auto: {DEFAULTS['beta'].table} tuned, 2 sigma of the rewards if more; else 1; on environments sqrt(lam) "
        "times the cap)",
    ),
    "lam": Setting(
        _or(AUTO, _number(above=0)),
        AUTO,
        "ridge of the value model "
        f"(auto: {DEFAULTS['lam'].table} tuned, {DEFAULTS['lam'].environment} on environments, else 1)",
    ),
    "radius": Setting(
        _one_of(*RADII), "tuned", "widths of Q: tuned, paper (printed formulas) or coordinate (valid for each (x, a))"
    ),
    "p": Setting(_number(above=0, at_most=1), 0.05, "probability with which intervals may fail (paper, coordinate)"),
    "cap": Setting(
        Reader(_cap, ("float",), (AUTO, "none")),
        AUTO,
        "Q is clipped at this return of an episode, in the units of r (auto: the horizon times the largest reward; "
        "none: not clipped)",
    ),
    "features": Setting(
        Reader(_features, ("ArrayLike",), (AUTO, "one-hot")),
        AUTO,
        "auto (the problem's, else one-hot), one-hot, or from Python an array (S, A, d)",
    ),
    "value": Setting(
        Reader(model_syntax.read_value, ("str", "Kernel", "InKernel")),
        AUTO,
        "value model: auto (by features), counts, linear, kernel, or kernel(...) with a kernel",
    ),
    "share_values": Setting(
        _or(AUTO, _yes_no), AUTO, "one value estimator for all steps (auto: iff the problem is stationary)"
    ),
    "switch": Setting(
        Reader(_switch, ("float", "bool", "str")),
        "none",
        "plan only when det(Lambda) has grown by this factor at some step, or, on environments, when there are as many "
        "more transitions (5%) (none: every episode; true: 2)",
    ),
    "precision": Setting(
        _one_of(*PRECISIONS),
        PRECISIONS[0],
        "floating-point precision: float64, or float32 where all models are counts (docs/performance.md)",
    ),
    "beta_cost": Setting(
        _or(AUTO, _number(at_least=0)),
        AUTO,
        "width of the cost estimate, in units of g or of its scale "
        f"(auto: {BETA_COST} tuned, 2 sigma if more; {BETA_GP:g} for gp; else 1)",
    ),
    "lam_cost": Setting(
        _or(AUTO, _number(above=0)),
        AUTO,
        f"ridge of the cost model (auto: {LAM_COST} tuned, 0.5 coordinate, 1 paper; gp: sigma^2 >= {LAM_GP}; "
        f"lsvi-new: {LAM_TRIPLES})",
    ),
    "radius_cost": Setting(
        _or(AUTO, _one_of(*RADII)),
        AUTO,
        "widths of the cost model (auto: as radius; paper for agents that require a safe action)",
    ),
    "sigma": Setting(
        _or(AUTO, _number(at_least=0, at_most=1e6)),
        AUTO,
        "noise of observed costs, in units of g (auto: the problem's)",
    ),
    "bound": Setting(
        _number(above=0),
        1.0,
        "bound on |g| (coordinate), its norm in the kernel (gp), or the cost weights (default then: sqrt(d))",
    ),
    "cost": Setting(
        Reader(model_syntax.read, ("str", "Kernel", "CostSpec", "Sequence[str | Kernel | CostSpec]")),
        AUTO,
        "cost model: auto (by features), counts, linear, gp, gp(kernel), or a list with one per constraint",
    ),
    "share_costs": Setting(
        _or(AUTO, _yes_no), AUTO, "one cost estimator for all steps (auto: iff the problem is stationary)"
    ),
    "optimism": Setting(
        _number(-1, 1), 1.0, "which end of the cost interval is used: 1 lower (aggressive), 0 middle, -1 upper"
    ),
    "known_safe": Setting(
        Reader(_known_safe, ("ArrayLike",), ("none", "safest")),
        "none",
        "known safe actions: none, safest (the action with the lowest g), or from Python an array",
    ),
    "safe_action": Setting(
        Reader(_safe_action, ("ArrayLike",), (AUTO, "safest")),
        AUTO,
        "the known safe action of each state: auto (the problem's), safest, or from Python an array",
    ),
    "threshold": Setting(
        Reader(_threshold, ("ArrayLike",), (AUTO,)),
        AUTO,
        "g + threshold is linear in the features: auto (the problem's), a number, or one per constraint",
    ),
    "kappa": Setting(
        _or(AUTO, _number(at_least=0)),
        AUTO,
        "factor on the width of Q (auto: as printed, 2 H / (margin of the safe action) + 1; 1: no factor)",
    ),
    "react": Setting(_yes_no, False, "use the costs of earlier steps of the same episode (needs share_costs)"),
    "floor": Setting(
        Reader(_floor, ("float",), ("k", "sqrt")),
        "k",
        "minimum price of violations in episode k: k (as printed), sqrt, or a constant",
    ),
    "rectify": Setting(_yes_no, False, "price estimated violations only; otherwise estimated safety also earns credit"),
    "mode": Setting(
        _or(AUTO, _one_of("least", "plan")),
        AUTO,
        "harm-to-go of a state: least (what cannot be avoided any more) or plan (of the plan itself) "
        "(auto: least; plan on environments)",
    ),
    "harm": Setting(
        _or(AUTO, _one_of("mean", "events")),
        AUTO,
        "harm of a step: mean, max(E g, 0), or events, E max(g, 0) (auto: mean; events on environments)",
    ),
    "tolerance": Setting(
        _or(AUTO, _number(at_least=0)),
        AUTO,
        "avoidable harm of one decision that is not priced, in the units of g, on environments of the largest |g| "
        f"(auto: 0; {DEFAULTS['tolerance'].environment} on environments)",
    ),
    "beta_harm": Setting(
        _or(AUTO, _number(at_least=0)),
        AUTO,
        "width by which the harm after a step is lowered, in the same units, or a factor on the formula if radius is "
        f"not tuned (auto: 0 tuned, {DEFAULTS['beta_harm'].environment} on environments, else 1)",
    ),
    "violation_price": Setting(
        _number(at_least=0),
        1.0,
        "what is deducted from the reward for a violation of 1, in units of the range of rewards",
    ),
    "seed_episodes": Setting(
        _or(PRINTED, _whole(at_least=0)),
        SEED_EPISODES,
        "initial episodes in which only known safe actions are played; printed: the formula, above any feasible K",
    ),
    "safety_bonus": Setting(
        _or(PRINTED, _number(at_least=0)),
        SAFETY_BONUS,
        "weight of cost uncertainty in Q (e2 = e3 = e4); printed: the formulas, which keep Q at its cap",
    ),
    "members": Setting(_whole(at_least=1), 3, "networks of the model of a step, whose spread is its uncertainty"),
    "rounds": Setting(_whole(at_least=1), 8, "rounds of learning after every step"),
    "limit": Setting(
        _one_of("called", "learnt"),
        "called",
        "of a constraint that is a function of observations: called on imagined steps, or learnt like any other",
    ),
    "lipschitz": Setting(_number(above=0), 1.0, "constant of star-convexity in the printed safety_bonus"),
}
AHEAD_SETTINGS = ("mode", "harm", "tolerance", "beta_harm")
VALUE_SETTINGS = ("beta", "lam", "radius", "p", "cap", "features", "value", "share_values", "switch", "precision")
SAFE_SETTINGS = (
    *("beta_cost", "lam_cost", "radius_cost", "sigma", "bound", "share_costs"),
    *("safe_action", "threshold", "kappa"),
)
COST_SETTINGS = (
    *("cost", "beta_cost", "lam_cost", "radius_cost", "sigma", "bound", "share_costs"),
    *("optimism", "known_safe", "react"),
)
MIXTURE_SETTINGS = (
    *("beta", "lam", "radius", "p", "cap", "share_values", "switch"),
    *("beta_cost", "lam_cost", "radius_cost", "sigma", "bound", "share_costs"),
    *("safe_action", "threshold", "seed_episodes", "safety_bonus", "lipschitz"),
)
