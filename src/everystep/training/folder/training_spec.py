"""The form of the spec of a training, in spec.json and in policy.json: checked once, before anything in it is used."""

from __future__ import annotations

from typing import Any

from everystep.errors import LARGEST
from everystep.files import forms
from everystep.files.forms import POSITIVE, PROBABILITY, Each, Maybe


def WHOLE(content: Any) -> bool:
    """A whole number from 1 to 2^31 - 1."""
    return POSITIVE(content) and content <= LARGEST


SPEC = {
    **dict.fromkeys(("environment", "agent", "guarantee"), str),
    **dict.fromkeys(("settings", "value", "cost"), dict),
    **dict.fromkeys(("horizon", "length", "constraints"), WHOLE),
    **{"d": Maybe(WHOLE), "confidence": Maybe(PROBABILITY), "versions": Each(str)},
}
# A policy may be older than the training's spec.json is now: what it does not use may be missing.
USED = ("guarantee", "horizon", "length")
POLICY = {(name if name in USED else f"{name}?"): form for name, form in SPEC.items()} | {"first_action": int}


def fault(spec: Any, of_policy: bool = False) -> str | None:
    """Where a spec does not have its form; None if it has."""
    if found := forms.fault(spec, POLICY if of_policy else SPEC):
        return found
    return "horizon" if spec["horizon"] > spec["length"] else None
