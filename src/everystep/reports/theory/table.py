"""`everystep theory DIR`: a run beside what the paper proves of it, as a table, theory.json and a figure.

Regret and violation are those of all seeds in the folder. What only the agent's inside shows (errors, potentials,
whether confidence sets held) comes from running some of these seeds again, watched.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from everystep import files
from everystep.agents.model_syntax import InKernel
from everystep.agents.registry import Resolved
from everystep.experiments import rerun, statistics, tables
from everystep.lsvi.costs.counts import CountCosts
from everystep.lsvi.costs.gp import EachCost, GridGP, GrowingGP
from everystep.lsvi.costs.linear import LinearCosts
from everystep.lsvi.penalties import Rectified
from everystep.lsvi.radii import CoordinateCost, PaperGP, PaperValue, Tuned
from everystep.mdp.cmdp import Factored, FiniteCMDP
from everystep.reports.theory import bounds, diagnosis
from everystep.reports.theory.diagnosis import Diagnosed

Bound = Callable[[float], float]
READINGS = (("printed", False), ("repaired", True))
COVERED = "Theorem 1 covers this run, if the constant in beta is as large as it needs."


# --- what an agent's parts mean to the theorems -----------------------------------------------------------------------
class Side(NamedTuple):
    """A model as the lemmas see it: `estimators` of them, each given `rows` observations an episode."""

    estimators: int
    rows: int
    lam: float
    d: float | None  # None for a Gaussian process
    eigenvalues: np.ndarray | None = None  # of its kernel at all points, where they are few enough to be known
    largest: float = 1.0  # k(y, y)
    constraints: int = 1  # that share it

    def potential(self, K: float, gain: float) -> float:
        """The bound on its elliptical potential, all estimators together; `gain` is what they gained together."""
        if self.d is None:
            return bounds.stretch(self.rows) * 2 * gain
        return self.estimators * bounds.potential_bound(K, self.d, self.lam, self.rows)

    def information(self, K: float) -> float | None:
        """The most that all estimators together can gain."""
        if self.d is not None:
            return self.estimators * self.d * np.log1p(self.rows * K / (self.d * self.lam)) / 2
        if self.eigenvalues is None:
            return None
        return self.estimators * bounds.gain_bound(K, self.eigenvalues, self.lam, self.rows, self.largest)

    def errors(self, K: float, radius: float, gain: float) -> float:
        """The lemma's bound on sum_k e^k of one estimator."""
        if self.d is not None:
            return self.constraints * bounds.linear_errors(K, self.d, radius, self.lam, self.rows)
        return self.constraints * bounds.gp_errors(K, radius, gain, self.lam, self.rows, self.largest)


def _arranged(shared: bool, H: int) -> tuple[int, int]:
    return (1, H) if shared else (H, 1)


def value_choice(resolved: Resolved) -> Any:
    """counts, linear or a kernel; None for values of another kind, whose features are not those of (x, a) alone."""
    return getattr(resolved.value, "choice", None)


def value_side(resolved: Resolved) -> Side:
    """Longer features are as those of length 1 with a ridge that much smaller."""
    lam = float(resolved["lam"]) / resolved.value.longest**2
    return Side(*_arranged(resolved["share_values"], resolved.problem.horizon), lam, resolved.value.d)


def cost_sides(resolved: Resolved) -> tuple[Side, ...] | None:
    """One for each cost model; None where one is of a kind that the lemmas do not know."""
    problem, model = resolved.problem, resolved.cost_model()
    models = model.models if isinstance(model, EachCost) else (model,)
    arranged = _arranged(resolved["share_costs"], problem.horizon)
    m = 1 if isinstance(model, EachCost) else problem.constraints
    sides = []
    for one in models:
        if isinstance(one, GridGP | GrowingGP):
            gram = np.asarray(one.gram) if isinstance(one, GridGP) else None
            eigenvalues = None if gram is None else np.linalg.eigvalsh(gram)
            largest = 1.0 if gram is None else float(gram.diagonal().max())
            sides.append(Side(*arranged, float(one.lam), None, eigenvalues, largest, m))
        elif isinstance(one, CountCosts | LinearCosts):
            d = problem.states * problem.actions if isinstance(one, CountCosts) else one.phi.shape[-1]
            sides.append(Side(*arranged, float(one.lam), float(d), constraints=m))
        else:
            return None
    return tuple(sides)


