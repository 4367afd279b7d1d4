"""`everystep theory DIR`: a run compared with the paper's bounds, as a table, theory.json and a figure.

Regret and violation are those of all seeds in the folder. Quantities inside the agent (errors, potentials, whether
confidence sets held) come from running some of these seeds again with a probe (diagnosis.py).
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from everystep import files
from everystep.agents.model_syntax import InKernel
from everystep.agents.resolve.agent import Resolved
from everystep.experiments import statistics, tables
from everystep.experiments.folder import rerun
from everystep.lsvi import radii
from everystep.lsvi.costs.lemmas import Capacity, LemmaModel, covered
from everystep.lsvi.penalties import Rectified
from everystep.mdp.cmdp import Factored, FiniteCMDP
from everystep.reports.theory import bounds, diagnosis
from everystep.reports.theory.diagnosis import Diagnosed
from everystep.runtime.progress import counting

Bound = Callable[[float], float]
READINGS = (("printed", False), ("repaired", True))
OUTPUTS = ("theory.json", "figures/theory.png", "figures/theory.svg")
COVERED = "Theorem 1 covers this run, provided that the constant c in beta is large enough."


# --- an agent's models as the lemmas see them ------------------------------------------------------------------------
class LemmaInputs(NamedTuple):
    """A model as the lemmas see it: `estimators` of them, each with `rows` observations per episode."""

    estimators: int
    rows: int
    lam: float
    capacity: Capacity
    constraints: int = 1  # that share the model

    @property
    def d(self) -> float | None:
        """The dimension of its features; None for a Gaussian process."""
        return self.capacity.dimension

    def potential_bound(self, K: float, gain: float) -> float:
        """The bound on the elliptical potential of all estimators; `gain` is the sum of their information gains."""
        if self.d is None:
            return bounds.stretch(self.rows) * 2 * gain
        return self.estimators * bounds.potential_bound(K, self.d, self.lam, self.rows)

    def information_bound(self, K: float) -> float | None:
        """The bound on the information gain of all estimators; None where the kernel's spectrum is not known."""
        if self.d is not None:
            return float(self.estimators * self.d * np.log1p(self.rows * K / (self.d * self.lam)) / 2)
        gain = self.gain_bound(K)
        return None if gain is None else self.estimators * gain

    def gain_bound(self, K: float) -> float | None:
        """The bound on the information gain of one Gaussian process; None where its spectrum is not known."""
        _, eigenvalues, largest = self.capacity
        return None if eigenvalues is None else bounds.gain_bound(K, eigenvalues, self.lam, self.rows, largest)

    def errors_bound(self, K: float, radius: float, gain: float) -> float:
        """The lemma's bound on sum_k e^k of one estimator."""
        if self.d is not None:
            return self.constraints * bounds.linear_errors(K, self.d, radius, self.lam, self.rows)
        return self.constraints * bounds.gp_errors(K, radius, gain, self.lam, self.rows, self.capacity.largest)


def _estimators_and_rows(shared: bool, H: int) -> tuple[int, int]:
    return (1, H) if shared else (H, 1)


def value_inputs(resolved: Resolved) -> LemmaInputs:
    """Features of length up to L are features of length 1 with the ridge lam / L^2."""
    lam = float(resolved["lam"]) / resolved.value.longest**2
    arranged = _estimators_and_rows(resolved["share_values"], resolved.problem.horizon)
    return LemmaInputs(*arranged, lam, Capacity(resolved.value.d))


