"""What a shield did: how many actions it replaced, and whether that helped. Judged once in WINDOW steps, and said once.

replaced     another action was played than the one that was asked for
unsafe       some g_i > 0 in that step; known if a learner learns the step, or if info has the constraint
all          nearly all actions are replaced: the other agent decides nothing, and cannot learn what it asks for
no effect    steps with a replaced action are unsafe as often as the others, and often: what is played instead
             does not help, because the guide does not know better, or because it is too late by then
"""

from __future__ import annotations

import warnings

from everystep.training.diagnosis.finding import Finding

WINDOW = 500  # steps
NEARLY_ALL = 0.9  # of the actions
FEWEST_REPLACED = 50  # actions below which nothing is said about their effect
OFTEN = 0.5  # share of them that are unsafe: actions are replaced where it is dangerous, so some will be


class ShieldWarning(UserWarning):
    """A shield that stands in the way, or that does not help."""


class ShieldRecord:
    """The steps of all environments that a shield wraps, in windows."""

    def __init__(self, looks_ahead: bool, learns: bool) -> None:
        self._looks_ahead, self._learns = looks_ahead, learns
        self._found: dict[str, Finding] = {}  # the newest of each kind
        self._begin()

    def _begin(self) -> None:
        self.steps = self.replaced = self.known = self.known_replaced = self.unsafe = self.unsafe_replaced = 0

    def add(self, replaced: bool, unsafe: bool | None) -> None:
        """One step; `unsafe` is None where this is not known."""
        self.steps, self.replaced = self.steps + 1, self.replaced + replaced
        if unsafe is not None:
            self.known, self.known_replaced = self.known + 1, self.known_replaced + replaced
            self.unsafe, self.unsafe_replaced = self.unsafe + unsafe, self.unsafe_replaced + (unsafe and replaced)
        if self.steps == WINDOW:
            self._judge()
            self._begin()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The newest of each kind."""
        return tuple(self._found.values())

    def _judge(self) -> None:
        for found in (self._about_effect(), self._about_all()):
            if found is not None:
                if found.about not in self._found:
                    warnings.warn(f"shield: {found.remark}.", ShieldWarning, stacklevel=4)
                self._found[found.about] = found

    def _about_effect(self) -> Finding | None:
        kept, unsafe_kept = self.known - self.known_replaced, self.unsafe - self.unsafe_replaced
        if self.known_replaced < FEWEST_REPLACED or self.unsafe_replaced < OFTEN * self.known_replaced:
            return None
        if self.unsafe_replaced * kept < unsafe_kept * self.known_replaced:  # less often than the others
            return None
        others = f", and {unsafe_kept} of the {kept} others" if kept else ""
        cure = (
            "train the guide for longer" if self._looks_ahead else "take lsvi-ahead, which acts earlier, as the guide"
        )
        return Finding(
            "effect",
            f"of the last {self.known} steps {self.known_replaced} had their action replaced, and "
            f"{self.unsafe_replaced} of these were unsafe{others}: replacing does not help",
            f"{cure}; es.check_constraint tells whether the constraint can be kept",
            {
                "steps": self.known,
                "replaced": self.known_replaced,
                "unsafe_replaced": self.unsafe_replaced,
                "unsafe_kept": unsafe_kept,
            },
        )

    def _about_all(self) -> Finding | None:
        if self.replaced < NEARLY_ALL * self.steps:
            return None
        cautious = "" if self._learns else "; or optimism=0, if the guide knows too little to call anything safe"
        return Finding(
            "replaced",
            f"{self.replaced} of the last {self.steps} actions were replaced, so that the other agent decides almost "
            "nothing",
            "raise tolerance, or let the other agent see what is admissible, by action_masks() or by the price of wrap"
            f"{cautious}",
            {"steps": self.steps, "replaced": self.replaced},
        )
