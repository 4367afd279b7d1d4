"""The form of the spec of a training, in spec.json and in policy.json: checked once, before anything in it is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from everystep.errors import LARGEST
from everystep.files import forms
from everystep.files.forms import COUNT, NUMBER, POSITIVE, PROBABILITY, Each, Maybe


def WHOLE(content: object) -> bool:
    """A whole number from 1 to 2^31 - 1."""
    return isinstance(content, int) and POSITIVE(content) and content <= LARGEST


SPEC = {
    **dict.fromkeys(("environment", "agent", "guarantee"), str),
    **dict.fromkeys(("settings", "value", "cost"), dict),
    **dict.fromkeys(("horizon", "length", "constraints"), WHOLE),
    **{"d": Maybe(WHOLE), "confidence": Maybe(PROBABILITY), "versions": Each(str)},
}
FIT = ("episodes", "steps", "error", "unsafe", "believed_safe", "without_safe_action")
NUMBERS = [Maybe(NUMBER)]
CURVES = dict.fromkeys(("error", "spread", "share"), NUMBERS)
IMAGINED = {"count": [COUNT], "imagined": NUMBERS, "came": NUMBERS}
LEARNT = {  # learnt/quality.py
    **{"random": COUNT, "steps": [COUNT], "horizons": [COUNT], "tolerance": NUMBER, "late": NUMBERS},
    **{"observation": CURVES, "reward": CURVES, "constraints": [CURVES]},
    **{"returned": IMAGINED, "violated": IMAGINED, "violations": [[NUMBER]]},
    "labels": {name: [COUNT] for name in ("safe", "unknown", "unsafe")},
}
FOUND = {  # what was found (diagnosis/record.py)
    "remarks?": [str],
    "fit?": Maybe({**dict.fromkeys(FIT, NUMBER), "examples": [[NUMBER]]}),
    "learnt?": Maybe(LEARNT),
    "seen?": Maybe({end: [NUMBER] for end in ("low", "median", "high")}),
    "constraint?": Maybe(str),
}
# What a policy does not use may be missing: it may be older than the training's spec.json is now.
USED = ("guarantee", "horizon", "length")
POLICY = {(name if name in USED else f"{name}?"): form for name, form in SPEC.items()} | {"first_action": int}


def fault_of_found(found: object, where: str) -> str | None:
    """Where what was found does not have its form; curves have a number for each of their steps."""
    wrong = forms.fault(found, FOUND, where)
    learnt = None if wrong or not isinstance(found, dict) else found.get("learnt")
    if learnt is None:
        return wrong
    curves = [learnt["observation"], learnt["reward"], *learnt["constraints"], learnt["returned"], learnt["violated"]]
    lines = [values for each in curves for values in each.values()]
    rightly = all(len(values) == len(learnt["steps"]) for values in lines) and bool(
        learnt["steps"] and learnt["horizons"]
    )
    rightly = rightly and all(len(each) == 3 for each in learnt["violations"])
    rightly = rightly and all(len(each) == 2 and each[1] <= each[0] for each in learnt["labels"].values())
    return None if rightly else f"{where}.learnt"


def fault(spec: Mapping[str, Any], of_policy: bool = False) -> str | None:
    """Where a spec does not have its form; None if it has."""
    if found := forms.fault(spec, POLICY if of_policy else SPEC):
        return found
    return "horizon" if spec["horizon"] > spec["length"] else None