def value_radius(resolved: Resolved) -> Bound | None:
    """beta, had the run K episodes; None where the width of Q is no number times a norm."""
    radius: Any = getattr(resolved.value_model(), "radius", None)
    if not isinstance(radius, Tuned | PaperValue) or np.ndim(radius.beta):
        return None

    def beta(K: float) -> float:
        of_K = radius._replace(episodes=float(K)) if isinstance(radius, PaperValue) else radius
        return _number(of_K, K)

    return beta


def errors_bound(resolved: Resolved) -> Bound | None:
    """K to the lemmas' bound on sum e with the run's settings; None where it cannot be said in advance."""
    model: Any = resolved.cost_model()
    sides = cost_sides(resolved)
    if sides is None or any(resolved._fits()):
        return None
    radii = [one.radius for one in (model.models if isinstance(model, EachCost) else (model,))]
    if any(isinstance(radius, CoordinateCost) for radius in radii):
        return None
    if any(side.d is None and side.eigenvalues is None for side in sides):
        return None

    def bound(K: float) -> float:
        total = 0.0
        for side, radius in zip(sides, radii, strict=True):
            gain = 0.0
            if side.d is None:
                assert side.eigenvalues is not None
                gain = bounds.gain_bound(K, side.eigenvalues, side.lam, side.rows, side.largest)
            told = (gain,) if isinstance(radius, PaperGP) else ()
            total += side.estimators * side.errors(K, _number(radius, K, *told), gain)
        return total

    return bound


def _number(radius: Any, k: float, *gain: float) -> float:
    """What a radius multiplies norms by in episode k, which may need 64 bits."""
    with jax.enable_x64(True):
        return float(radius.width(jnp.ones(()), jnp.asarray(int(k), jnp.int64), *map(jnp.asarray, gain)))


def not_covered(resolved: Resolved) -> list[str]:
    """What Theorem 1 assumes and this run does not keep, in words."""
    problem, name = resolved.problem, resolved.recipe.name
    agent, several = name == "lsvi-ae", problem.horizon > 1
    bent = value_choice(resolved) == "linear" and not _is_linear(problem, resolved.phi)
    said = {
        f"it is about lsvi-ae, and this is {name}": not agent,
        f"beta is {resolved['radius']}, not c d H sqrt(iota)": resolved["radius"] != "paper",
        f"lam is {resolved['lam']:g}, not 1": resolved["lam"] != 1,
        "one value estimator is shared over steps": resolved["share_values"] and several,
        "one cost estimator is shared over steps": agent and resolved["share_costs"] and several,
        "the cost intervals carry no probability": agent and resolved.confidence is None,
        f"the floor is {resolved['floor']}, not k": agent and resolved["floor"] != "k",
        f"optimism is {resolved['optimism']:g}, not 1": agent and resolved["optimism"] != 1,
        "costs change the choice within an episode": agent and resolved["react"],
        "plans are rare": resolved.switch is not None,
        "values are in the space of a kernel": isinstance(value_choice(resolved), InKernel),
        "transitions or rewards are not linear in the features": bent,
        f"rewards are not in [0, 1] (up to {problem.r.max():g})": problem.r.min() < 0 or problem.r.max() > 1,
        f"Q is clipped at {resolved['cap']:g}, not H": resolved["cap"] != problem.horizon,
    }
    return [reason for reason, holds in said.items() if holds]


