"""What a finding is: data, from which the notes of results and the lines of `diagnose()` are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Finding:
    """One problem of a training or a shield, and the setting to change.

    about      its kind, in one word
    sentence   the problem, in words
    setting    what to change
    numbers    the numbers of the sentence
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
    """All findings; printed as one line each.

    >>> env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
    >>> learner = es.Learner(env, "lsvi-ae", seed=0)
    >>> learner.play(3)
    >>> [each.about for each in learner.diagnose().findings]
    ['constraints']
    """

    findings: tuple[Finding, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings)) or "No problem was found."
