"""The card of a policy: what it was trained on, what that cost, and what its certificates are worth.

    policy/card.json    as data; `policy` is the checksum of the policy.json that it describes
    policy/CARD.md      the same for readers

A training writes both beside the policy, and an evaluation adds what it measured. `Policy.load` does not read them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everystep import files
from everystep.errors import EverystepError
from everystep.experiments import statistics, tables

if TYPE_CHECKING:
    from everystep.training.policy.evaluation import Evaluation
    from everystep.training.policy.evaluation_file import Saved
    from everystep.training.result import TrainingResult

FORMAT = 2  # 1 did not say which estimate of costs the policy uses, and which episodes an evaluation played
DATA, TEXT = "card.json", "CARD.md"
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


# --- writing ----------------------------------------------------------------------------------------------------------
def write(result: TrainingResult, folder: Path) -> None:
    """The card of a result into the folder of its policy, which is being filled."""
    card = of(result, files.seal(folder / "policy.json").sha256)
    files.write_json(folder / DATA, card)
    files.write_text(folder / TEXT, in_words(card))


def add_evaluation(folder: Path, saved: Saved, seed: int) -> None:
    """Add what the policy of a seed earned and harmed to its card. A missing or changed one is left.

    Only an evaluation with the environment and the constraint of the training belongs there.
    """
    if not saved.own:
        return
    try:
        card = read(folder)
        if card is None or card["seed"] != seed or any(files.altered(folder, name, ever=True) for name in (DATA, TEXT)):
            return
        card["evaluation"] = evaluated(saved, seed)
        for name, text in ((DATA, json.dumps(card, indent=2) + "\n"), (TEXT, in_words(card))):
            files.write_output(folder / name, lambda file, text=text: file.write(text.encode()))  # type: ignore[misc]
    except (OSError, EverystepError, KeyError, TypeError, ValueError):
        return  # the evaluation itself is saved elsewhere


def remove(folder: Path) -> None:
    """Remove the card of a policy that was replaced; one that was changed by hand is left."""
    for name in (DATA, TEXT):
        if (folder / name).is_file() and not files.altered(folder, name):
            (folder / name).unlink(missing_ok=True)


def read(folder: Path) -> dict[str, Any] | None:
    """The card of the policy in a folder; None if there is none, or it is that of another policy."""
    try:
        card = files.read_json(folder / DATA)
        same = card["format"] == FORMAT and card["policy"] == files.seal(folder / "policy.json").sha256
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return card if same else None


# --- as data ----------------------------------------------------------------------------------------------------------
def of(result: TrainingResult, checksum: str) -> dict[str, Any]:
    """The card as JSON."""
    spec, columns, found = result.spec, result.columns, result.found
    by_constraint = [name for name in columns if name.startswith("violation_")]
    last = statistics.episodes_at_the_end(columns["length"])
    return {
        "format": FORMAT,
        "policy": checksum,
        "environment": spec["environment"],
        "constraint": found.get("constraint"),
        "constraints": spec["constraints"],
        "agent": spec["agent"],
        "settings": spec["settings"],
        "features": {name: features_in_words(spec[name]) for name in ("value", "cost")},
        "d": spec["d"],
        "horizon": spec["horizon"],
        "length": spec["length"],
        "seed": spec["seed"],
        "trained": {
            "episodes": len(columns["return"]),
            "steps": int(columns["length"].sum()),
            "violation": float(columns["violation"].sum()),
            **{name: float(columns[name].sum()) for name in by_constraint},
            "unsafe_steps": int(columns["unsafe_steps"].sum()),
            "last_episodes": last,
            "return_at_the_end": float(columns["return"][-last:].mean()) if last else None,
        },
        "evaluation": None if result.evaluation is None else _evaluated_by_train(result, result.evaluation),
        "certificates": certificates(spec, result.policy.plan.optimism),
        "remarks": list(result.remarks),
        "versions": spec["versions"],
    }


def certificates(spec: Mapping[str, Any], optimism: float) -> dict[str, Any]:
    """Which radius the cost intervals have, whether what they certify is proved, and which end the choice uses."""
    return {
        "optimism": optimism,
        "radius": spec["settings"].get("radius_cost"),
        "proved": spec["confidence"] is not None,
        "p": spec["confidence"],
        "guarantee": spec["guarantee"],
    }


def evaluated(saved: Saved, seed: int) -> dict[str, Any]:
    """The evaluation of a seed, by the environment and the constraint of the card."""
    columns = saved.columns[seed]
    from everystep.training.policy.evaluation import Evaluation  # which imports policies, and they their cards

    evaluation = Evaluation(columns)
    return {
        "episodes": saved.episodes,
        "first_seed": saved.first_seed,
        "versions": saved.versions,
        "steps": int(np.sum(columns["length"])),
        "unsafe_steps": int(np.sum(columns["unsafe_steps"])),
        **{name: list(evaluation.interval(name)) for name in ("return", "violation")},
    }


def _evaluated_by_train(result: TrainingResult, evaluation: Evaluation) -> dict[str, Any]:
    from everystep.training.policy import evaluation_file as training_evaluation

    return evaluated(training_evaluation.of(result, evaluation), result.spec["seed"])


def features_in_words(described: Mapping[str, Any]) -> str:
    """The features of a model, from how an encoder describes itself."""
    if not isinstance(described, Mapping):
        return str(described)
    if "kernel" in described:
        return f"the kernel {described['kernel']}"
    if described.get("kind") == "Crossed":
        return f"{features_in_words(described.get('psi', {}))} for each action"
    if described.get("kind") == "Mirrored":
        return f"{features_in_words(described.get('psi', {}))} for each pair of actions and their mirror images"
    if described.get("kind") == "Joint":
        return f"{features_in_words(described.get('own', {}))} of observation and action together"
    if described.get("kind") == "Joined" and isinstance(described.get("parts"), list | tuple):
        return " and ".join(features_in_words(each) for each in described["parts"])
    kind = str(described.get("kind"))
    return KINDS.get(kind, kind)


# --- in words ---------------------------------------------------------------------------------------------------------
def in_words(card: Mapping[str, Any]) -> str:
    """The card as Markdown."""
    trained, found = card["trained"], card["certificates"]
    features = card["features"]
    costs = "" if features["value"] == features["cost"] else f"; of the cost model: {features['cost']}"
    d = "" if card["d"] is None else f", {card['d']} numbers for each observation and action"
    settings = ", ".join(f"{key} {_plain(value)}" for key, value in card["settings"].items())
    lines = [
        f"# Policy for {card['environment']}",
        "",
        "| | |",
        "|---|---|",
        f"| environment | {_cell(card['environment'])} |",
        f"| constraint | {_cell(_constraint(card))}, safe at every step iff <= 0 |",
        f"| agent | {card['agent']} |",
        f"| settings | {_cell(settings)} |",
        f"| features | {_cell(features['value'])}{d}{_cell(costs)} |",
        f"| plans | look {card['horizon']} steps ahead, in episodes of up to {card['length']} |",
        f"| seed | {card['seed']} |",
        f"| versions | {', '.join(f'{name} {number}' for name, number in card['versions'].items())} |",
        "",
        "## Training",
        "",
        f"- {trained['episodes']:,} episodes, {trained['steps']:,} steps",
        f"- harm done while it learnt: total violation {tables.number(trained['violation'])} (the sum of max(g, 0) "
        f"over steps), {trained['unsafe_steps']:,} unsafe steps",
        *(
            f"- of constraint {name.removeprefix('violation_')}: {tables.number(value)}"
            for name, value in trained.items()
            if name.startswith("violation_")
        ),
        *(
            [
                f"- mean return {tables.number(trained['return_at_the_end'])} in the last {trained['last_episodes']} "
                "episodes, while it explored"
            ]
            if trained["last_episodes"]
            else []
        ),
        "",
        "## Evaluation",
        "",
        _evaluation(card["evaluation"]),
        "",
        "## Certificates",
        "",
        _certificates(found),
        "",
        "## Use",
        "",
        "```python",
        "import everystep as es",
        "",
        f'policy = es.Policy.load("policy"{_functions(features)})  # this folder; its checksums are verified',
        "action = policy(observation, step=t)  # t counts the steps of the episode from 1, as in an evaluation",
        "labels = policy.certify(observation)  # for each action 1 (safe), -1 (unsafe) or 0 (unknown)",
        "```",
    ]
    if card["remarks"]:
        lines += ["", "## Remarks", "", *(f"- {remark}" for remark in card["remarks"])]
    return "\n".join(lines) + "\n"


def _functions(features: Mapping[str, str]) -> str:
    """The arguments by which custom feature functions, which are not saved, are passed again."""
    custom = KINDS["CustomFeatures"]
    names = {"features": features["value"], "cost_features": features["cost"]}
    return "".join(f", {name}={name}" for name, words in names.items() if custom in words)


def _plain(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _cell(text: str) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")


def _constraint(card: Mapping[str, Any]) -> str:
    n, given = card["constraints"], f"`{card['constraint']}`" if card["constraint"] else "not recorded"
    return given if n == 1 else f"{given} ({n} numbers)"


def _evaluation(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "None was made: `everystep evaluate`, or es.evaluate, plays the policy without exploration."
    interval = lambda name: "{} [{}, {}]".format(*map(tables.number, found[name]))
    return (
        f"{found['episodes']} episodes without exploration: return {interval('return')}, violation "
        f"{interval('violation')} per episode, with 95 % bootstrap intervals over episodes; {found['unsafe_steps']} of "
        f"{found['steps']} steps were unsafe. Environment and constraint are those above; episode i began with "
        f"reset(seed={found['first_seed']} + i), i from 0 to {found['episodes'] - 1}, with "
        f"{', '.join(f'{name} {number}' for name, number in found['versions'].items())}."
    )


def certificates_in_words(spec: Mapping[str, Any], optimism: float) -> str:
    """What a label is worth, and which estimates are used for what, in a few sentences."""
    return _certificates(certificates(spec, optimism))


def _certificates(found: Mapping[str, Any]) -> str:
    if found["guarantee"].startswith("none"):
        return "This agent does not look at costs, so it certifies nothing: every label is 0 (unknown)."
    if found["proved"]:
        worth = (
            f"The radius of the cost intervals is that of the paper ({found['radius']}): {found['guarantee']}. Where "
            "these assumptions do not hold, neither do the labels."
        )
    else:
        worth = (
            f"The radius of the cost intervals is {found['radius']}, not proved: a label says what the estimates say, "
            "without a probability. Treat labels as advice, and evaluate the policy before it is used."
        )
    return (
        f"{worth} Actions are chosen by {_estimate(found['optimism'])} (optimism {found['optimism']:g}); labels use "
        "both ends of the interval, and are 0 (unknown) outside of the observations at which the policy has acted; a "
        "shield made from this policy counts the upper end."
    )


def _estimate(optimism: float) -> str:
    ends = {
        0.0: "the estimated cost itself",
        1.0: "the lower end of each cost interval",
        -1.0: "the upper end of each cost interval",
    }
    return ends.get(optimism, "a point of the cost interval between the estimate and an end")
