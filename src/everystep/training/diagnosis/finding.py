"""What was found about a training or a shield: records of data, whose sentences are notes and lines of `diagnose()`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Finding:
    """One thing that was found, and the setting to change.

    about      its kind, in one word
    sentence   what was found, from `numbers`
    setting    what to change
    numbers    what the sentence says, as data
    """

    about: str
    sentence: str
    setting: str
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def remark(self) -> str:
        """The finding as a note of a result."""
        return f"{self.sentence}: {self.setting}"

    def __str__(self) -> str:
        return f"{self.about}: {self.remark}"


@dataclass(frozen=True)
class Diagnosis:
    """All findings; printed as one line each."""

    findings: tuple[Finding, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings)) or "Nothing was found that stands in the way."
