"""What a training needs of an agent, however the agent learns: contracts of its settings, of the agent and of a plan.

`Learner`, policies, shields, checks, cards and checkpoints use these members alone. Agents that learn by least squares
over stored transitions meet them as `ResolvedForTraining`, `StoredAgent` and `ActingPlan`.

Shapes: n observations, A actions, m constraints. Steps h of a plan count from 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from everystep.environments.play.batch import Batch
from everystep.environments.play.rollout import Transition
from everystep.lsvi.ahead import HarmToGo
from everystep.training.agent.acting import Estimates
from everystep.training.agent.countdown import Countdown
from everystep.training.agent.encoders import Encoder
from everystep.training.agent.resolve import EnvironmentInfo

if TYPE_CHECKING:
    from everystep.training.learnt.quality import QualityFigures


class TrainingPlan(Protocol):
    """A plan that acts, estimates and certifies at any observation, in NumPy. It never changes."""

    @property
    def horizon(self) -> int:
        """H, the number of its steps."""

    @property
    def actions(self) -> int:
        """A."""

    @property
    def value_encoder(self) -> Encoder:
        """How the model of values represents observations."""

    @property
    def cost_encoder(self) -> Encoder:
        """How the model of costs represents observations."""

    @property
    def has_costs(self) -> bool:
        """Whether it estimates costs."""

    @property
    def optimism(self) -> float:
        """The end of the cost intervals that its choices use: 1 the lower, 0 the middle, -1 the upper."""

    @property
    def ahead(self) -> HarmToGo | None:
        """How harm is counted, if the agent looks ahead."""

    def in_units(self, costs: np.ndarray) -> np.ndarray:
        """Estimates (m, A, n), or harm (1, A, n), in the units of the constraints."""

    def estimates(self, h: int, observations: np.ndarray) -> Estimates:
        """Values and cost intervals, on the scale on which costs are learnt."""

    def cost_intervals(self, h: int, observations: np.ndarray, widths: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Centre and half width of every cost interval (m, A, n), in the units of the constraints.

        Without `widths` the half widths may be anything: computing them takes most of the time.
        """

    def harm(self, found: Estimates, optimism: float) -> np.ndarray:
        """(A, n): the worst cost of each action, or the harm it leads to if the agent looks ahead, in units."""

    def ends(self, found: Estimates, optimism: float) -> np.ndarray:
        """One end of every cost interval (m, A, n), in units; of harm less tolerance (1, A, n) if it looks ahead."""

    def bounds(self, h: int, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The lower and the upper ends."""

    def labels(self, h: int, observations: np.ndarray) -> np.ndarray:
        """(n, A): 1 for actions certified safe, -1 for certified unsafe, 0 for unknown."""

    def best(self, h: int, observations: np.ndarray) -> np.ndarray:
        """(A, n): the actions with the highest score, up to rounding."""

    def choose(self, h: int, observations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """An action for each observation; `rng` breaks ties."""

    def with_cost(self, h: int, observation: np.ndarray, a: int, cost: np.ndarray) -> TrainingPlan:
        """The same plan after one more observed cost (m,) of action a, for agents that react within an episode."""

    def to_json(self) -> Mapping[str, Any]:
        """Everything but the arrays, ready for JSON."""

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays, by name."""


class TrainingAgent(Protocol):
    """What an agent has learnt so far, and its plan in force. It knows no environment."""

    rng: np.random.Generator
    plans: int  # made so far

    @property
    def constraints(self) -> int:
        """m."""

    @property
    def episode(self) -> int:
        """The number of the coming episode, from 1."""

    @property
    def plan_in_force(self) -> TrainingPlan | None: ...
    @property
    def rewards(self) -> np.ndarray:
        """All rewards that were learnt."""

    @property
    def rewards_seen(self) -> tuple[float, float]:
        """The lowest and the highest of them."""

    @property
    def reward_scale(self) -> tuple[float, float]:
        """The rewards that are scaled to 0 and to 1."""

    @property
    def cost_scale(self) -> np.ndarray:
        """(m,): what costs are divided by before they are learnt; 0 while all were 0."""

    @property
    def observations(self) -> np.ndarray:
        """(n, ...): some observations, at which checks ask for estimates."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader of the results should know about the models, one sentence each."""

    def learn(self, batch: Batch) -> None:
        """Learn from whole or truncated episodes; logged episodes count like its own."""

    def plan(self, without_exploration: float | None = None) -> TrainingPlan:
        """The plan of the coming episode: the one in force, or a new one if it is time.

        A new plan explores, or is one without exploration with this optimism.
        """

    def plan_without_exploration(self, optimism: float = 0.0) -> TrainingPlan:
        """A plan without the bonus on values, whose costs and harm ahead are mean - optimism * width."""

    def plan_of_least_harm(self) -> TrainingPlan | None:
        """The same by the least harm in every step; None if it does not look ahead."""

    def saved(self, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        """Everything that decides how training continues, ready for JSON; its arrays are added to `arrays`."""

    def restore(self, content: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Take over what `saved` returned. Raises KeyError, TypeError or ValueError if it is not that."""


class StepwiseAgent(TrainingAgent, Protocol):
    """An agent that learns at every step. `plan_in_force` is the plan that an episode began with."""

    def observe(self, step: Transition) -> None:
        """Learn a step as it happens; `learn` does not learn it again when its episode is over."""

    def newest(self, optimism: float | None = None) -> TrainingPlan:
        """The plan to act by now; with an optimism, without exploration."""

    def figures(self) -> QualityFigures | None:
        """How well it predicts what it has not learnt yet; None if it predicted nothing."""


class TrainingSettings(Protocol):
    """The settings of an agent, with every `auto` decided for an environment."""

    @property
    def values(self) -> Mapping[str, Any]:
        """All settings, by name."""

    @property
    def environment(self) -> EnvironmentInfo: ...
    @property
    def value(self) -> Encoder:
        """How the model of values represents observations."""

    @property
    def cost(self) -> Encoder:
        """How the model of costs represents observations; the same object as `value` if they are the same."""

    @property
    def steps(self) -> int:
        """T, the number of estimators of each kind: 1, or one for each step of a plan."""

    @property
    def has_costs(self) -> bool:
        """Whether the agent looks at costs at all."""

    @property
    def learns_at_every_step(self) -> bool:
        """Whether it is a `StepwiseAgent`."""

    @property
    def confidence(self) -> float | None:
        """p if all cost intervals hold with probability 1 - p; None if they are a heuristic."""

    @property
    def guarantee(self) -> str:
        """What certificates guarantee, in a sentence."""

    @property
    def countdown(self) -> Countdown:
        """Which step of a plan is used at which step of an episode."""

    def __getitem__(self, setting: str) -> Any: ...
    def to_json(self) -> dict[str, Any]:
        """The settings, ready for JSON."""

    def agent(self, constraints: int, seed: int) -> TrainingAgent:
        """A new agent, once the number of constraints is known."""