def _is_linear(problem: FiniteCMDP, phi: np.ndarray | None) -> bool:
    """Whether P and r are linear in these features: judged by factors given as such, else by a fit of each."""
    assert phi is not None
    X = phi.reshape(-1, phi.shape[-1])
    fits = lambda y: np.abs(X @ np.linalg.lstsq(X, y, rcond=None)[0] - y).max() <= 1e-9
    rewards = fits(problem.r.reshape(len(problem.r), -1).T)
    if isinstance(problem.P, Factored):
        return bool(rewards and all(np.array_equal(phi, step) for step in problem.P.phi))
    return bool(rewards and all(fits(step.reshape(len(X), -1)) for step in problem.P))


# --- a run beside its theory ------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Beside:
    """One agent's run beside its bounds."""

    curves: Mapping[str, np.ndarray]  # of all seeds
    diagnosed: Diagnosed  # of some

    @property
    def resolved(self) -> Resolved:
        return self.diagnosed.resolved

    @property
    def K(self) -> int:
        return self.resolved.episodes

    @property
    def H(self) -> int:
        return self.resolved.problem.horizon

    @cached_property
    def priced(self) -> bool:
        """Whether the violation has a bound at all: the price must have its floor."""
        return isinstance(self.resolved.build().agent.penalty, Rectified) and self.resolved["floor"] == "k"

    @cached_property
    def beta(self) -> float | None:
        """The run's own; None where the width of Q is no multiple of a norm."""
        radius = value_radius(self.resolved)
        return None if radius is None else radius(self.K)

    def regret_bound(self, K: float, beta: float, repaired: bool) -> float:
        return bounds.regret_bound(K, self.H, self.resolved.value.d, beta, self.resolved["p"], repaired)

    @cached_property
    def lemma(self) -> np.ndarray | None:
        """(seeds, K): the lemmas' bound on sum e up to each episode, with the radii and gains that were realised."""
        sides, seen = cost_sides(self.resolved), self.diagnosed.seen
        if sides is None or seen.cost_radius is None or seen.cost_gain is None or np.isnan(seen.cost_radius).any():
            return None
        n, K = seen.error.shape
        total = np.zeros((n, K))
        for i, side in enumerate(sides):
            radius = np.maximum.accumulate(np.asarray(seen.cost_radius[:, :, i]), 1)  # a fit may make it smaller
            gain = np.asarray(seen.cost_gain[:, :, i])
            one = np.vectorize(side.errors)
            total += one(np.arange(1.0, K + 1)[None, :, None], radius, gain).sum(-1)
        return total

    def summary(self) -> dict[str, Any]:
        """Everything there is to say, ready for JSON."""
        K, H, seen = self.K, self.H, self.diagnosed.seen
        said: dict[str, Any] = {"theorem_1_does_not_cover_it_because": not_covered(self.resolved)}
        said["beta"] = self.beta

        regret = {"measured": _interval(self.curves["regret"].sum(1)), "exponent": _exponent(self.curves["regret"])}
        for name, repaired in READINGS:
            regret[name] = self._judged(self._regret_of(repaired))
        said["regret"] = regret
        violation: dict[str, Any] = {
            "measured": _interval(self.curves["violation"].sum(1)),
            "exponent": _exponent(self.curves["violation"]),
        }
        errors = float(np.asarray(seen.error).sum(1).mean())
        lemma = None if self.lemma is None else float(self.lemma[:, -1].mean())
        if self.priced:
            for name, repaired in READINGS:
                bound = None if lemma is None else bounds.violation_bound(K, H, lemma, repaired)
                violation[name] = self._judged(self._violation_of(repaired), bound)
                by_errors = bounds.violation_bound(K, H, errors, repaired)
                violation[f"{name}_with_measured_errors"] = {"bound": by_errors, "share_of_KH": by_errors / (K * H)}
        said["violation"] = violation
        if self.diagnosed.has_costs:
            said["errors"] = {
                "measured": _interval(np.asarray(seen.error).sum(1)),
                "exponent": _exponent(np.asarray(seen.error)),
                "printed": self._judged(errors_bound(self.resolved), lemma),
            }
            said["condition_1"] = _held(self.diagnosed.condition_held)
        said["optimism"] = _held(self.diagnosed.optimism_held)
        said["optimism_at_start"] = _held(self.diagnosed.optimism_held_at_start)
        said["value_potential"], said["value_information"] = self._learnt(
            value_side(self.resolved), seen.value_potential, seen.value_gain
        )
        sides = cost_sides(self.resolved)
        potential, gain = seen.cost_potential, seen.cost_gain
        if self.diagnosed.has_costs and sides is not None and potential is not None and gain is not None:
            each = [self._learnt(side, potential[:, :, i], gain[:, :, i]) for i, side in enumerate(sides)]
            said["cost_potential"], said["cost_information"] = ([part[j] for part in each] for j in (0, 1))
        return said

    def _learnt(self, side: Side, potential: Any, gain: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Potential and information of one model, measured and bounded."""
        together = np.asarray(gain)[:, -1].sum(-1)
        kernel = isinstance(value_choice(self.resolved), InKernel) and side.d is not None
        return (
            {
                "measured": _interval(np.asarray(potential).sum(1)),
                "printed": {"bound": None if kernel else side.potential(self.K, float(together.mean()))},
            },
            {"measured": _interval(together), "printed": {"bound": None if kernel else side.information(self.K)}},
        )

    def _regret_of(self, repaired: bool) -> Bound | None:
        """The bound on regret, had the run K episodes and the beta of such a run."""
        beta = value_radius(self.resolved)
        return None if beta is None else lambda K: self.regret_bound(K, beta(K), repaired)

    def _violation_of(self, repaired: bool) -> Bound | None:
        errors = errors_bound(self.resolved)
        return None if errors is None else lambda K: bounds.violation_bound(K, self.H, errors(K), repaired)

    def _judged(self, of: Bound | None, realised: float | None = None) -> dict[str, Any]:
        """A bound (`realised` where that is known better), its share of the most there can be, the first K it tells."""
        bound = of(self.K) if of is not None and realised is None else realised
        return {
            "bound": bound,
            "share_of_KH": None if bound is None else bound / (self.K * self.H),
            "first_telling_K": None if of is None else bounds.first_telling(of, self.H),
        }


def _interval(samples: np.ndarray) -> dict[str, float]:
    interval = statistics.mean_over_seeds(np.asarray(samples, float), np.random.default_rng(0))
    return {key: float(value) for key, value in interval._asdict().items()}


def _exponent(curves: np.ndarray) -> dict[str, float] | None:
    exponent = statistics.growth_exponent(curves, np.random.default_rng(0))
    return None if np.isnan(exponent.value) else exponent._asdict()


def _held(held: np.ndarray) -> dict[str, float]:
    """In how many runs something held at all times, and in which share of episodes."""
    return {"seeds": len(held), "in_all_episodes_of": int(held.all(1).sum()), "share_of_episodes": float(held.mean())}


# --- the command ------------------------------------------------------------------------------------------------------
def run(folder: Path, seeds: int, bar: Callable[[int], Any]) -> str:
    """Read, run again, draw, write theory.json, and return the table. `bar(total)` shows how many episodes are done."""
    kept = rerun.read(folder)
    experiment = kept.again(seeds)
    with bar(len(experiment.spec["seeds"]) * kept.spec["episodes"] * len(experiment.agents)) as advanced:
        diagnosed = diagnosis.diagnose(experiment, advanced)
    for label, each in diagnosed.items():
        kept.check(label, np.asarray(each.metrics.value), np.asarray(each.metrics.violation).sum(-1))
    beside = {label: Beside(kept.curves[label], each) for label, each in diagnosed.items()}
    summary = {
        "problem": kept.spec["problem"],
        "episodes": kept.spec["episodes"],
        "seeds": len(kept.spec["seeds"]),
        "seeds_run_again": len(experiment.spec["seeds"]),
        "agents": {label: each.summary() for label, each in beside.items()},
    }
    from everystep.experiments import figures
    from everystep.reports.theory import figure

    drawn = figures.save(figure.beside(beside), folder / "figures" / "theory")
    files.write_json(folder / "theory.json", summary)
    return f"{text(summary)}\n\nWritten to {folder / 'theory.json'}; drawn: {drawn[0]}"


def text(summary: Mapping[str, Any]) -> str:
    """The table of a run beside its theory."""
    head = ["", "measured", "bound, printed", "repaired", "/ (K H)", "tells from K", "grows like k^"]
    parts = [
        f"{summary['problem']['name']}, H = {summary['problem']['horizon']}, K = {summary['episodes']}: "
        f"{summary['seeds']} seeds, {summary['seeds_run_again']} of them run again and watched"
    ]
    for label, said in summary["agents"].items():
        rows = [_row("regret", said["regret"]), _row("violation", said["violation"])]
        if "printed_with_measured_errors" in said["violation"]:
            names = ("printed", "repaired")
            by_errors = {name: said["violation"][f"{name}_with_measured_errors"] for name in names}
            rows.append(_row("  by the errors measured", by_errors))
        rows += [_row("sum of e", said["errors"])] if "errors" in said else []
        for key, name in (("potential", "elliptical potential"), ("information", "information gained")):
            rows += [_row(f"{name}, values", said[f"value_{key}"])] if f"value_{key}" in said else []
            each = said.get(f"cost_{key}", [])
            rows += [_row(f"{name}, costs{f' {i + 1}' if len(each) > 1 else ''}", one) for i, one in enumerate(each)]
        reasons = said["theorem_1_does_not_cover_it_because"]
        held = {"condition_1": "Condition 1", "optimism": "Q >= Q*", "optimism_at_start": "V_1 >= V*_1"}
        parts += [
            "",
            tables.aligned([[label, *head[1:]], *rows]),
            *(f"{name} held {_share(said[key])}" for key, name in held.items() if key in said),
            textwrap.fill(f"Theorem 1 does not cover this run: {'; '.join(reasons)}." if reasons else COVERED, 118),
        ]
    parts += [
        "",
        "Bounds are as printed, and with the slips of the proof repaired. K H is the most there can be with",
        "rewards and one cost of at most 1; the share of it, and the first K at which a bound is below it, are of the",
        "repaired one. In beta, c = 1 unless it was set.",
        "Errors, potentials and information are means over the seeds run again; in brackets: 95 % bootstrap intervals.",
    ]
    return "\n".join(parts)


def _row(name: str, said: Mapping[str, Any]) -> list[str]:
    measured, exponent = said.get("measured"), said.get("exponent")
    printed = said.get("printed", {})
    last = said.get("repaired", printed)
    grows = (
        "none"
        if exponent is None
        else tables.interval(statistics.Interval(exponent["value"], exponent["low"], exponent["high"]))
    )
    return [
        name,
        "" if measured is None else tables.interval(statistics.Interval(**measured)),
        _short(printed.get("bound")),
        _short(said["repaired"]["bound"]) if "repaired" in said else "",
        _short(last.get("share_of_KH")) if "share_of_KH" in last else "",
        _short(last.get("first_telling_K")) if "first_telling_K" in last else "",
        grows if "exponent" in said else "",
    ]


def _short(value: float | None) -> str:
    if value is None:
        return "none"
    if isinstance(value, int) and value < 1e7:
        return str(value)
    return f"{value:.2e}" if abs(value) >= 1e5 else tables.number(value)


def _share(held: Mapping[str, Any]) -> str:
    return (
        f"at all times in {held['in_all_episodes_of']} of {held['seeds']} runs, "
        f"and in {held['share_of_episodes']:.1%} of their episodes"
    )
