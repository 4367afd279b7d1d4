"""How well do networks predict what they have not learnt yet? Findings from the figures of `learnt/quality.py`.

model          the share of variance predicted in the second half of the steps, of changes, of the reward, of each g
imagined       the violation imagined after judged steps against what came, where far less was imagined
certificates   the share of steps labelled safe ahead after which the violation stayed within the tolerance
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import numpy as np

from everystep.environments.play import coordinate_names
from everystep.training.diagnosis.finding import Finding
from everystep.training.learnt.quality import COORDINATES, QualityFigures

if TYPE_CHECKING:
    from everystep.training.agent.contract import StepwiseAgent
    from everystep.training.learner import Learner

FEWEST_STEPS, FEWEST_JUDGED = 200, 30  # below which nothing is reported
FEWEST_LABELS = 20  # "safe ahead", below which they are no note of a result
LITTLE, HARDLY = 0.3, 0.1  # shares of variance predicted: of all changes or of g, and of one coordinate
TOO_LITTLE = 0.5  # of the violation that came, below which too little was imagined
LEAST = 10.0  # tolerances: a violation that counts
COVERED = 0.9  # of the labels "safe ahead", below which the notes of a result mention them
LISTED = 4  # coordinates


def figures(learner: Learner) -> QualityFigures | None:
    """None of an agent that does not learn at every step."""
    return cast("StepwiseAgent", learner.agent).figures() if learner.resolved.learns_at_every_step else None


def findings(learner: Learner) -> list[Finding]:
    """What is worth a note of the result."""
    found = figures(learner)
    if found is None or found["steps"][-1] < FEWEST_STEPS:
        return []
    labels = coverage(found)
    poor = labels is not None and _is_poor(labels)
    return [*_model(learner, found), *_imagined(found), *([labels] if poor and labels else [])]


def _is_poor(labels: Finding) -> bool:
    safe, kept = labels.numbers["safe"], labels.numbers["kept"]
    return safe >= FEWEST_LABELS and kept < COVERED * safe


def certificates(learner: Learner) -> Iterator[Finding]:
    """What labels were worth, for `diagnose`, unless it is among the findings already."""
    found = figures(learner)
    labels = None if found is None else coverage(found)
    if labels is not None and labels not in findings(learner):
        yield labels


def _model(learner: Learner, found: QualityFigures) -> Iterator[Finding]:
    o = learner.resolved.environment.coordinates
    *changes, _ = late = np.array(found["late"][: min(o, COORDINATES)] + [None], float)
    known = np.isfinite(changes)
    if known.any() and (share := float(np.array(changes)[known].mean())) < LITTLE:
        names = coordinate_names.of_coordinates(learner.name, o)
        worst = [names[j] for j in np.argsort(changes) if late[j] < HARDLY][:LISTED]
        listed = f"; least of {', '.join(worst)}" if worst else ""
        yield Finding(
            "model",
            f"the networks predict {share:.0%} of the variance of the changes of the observation in the second half of "
            f"the steps{listed}",
            "unless the environment is that random, add to the observation what its next one depends on, such as "
            "velocities, the last action or the time",
            {"share": share},
        )
    called = getattr(learner.agent, "limit_agrees", False)
    for i, g in enumerate([] if called else found["late"][min(o, COORDINATES) + 1 :], 1):
        if g is not None and g < LITTLE:
            which = "the constraint" if len(found["constraints"]) == 1 else f"constraint {i}"
            yield Finding(
                "model",
                f"the networks predict {g:.0%} of the variance of {which} in the second half of the steps",
                "write the constraint as a function of observations, which is then called on imagined steps; or add "
                "to the observation what it depends on",
                {"share": g},
            )


def _imagined(found: QualityFigures) -> list[Finding]:
    """Far less violation imagined than what came."""
    bins = np.array(found["violations"], float).reshape(-1, 3)
    count = bins[:, 2].sum()
    if count < FEWEST_JUDGED:
        return []
    imagined, came = (float(bins[:, i] @ bins[:, 2] / count) for i in (0, 1))
    if came <= LEAST * found["tolerance"] or imagined >= TOO_LITTLE * came:
        return []
    return [
        Finding(
            "imagined",
            f"the violation that followed was {_times(came, imagined)} the imagined one, after {count:,.0f} steps "
            f"judged before they were played ({imagined:.2g} and {came:.2g} of the largest |g|)",
            "train for longer, or be more careful with optimism=-1",
            {"imagined": imagined, "came": came, "judged": float(count)},
        )
    ]


def _times(came: float, imagined: float) -> str:
    return f"{came / imagined:.2g} times" if imagined > 0 and math.isfinite(came / imagined) else "not"


def coverage(found: QualityFigures) -> Finding | None:
    """How many of the labels "safe ahead" held; None if too few steps were judged."""
    (safe, kept), (unsafe, fine) = found["labels"]["safe"], found["labels"]["unsafe"]
    judged = sum(count for count, _ in found["labels"].values())
    if judged < FEWEST_JUDGED:
        return None
    share = f"{kept:,} of {safe:,} heuristic labels safe ahead, given before the step was played, held"
    words = f"{share} ({kept / safe:.1%})" if safe else f"none of {judged:,} judged steps was labelled safe ahead"
    other = f", and {unsafe - fine:,} of {unsafe:,} labels unsafe ahead{'' if safe else ' held'}" if unsafe else ""
    return Finding(
        "certificates",
        f"in the second half of the steps {words}{other}",
        "rely on labels no further than this, and let es.evaluate judge the policy",
        {"safe": safe, "kept": kept, "unsafe": unsafe, "unsafe_kept": unsafe - fine},
    )
