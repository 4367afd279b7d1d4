"""Shields: what was learnt here decides which actions another agent may take (docs/shields.md).

An action is admissible where its harm is estimated to be at most the tolerance,

    harm(x, a) = max_i ghat_i(x, a)                            the worst constraint of this step
              or Ghat(x, a) = sum_i w_i [ghat_i]_+ + Phat C     of an agent that looks ahead: all that follows, too
    ghat = mean - optimism * width                              -1: upper end, 0: middle, 1: lower end; Phat C likewise

An inadmissible action is replaced by the admissible one with the highest Q of the plan. Where none is admissible, the
least harmful ones are: those of least harm(x, a), and of least harm by the middle among these.

Outside of what the guide has seen (`observed.py`) its intervals say nothing: the upper end is infinite, so no action is
admissible by it, and the least harmful by the middle are played; the middle counts as it is.

A finding is made from each WINDOW of steps, and a warning is issued once: if nearly all actions are replaced, or if
steps with a replaced action are unsafe as often as the others, and often. Whether a step is unsafe (some g_i > 0) is
known if a learner learns it, or if info has the constraint.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from everystep.environments.play.constraints import Constraint
from everystep.environments.play.making import made
from everystep.environments.play.rollout import Stage
from everystep.environments.protocols import AnyEnv, Env, Space
from everystep.errors import EverystepError, check_type, real_number, shown, whole_number
from everystep.features.spaces import Coordinates, flatten
from everystep.lsvi.choices.ties import TIE
from everystep.training.agent.contract import TrainingAgent, TrainingPlan
from everystep.training.diagnosis import played
from everystep.training.diagnosis.finding import Diagnosis, Finding
from everystep.training.learner import Learner
from everystep.training.policy.policy import Policy

if TYPE_CHECKING:
    import gymnasium

    from everystep.training.policy.shielded_env import ShieldedEnv


WINDOW = 500  # steps
NEARLY_ALL = 0.9  # of the actions
FEWEST_REPLACED = 50  # replaced actions below which their effect is not judged
OFTEN = 0.5  # share of them that are unsafe: actions are replaced where it is dangerous, so some will be


class Judged(NamedTuple):
    """The actions at one observation, each (A,): whether it may be taken, its estimated harm, its value."""

    admissible: np.ndarray
    harm: np.ndarray
    Q: np.ndarray

    def instead_of(self, a: int) -> int:
        """`a` if it is admissible, else the best that is; of equal values the least harmful."""
        if self.admissible[a]:
            return a
        best = np.flatnonzero(_least(np.where(self.admissible, -self.Q, np.inf)))
        return int(best[self.harm[best].argmin()])


def judged(
    plan: TrainingPlan, h: int, x: np.ndarray, optimism: float, tolerance: float, was_seen: bool = True
) -> Judged:
    """The actions at one observation (1, ...), by step h of a plan; outside of what was seen intervals have no ends."""
    found = plan.estimates(h, x)
    worst = plan.harm(found, optimism)[:, 0]
    if not was_seen and optimism != 0:
        worst = np.full_like(worst, -optimism * np.inf)
    admissible = worst <= tolerance
    if not admissible.any():
        admissible = _least(np.where(_least(worst), plan.harm(found, 0.0)[:, 0], np.inf))
    return Judged(admissible, worst, found.Q[:, 0])


def _least(numbers: np.ndarray) -> np.ndarray:
    """Which of them are the least, up to rounding."""
    least = numbers.min()
    return np.asarray(numbers <= least + TIE * max(abs(least), 1.0))


class Shield:
    """Which actions may be taken, by a policy or by a learner. `es.shield` makes it.

    >>> env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
    >>> shield = es.shield(es.train(env, episodes=5, seed=0).policy)
    >>> bool(shield.admissible(0)[shield(0, 1)]), shield.number_of(1), shield.constraint
    (True, 1, None)
    >>> shielded = shield.wrap(env, price=1.0)
    >>> x, info = shielded.reset(seed=0)
    >>> shielded.action_masks().shape, shielded.step(2)[4]["played"] in range(4)
    ((4,), True)
    >>> print(shield.diagnose())
    No problem was found.
    """

    def __init__(self, guide: Policy | Learner, tolerance: float | None = None, optimism: float | None = None) -> None:
        check_type("the guide of a shield", guide, (Policy, Learner), "a policy or an es.Learner")
        self.policy = guide if isinstance(guide, Policy) else None
        self.learner = guide if isinstance(guide, Learner) else None
        if self.policy is not None:
            self.candidates, self.countdown = self.policy.candidates, self.policy.countdown
            has_costs, usual = self.policy.plan.has_costs, -1.0
            ahead = self.policy.plan.ahead is not None
        else:
            assert self.learner is not None
            self.candidates, self.countdown = self.learner.stage.candidates, self.learner.resolved.countdown
            has_costs, usual = self.learner.resolved.has_costs, 0.0
            about = self.learner.recipe.definition
            ahead = about.networks or "harm" in about.settings
        if not has_costs:
            raise EverystepError("the guide of a shield never learns costs; train lsvi-ae or lsvi-ahead instead.")
        self.optimism = usual if optimism is None else real_number("optimism", optimism, -1, 1)
        infinite = isinstance(tolerance, float) and tolerance == math.inf
        self._tolerance = None if tolerance is None else tolerance if infinite else real_number("tolerance", tolerance)
        self._plan = None if self.policy is None else self.policy.plan
        self.record = ShieldRecord(ahead, learns=self.learner is not None)
        self._planned_by: tuple[TrainingAgent, int] | None = None  # and its count of episodes then

    @property
    def constraint(self) -> Constraint | None:
        return None if self.learner is None else self.learner.stage.constraint

    def diagnose(self) -> Diagnosis:
        """Whether it replaced nearly all actions, or without effect, or its learner saw no decline of violations."""
        found = self.record.findings
        if self.learner is not None:
            declines = played.violation_trend(self.learner.columns, "learner.diagnose() names the settings to change")
            found = found if declines is None else (*found, declines)
        return Diagnosis(found)

    def plan(self) -> TrainingPlan | None:
        """The plan in force; None while a learner has none. A learner plans again by its own rule."""
        learner = self.learner
        if learner is None:
            return self._plan
        agent = learner.agent
        if agent is None or (learner.automatic is not None and learner.automatic.looking):
            return None
        if self._planned_by != (now := (agent, agent.episode)):
            self._plan = agent.plan(without_exploration=self.optimism)
            self._planned_by = now
        return self._plan

    def tolerance(self, plan: TrainingPlan) -> float:
        """As given, or that of the agent."""
        if self._tolerance is not None:
            return self._tolerance
        if plan.ahead is None:
            return 0.0
        return float(plan.in_units(np.full((1, 1, 1), plan.ahead.tolerance)).max())

    def judged(self, plan: TrainingPlan | None, x: np.ndarray, step: int) -> Judged:
        """The actions at an observation as an array, at a step of an episode counted from 0.

        Without a plan all are equally unknown, so all are admissible.
        """
        if plan is None:
            nothing = np.zeros(len(self.candidates))
            return Judged(nothing == 0, nothing, nothing)
        guide = self.policy or self.learner
        assert guide is not None
        was_seen = bool(guide.observed.holds(x[None])[0])
        return judged(plan, self.countdown(step), x[None], self.optimism, self.tolerance(plan), was_seen)

    # --- plain functions ---------------------------------------------------------------------------------------------
    def __call__(self, observation: object, action: object, step: int = 1) -> Any:
        """`action` itself if it is admissible, else the best action that is. `step` counts from 1."""
        a = self.number_of(action)
        chosen = self._judged(observation, step).instead_of(a)
        return action if chosen == a else self.candidates.action(chosen)

    def admissible(self, observation: object, step: int = 1) -> np.ndarray:
        """(A,) booleans, at least one of them True."""
        return self._judged(observation, step).admissible

    def _judged(self, observation: object, step: int) -> Judged:
        return self.judged(self.plan(), flatten(observation), whole_number("step", step) - 1)

    def number_of(self, action: object) -> int:
        """An action of the environment, counted from 0; where actions are vectors, the nearest of the candidates."""
        return self.candidates.number_of(action)

    # --- environments ------------------------------------------------------------------------------------------------
    def wrap(self, env: Env | str, learn: bool = True, price: float = 0.0) -> ShieldedEnv:
        """The environment with the shield in front of it. With `learn` a learner learns every episode that ends.

        `price` is subtracted from the reward of the other agent whenever its action is replaced, so that it learns not
        to rely on the shield; the learner sees the reward itself.
        """
        from everystep.training.policy.shielded_env import ShieldedEnv

        return ShieldedEnv(cast("gymnasium.Env[Any, Any]", made(env)), self, learn, price)

    def stage(self, env: AnyEnv) -> Stage:
        """What reads the steps of `env`, or the error if the guide was trained in another one."""
        known = self.candidates
        stage = Stage(env, self.constraint, 0, actions=None if known.values is None else known)
        if stage.is_vector:
            raise EverystepError(f"env is {shown(env)}; shield each environment before they are put into a vector.")
        known.check_same(stage.candidates, "the shield")
        if not self._takes(stage.observation_space):
            raise EverystepError(
                f"env has observations {shown(stage.observation_space)}, which are not those of the shield; give the "
                "environment that it was trained in, and put wrappers that change observations around the shield."
            )
        return stage

    def _takes(self, space: Space) -> bool:
        if self.learner is not None:
            return bool(space == self.learner.stage.observation_space)
        assert self.policy is not None
        ends = Coordinates.of(space)
        rows = np.stack([ends.low, ends.high]) if ends.sizes is not None else np.zeros((1, len(ends.low)))
        rows = rows[:, 0].astype(np.int64) if ends.single else rows
        try:
            self.policy.plan.estimates(0, rows)
        except EverystepError:
            return False
        return True


# --- what it did ------------------------------------------------------------------------------------------------------
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


def shield(guide: Policy | Learner, tolerance: float | None = None, optimism: float | None = None) -> Shield:
    """A shield for another agent: it replaces actions whose estimated harm is above the tolerance.

    guide      a policy, or a Learner, which learns from every episode that is played in a wrapped environment
    tolerance  the largest harm that is admitted, in the unit of the constraint; inf admits everything; None: that of
               the agent if it looks ahead, else 0
    optimism   which end of the estimates counts: -1 the upper, 0 the middle, 1 the lower; None: -1 of a policy, which
               learns nothing more, and 0 of a learner: by the upper end it would admit what it knows alone, and never
               see anything else

    >>> env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
    >>> shield = es.shield(es.Learner(env, "lsvi-ae"), tolerance=0.1)
    >>> shield.admissible(0).tolist()
    [True, True, True, True]
    """
    return Shield(guide, tolerance, optimism)