def cost_inputs(resolved: Resolved) -> tuple[tuple[LemmaModel, LemmaInputs], ...]:
    """The cost models that the lemmas cover, each with its inputs; empty if they do not cover this kind of model."""
    problem, models = resolved.problem, [model for model, _ in covered(resolved.cost_model())]
    arranged = _estimators_and_rows(resolved["share_costs"], problem.horizon)
    return tuple(
        (
            model,
            LemmaInputs(*arranged, float(model.lam), model.capacity(problem.sizes), problem.constraints // len(models)),
        )
        for model in models
    )


def value_radius(resolved: Resolved) -> Bound | None:
    """beta as a function of the number of episodes K; None if the width of Q is not proportional to a norm."""
    radius = resolved.value_model().radius

    def beta(K: float) -> float:
        return _number(partial(radii.factor_of_norm, radii.with_episodes(radius, float(K))), K)

    return None if np.isnan(beta(resolved.episodes)) else beta


def errors_bound(resolved: Resolved) -> Bound | None:
    """The lemmas' bound on sum e as a function of K, with the settings of the run; None if they give none in advance.

    They give none if the spectrum of a kernel is not known, or if widths are not proportional to norms.
    """
    models = cost_inputs(resolved)
    if not models:
        return None

    def bound(K: float) -> float:
        total = 0.0
        for model, inputs in models:
            gain = inputs.gain_bound(K) or 0.0
            total += inputs.estimators * inputs.errors_bound(K, _number(model.radius_at, K, gain), gain)
        return total

    if any(inputs.d is None and inputs.gain_bound(1) is None for _, inputs in models):
        return None
    return None if np.isnan(bound(resolved.episodes)) else bound


def _number(radius_at: Callable[[Any, Any], Any], k: float, gain: float = 0.0) -> float:
    """A radius in episode k, which may need 64 bits, as a plain number."""
    with jax.enable_x64(True):
        return float(radius_at(jnp.asarray(int(k), jnp.int64), jnp.asarray(gain)))


def not_covered(resolved: Resolved) -> list[str]:
    """The assumptions of Theorem 1 that this run does not satisfy, in words."""
    problem, name = resolved.problem.in_units, resolved.recipe.name
    agent, several = name == "lsvi-ae", problem.horizon > 1
    nonlinear = resolved.value.choice == "linear" and not _is_linear(problem, resolved.phi)
    reasons = {
        f"it is about lsvi-ae, and this is {name}": not agent,
        "some states have no safe action": resolved.problem.dead_ends is not None,
        f"beta is {resolved['radius']}, not c d H sqrt(iota)": resolved["radius"] != "paper",
        f"lam is {resolved['lam']:g}, not 1": resolved["lam"] != 1,
        "one value estimator is shared over steps": resolved["share_values"] and several,
        "one cost estimator is shared over steps": agent and resolved["share_costs"] and several,
        "the cost intervals are a heuristic": agent and resolved.confidence is None,
        f"the floor is {resolved['floor']}, not k": agent and resolved["floor"] != "k",
        f"optimism is {resolved['optimism']:g}, not 1": agent and resolved["optimism"] != 1,
        "costs change the choice within an episode": agent and resolved["react"],
        "plans are rare": resolved.switch is not None,
        "values are in the space of a kernel": isinstance(resolved.value.choice, InKernel),
        "transitions or rewards are not linear in the features": nonlinear,
        f"Q is clipped at {resolved.cap:g}, not H": resolved.cap != problem.horizon,
    }
    return [reason for reason, applies in reasons.items() if applies]


def _is_linear(problem: FiniteCMDP, phi: np.ndarray | None) -> bool:
    """Whether P and r are linear in these features: by the factors of P where it has them, else by a fit."""
    assert phi is not None
    X = phi.reshape(-1, phi.shape[-1])
    fits = lambda y: np.abs(X @ np.linalg.lstsq(X, y, rcond=None)[0] - y).max() <= 1e-9
    rewards = fits(problem.r.reshape(len(problem.r), -1).T)
    if isinstance(problem.P, Factored):
        return bool(rewards and all(np.array_equal(phi, step) for step in problem.P.phi))
    # P is linear iff P v is for every v: a table of P may not fit into memory, and with random v chance cannot deceive.
    v = np.random.default_rng(0).random((problem.states, 8))
    ahead = ((step[..., None] * v[problem.P.states]).sum(-2) for step in problem.P.probabilities)
    return bool(rewards and all(fits(each.reshape(len(X), -1)) for each in ahead))


# --- a run and its bounds ---------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class TheoryComparison:
    """One agent's run and its bounds."""

    curves: Mapping[str, np.ndarray]  # of all seeds
    diagnosed: Diagnosed  # of the seeds that were run again

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
        """Whether Theorem 1 bounds the violation: the price must have its floor."""
        return isinstance(self.resolved.build().agent.penalty, Rectified) and self.resolved["floor"] == "k"

    @cached_property
    def beta(self) -> float | None:
        """The beta of the run; None if the width of Q is not proportional to a norm."""
        radius = value_radius(self.resolved)
        return None if radius is None else radius(self.K)

    def regret_bound(self, K: float, beta: float, repaired: bool) -> float:
        return bounds.regret_bound(K, self.H, self.resolved.value.d, beta, self.resolved["p"], repaired)

    @cached_property
    def lemma(self) -> np.ndarray | None:
        """(seeds, K): the lemmas' bound on sum e up to each episode, with the realised radii and information gains."""
        measured = self.diagnosed.measured
        if measured.cost_radius is None or measured.cost_gain is None or np.isnan(measured.cost_radius).any():
            return None
        n, K = measured.error.shape
        total = np.zeros((n, K))
        for i, (_, inputs) in enumerate(cost_inputs(self.resolved)):
            radius = np.maximum.accumulate(np.asarray(measured.cost_radius[:, :, i]), 1)  # a fit may make it smaller
            gain = np.asarray(measured.cost_gain[:, :, i])
            bound = np.vectorize(inputs.errors_bound)
            total += bound(np.arange(1.0, K + 1)[None, :, None], radius, gain).sum(-1)
        return total

    def summary(self) -> dict[str, Any]:
        """All measurements, bounds and verdicts, ready for JSON."""
        K, H, measured = self.K, self.H, self.diagnosed.measured
        regret = {"measured": _interval(self.curves["regret"].sum(1)), "exponent": _exponent(self.curves["regret"])}
        for name, repaired in READINGS:
            regret[name] = self._with_bound(self._regret_bound_of(repaired))
        violation: dict[str, Any] = {
            "measured": _interval(self.curves["violation"].sum(1)),
            "exponent": _exponent(self.curves["violation"]),
        }
        errors = float(np.asarray(measured.error).sum(1).mean())
        lemma = None if self.lemma is None else float(self.lemma[:, -1].mean())
        if self.priced:
            for name, repaired in READINGS:
                bound = None if lemma is None else bounds.violation_bound(K, H, lemma, repaired)
                violation[name] = self._with_bound(self._violation_bound_of(repaired), bound)
                by_errors = bounds.violation_bound(K, H, errors, repaired)
                violation[f"{name}_with_measured_errors"] = {"bound": by_errors, "share_of_KH": by_errors / (K * H)}
        summary: dict[str, Any] = {
            "theorem_1_does_not_cover_it_because": not_covered(self.resolved),
            "beta": self.beta,
            "regret": regret,
            "violation": violation,
        }
        if self.diagnosed.has_costs:
            summary["errors"] = {
                "measured": _interval(np.asarray(measured.error).sum(1)),
                "exponent": _exponent(np.asarray(measured.error)),
                "printed": self._with_bound(errors_bound(self.resolved), lemma),
            }
            summary["condition_1"] = _held(self.diagnosed.condition_held)
        summary["optimism"] = _held(self.diagnosed.optimism_held)
        summary["optimism_at_start"] = _held(self.diagnosed.optimism_held_at_start)
        summary["value_potential"], summary["value_information"] = self._potential_and_information(
            value_inputs(self.resolved), measured.value_potential, measured.value_gain
        )
        potential, gain = measured.cost_potential, measured.cost_gain
        if self.diagnosed.has_costs and potential is not None and gain is not None:
            each = [
                self._potential_and_information(inputs, potential[:, :, i], gain[:, :, i])
                for i, (_, inputs) in enumerate(cost_inputs(self.resolved))
            ]
            summary["cost_potential"], summary["cost_information"] = ([part[j] for part in each] for j in (0, 1))
        return summary

    def _potential_and_information(
        self, inputs: LemmaInputs, potential: object, gain: object
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Elliptical potential and information gain of one model, measured and bounded."""
        total_gain = np.asarray(gain)[:, -1].sum(-1)
        kernel = isinstance(self.resolved.value.choice, InKernel) and inputs.d is not None
        potential_bound = None if kernel else inputs.potential_bound(self.K, float(total_gain.mean()))
        information_bound = None if kernel else inputs.information_bound(self.K)
        return (
            {"measured": _interval(np.asarray(potential).sum(1)), "printed": {"bound": potential_bound}},
            {"measured": _interval(total_gain), "printed": {"bound": information_bound}},
        )

    def _regret_bound_of(self, repaired: bool) -> Bound | None:
        """The bound on regret as a function of K, with the beta of a run of K episodes."""
        beta = value_radius(self.resolved)
        return None if beta is None else lambda K: self.regret_bound(K, beta(K), repaired)

    def _violation_bound_of(self, repaired: bool) -> Bound | None:
        errors = errors_bound(self.resolved)
        return None if errors is None else lambda K: bounds.violation_bound(K, self.H, errors(K), repaired)

    def _with_bound(self, bound_of: Bound | None, realised: float | None = None) -> dict[str, Any]:
        """A bound (`realised` if given), its share of K H, and the first K at which it is below K H."""
        bound = bound_of(self.K) if bound_of is not None and realised is None else realised
        return {
            "bound": bound,
            "share_of_KH": None if bound is None else bound / (self.K * self.H),
            "first_informative_K": None if bound_of is None else bounds.first_informative_K(bound_of, self.H),
        }


def _interval(samples: np.ndarray) -> dict[str, float]:
    interval = statistics.mean_over_seeds(samples)
    return {key: float(value) for key, value in interval._asdict().items()}


def _exponent(curves: np.ndarray) -> dict[str, float] | None:
    exponent = statistics.growth_exponent(curves, np.random.default_rng(0))
    return None if np.isnan(exponent.value) else exponent._asdict()


def _held(held: np.ndarray) -> dict[str, float]:
    """The number of runs in which a claim held in all episodes, and the share of episodes in which it held."""
    return {"seeds": len(held), "in_all_episodes_of": int(held.all(1).sum()), "share_of_episodes": float(held.mean())}


# --- the command ------------------------------------------------------------------------------------------------------
def run(folder: Path, seeds: int, force: bool = False) -> str:
    """Read a run, run seeds again, draw, write theory.json, and return the table."""
    kept = rerun.read(folder)
    files.check_places(files.real(folder), OUTPUTS, force)
    experiment = kept.again(seeds)
    total = len(experiment.spec["seeds"]) * kept.spec["episodes"] * len(experiment.agents)
    with counting(total, "episodes") as advanced:
        diagnosed = diagnosis.diagnose(experiment, advanced)
    for label, each in diagnosed.items():
        kept.check(label, np.asarray(each.metrics.value), np.asarray(each.metrics.violation).sum(-1))
    compared = {label: TheoryComparison(in_units(kept, label), each) for label, each in diagnosed.items()}
    summary = {
        "problem": kept.spec["problem"],
        "episodes": kept.spec["episodes"],
        "seeds": len(kept.spec["seeds"]),
        "seeds_run_again": len(experiment.spec["seeds"]),
        "agents": {label: each.summary() for label, each in compared.items()},
    }
    from everystep.experiments import figures
    from everystep.reports.theory import figure

    with files.replacing(folder, force=force) as partial:
        figures.save(figure.bounds_and_measurements(compared), partial / "figures" / "theory")
        files.write_json(partial / "theory.json", summary)
    return f"{text(summary)}\n\nWritten to {folder / OUTPUTS[0]}; drawn: {folder / OUTPUTS[1]}"


def in_units(kept: rerun.Run, label: str) -> dict[str, np.ndarray]:
    """The regret and the violation of an agent in the units of its bounds: of the range of rewards, and of each g."""
    problem, curves = kept.problem, kept.curves[label]
    regret, violation = curves["regret"] / problem.reward_range.span, curves["violation"]
    if problem.scale is not None and problem.constraints == 1:
        violation = violation / problem.scale[0]
    elif problem.scale is not None:
        names = [f"violation_{i + 1}" for i in range(problem.constraints)]
        each = kept.opened.curves(names)[label]
        violation = sum(each[name] / unit for name, unit in zip(names, problem.scale, strict=True))
    return {"regret": regret, "violation": np.asarray(violation)}


def text(summary: Mapping[str, Any]) -> str:
    """The table of a run and its bounds."""
    head = ["", "measured", "bound, printed", "repaired", "/ (K H)", "below K H from K", "grows like k^"]
    parts = [
        f"{summary['problem']['name']}, H = {summary['problem']['horizon']}, K = {summary['episodes']}: "
        f"{summary['seeds']} seeds, {summary['seeds_run_again']} of them run again with the probe"
    ]
    for label, agent in summary["agents"].items():
        rows = [_row("regret", agent["regret"]), _row("violation", agent["violation"])]
        if "printed_with_measured_errors" in agent["violation"]:
            names = ("printed", "repaired")
            by_errors = {name: agent["violation"][f"{name}_with_measured_errors"] for name in names}
            rows.append(_row("  with measured errors", by_errors))
        rows += [_row("sum of e", agent["errors"])] if "errors" in agent else []
        for key, name in (("potential", "elliptical potential"), ("information", "information gain")):
            rows += [_row(f"{name}, values", agent[f"value_{key}"])] if f"value_{key}" in agent else []
            costs = agent.get(f"cost_{key}", [])
            rows += [
                _row(f"{name}, costs{f' {i + 1}' if len(costs) > 1 else ''}", cost) for i, cost in enumerate(costs)
            ]
        reasons = agent["theorem_1_does_not_cover_it_because"]
        claims = {"condition_1": "Condition 1", "optimism": "Q >= Q*", "optimism_at_start": "V_1 >= V*_1"}
        parts += [
            "",
            tables.aligned([[label, *head[1:]], *rows]),
            *(f"{name} held {_share(agent[key])}" for key, name in claims.items() if key in agent),
            textwrap.fill(f"Theorem 1 does not cover this run: {'; '.join(reasons)}." if reasons else COVERED, 118),
        ]
    parts += [
        "",
        "Bounds are given as printed, and with the errors of the proof repaired. Rewards are in units of their range",
        "and costs in [-1, 1], as in the paper: K H is the maximum of regret, and of the violation of one constraint.",
        "The share of K H, and the first K at which a bound is below it, refer to the repaired bound. In beta, c = 1",
        "unless it was set. Errors, potentials and information gains are means over the seeds that were run again. In",
        "brackets: 95 % bootstrap confidence intervals.",
    ]
    return "\n".join(parts)


def _row(name: str, quantity: Mapping[str, Any]) -> list[str]:
    measured, exponent = quantity.get("measured"), quantity.get("exponent")
    printed = quantity.get("printed", {})
    last = quantity.get("repaired", printed)
    grows = (
        "none"
        if exponent is None
        else tables.interval(statistics.Interval(exponent["value"], exponent["low"], exponent["high"]))
    )
    return [
        name,
        "" if measured is None else tables.interval(statistics.Interval(**measured)),
        _short(printed.get("bound")),
        _short(quantity["repaired"]["bound"]) if "repaired" in quantity else "",
        _short(last.get("share_of_KH")) if "share_of_KH" in last else "",
        _short(last.get("first_informative_K")) if "first_informative_K" in last else "",
        grows if "exponent" in quantity else "",
    ]


def _short(value: float | None) -> str:
    if value is None:
        return "none"
    if isinstance(value, int) and value < 1e7:
        return str(value)
    return f"{value:.2e}" if abs(value) >= 1e5 else tables.number(value)


def _share(held: Mapping[str, Any]) -> str:
    return (
        f"in all episodes of {held['in_all_episodes_of']} of {held['seeds']} runs, "
        f"and in {held['share_of_episodes']:.1%} of all episodes"
    )
