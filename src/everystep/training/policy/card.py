"""The card of a policy, policy/CARD.md: its training, the violations meanwhile, and the guarantee of its certificates.

A training writes it beside the policy, and an evaluation adds what it measured. `Policy.load` does not read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from everystep import files
from everystep.experiments import statistics, tables
from everystep.training.diagnosis.learnt import coverage
from everystep.training.policy.evaluation import Evaluation
from everystep.training.policy.policy import CARD

if TYPE_CHECKING:
    from everystep.training.learnt.quality import QualityFigures
    from everystep.training.policy.evaluation_file import Saved
    from everystep.training.result import TrainingResult

KINDS = {
    "OneHot": "one-hot features",
    "StateTable": "a table of features",
    "Table": "a table of features",
    "Intercept": "a constant",
    "Fourier": "Fourier features",
    "Centres": "radial basis functions",
    "Polynomial": "polynomial features",
    "Tiles": "tiles",
    "CustomStateFeatures": "a custom function",
    "CustomFeatures": "a custom function",
}
BEFORE, AFTER = "\n## Evaluation\n\n", "\n\n## Certificates\n"  # the headings around the evaluation


def add_evaluation(folder: Path, saved: Saved, seed: int) -> None:
    """Replace the evaluation on the card of a policy. A missing or changed card is left.

    Only an evaluation with the environment and the constraint of the training belongs there.
    """
    if not saved.own:
        return
    try:
        if files.altered(folder, CARD, ever=True):
            return
        before, _, rest = (folder / CARD).read_text(encoding="utf-8").partition(BEFORE)
        card = before + BEFORE + _evaluation(saved, seed) + AFTER + rest.partition(AFTER)[2]
        files.write_output(folder / CARD, lambda file: file.write(card.encode()))
    except (OSError, ValueError):
        return  # the evaluation itself is saved elsewhere


def text(result: TrainingResult, evaluation: Saved | None) -> str:
    """The card as Markdown."""
    spec, columns = result.spec, result.columns
    value, cost = (features_in_words(spec[name]) for name in ("value", "cost"))
    found = result.found.get("constraint")
    learnt = cast("QualityFigures | None", result.found.get("learnt"))
    numbers = f" ({spec['constraints']} numbers)" if spec["constraints"] > 1 else ""
    settings = ", ".join(f"{key} {_plain(value)}" for key, value in spec["settings"].items())
    rows = {
        "environment": spec["environment"],
        "constraint": f"{f'`{found}`' if found else 'not recorded'}{numbers}, safe at every step iff <= 0",
        "agent": spec["agent"],
        "settings": settings,
        "features": value
        + ("" if spec["d"] is None else f", {spec['d']} numbers for each observation and action")
        + ("" if value == cost else f"; of the cost model: {cost}"),
        "plans": f"look {_ahead(spec, learnt)} ahead, in episodes of up to {spec['length']}",
        "seed": spec["seed"],
        "versions": _versions(spec["versions"]),
    }
    total = {name: float(column.sum()) for name, column in columns.items()}
    trained = [
        f"{len(columns['return']):,} episodes, {total['length']:,.0f} steps",
        f"total violation {tables.number(total['violation'])} (the sum of max(g, 0) over steps) while it learnt, "
        f"{total['unsafe_steps']:,.0f} unsafe steps",
        *(
            f"of constraint {name.removeprefix('violation_')}: {tables.number(total[name])}"
            for name in columns
            if name.startswith("violation_")
        ),
    ]
    if last := statistics.episodes_at_the_end(columns["length"]):
        mean = tables.number(float(columns["return"][-last:].mean()))
        trained.append(f"mean return {mean} in the last {last} episodes, while it explored")
    custom = KINDS["CustomFeatures"]
    functions = {"features": value, "cost_features": cost}
    passed = "".join(f", {name}={name}" for name, words in functions.items() if custom in words)
    lines = [
        f"# Policy for {spec['environment']}",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {_cell(words)} |" for name, words in rows.items()),
        "",
        "## Training",
        "",
        *(f"- {line}" for line in trained),
        BEFORE.rstrip("\n"),
        "",
        _evaluation(evaluation, spec["seed"]) + AFTER,
        certificates_in_words(spec, result.policy.plan.optimism) + _measured(learnt),
        "",
        "## Use",
        "",
        "```python",
        "import everystep as es",
        "",
        f'policy = es.Policy.load("policy"{passed})  # this folder; its checksums are verified',
        "action = policy(observation, step=t)  # t counts the steps of the episode from 1, as in an evaluation",
        "labels = policy.certify(observation)  # for each action 1 (safe), -1 (unsafe) or 0 (unknown)",
        "```",
    ]
    if result.remarks:
        lines += ["", "## Remarks", "", *(f"- {remark}" for remark in result.remarks)]
    return "\n".join(lines) + "\n"


def _ahead(spec: Mapping[str, Any], learnt: QualityFigures | None) -> str:
    if learnt is None:
        return f"{spec['horizon']} steps"
    return f"{', '.join(map(str, learnt['horizons']))} steps (discounted and averaged)"


def _measured(learnt: QualityFigures | None) -> str:
    """What the labels of networks were worth while it learnt."""
    labels = None if learnt is None else coverage(learnt)
    return "" if labels is None else f" Measured while it learnt: {labels.sentence}."


def features_in_words(described: Mapping[str, Any]) -> str:
    """The features of a model, from how an encoder describes itself."""
    if not isinstance(described, Mapping):
        return str(described)
    if "networks" in described:
        return "none: networks of the observation"
    if "kernel" in described:
        return f"the kernel {described['kernel']}"
    kind, inner = str(described.get("kind")), lambda name: features_in_words(described.get(name, {}))
    if kind == "Crossed":
        return f"{inner('psi')} for each action"
    if kind == "Mirrored":
        return f"{inner('psi')} for each pair of actions and their mirror images"
    if kind == "Joint":
        return f"{inner('own')} of observation and action together"
    if kind == "Joined" and isinstance(described.get("parts"), list | tuple):
        return " and ".join(features_in_words(each) for each in described["parts"])
    return KINDS.get(kind, kind)


def _plain(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items())


def _evaluation(saved: Saved | None, seed: int) -> str:
    if saved is None:
        return "None was made: `everystep evaluate`, or es.evaluate, plays the policy without exploration."
    found = Evaluation(saved.columns[seed])
    earned, lost = ("{} [{}, {}]".format(*map(tables.number, found.interval(name))) for name in ("return", "violation"))
    unsafe, steps = (int(np.sum(found.columns[name])) for name in ("unsafe_steps", "length"))
    return (
        f"{saved.episodes} episodes without exploration: return {earned}, violation {lost} per episode, with 95 % "
        f"bootstrap intervals over episodes; {unsafe} of {steps} steps were unsafe. Environment and constraint are "
        f"those above; episode i began with reset(seed={saved.first_seed} + i), i from 0 to {saved.episodes - 1}, with "
        f"{_versions(saved.versions)}."
    )


def certificates_in_words(spec: Mapping[str, Any], optimism: float) -> str:
    """The guarantee of a label, and the use of each estimate, in a few sentences."""
    radius = spec["settings"].get("radius_cost")
    if spec["guarantee"].startswith("none"):
        return "This agent does not look at costs, so it certifies nothing: every label is 0 (unknown)."
    if spec["confidence"] is not None:
        worth = (
            f"The radius of the cost intervals is that of the paper ({radius}): {spec['guarantee']}. Where these "
            "assumptions do not hold, neither do the labels."
        )
    else:
        width = "width of the cost intervals is the spread of networks" if "networks" in spec["cost"] else (
            f"radius of the cost intervals is {radius}"
        )  # fmt: skip
        worth = (
            f"The {width}, not proved: a label says what the estimates say, without a probability. Treat labels as "
            "advice, and evaluate the policy before it is used."
        )
    ends = {
        0.0: "the estimated cost itself",
        1.0: "the lower end of each cost interval",
        -1.0: "the upper end of each cost interval",
    }
    estimate = ends.get(optimism, "a point of the cost interval between the estimate and an end")
    return (
        f"{worth} Actions are chosen by {estimate} (optimism {optimism:g}); labels use both ends of the interval, and "
        "are 0 (unknown) outside of the observations at which the policy has acted; a shield made from this policy "
        "counts the upper end."
    )
