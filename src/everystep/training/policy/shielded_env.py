"""An environment with a shield in front of it. See `shield.py`.

A learner inside the shield learns as it would from its own episodes: each when it ends, with the actions that were
played, and a row in its table. Two agents learn then, from the same steps.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, SupportsFloat

import gymnasium
import numpy as np

from everystep.environments.play import constraints
from everystep.environments.play.batch import BatchBuilder
from everystep.environments.play.rollout import observed_costs
from everystep.errors import EverystepError, real_number, true_or_false
from everystep.training.agent.contract import TrainingPlan
from everystep.training.policy.shield import Judged, Shield


class ShieldedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Replaces inadmissible actions.

    info    "shielded": whether the action was replaced; "asked" and "played": the action asked for, and that played
    """

    def __init__(self, env: gymnasium.Env[Any, Any], shield: Shield, learn: bool = True, price: float = 0.0) -> None:
        self.stage = shield.stage(env)
        super().__init__(env)
        self.shield, self.price = shield, real_number("price", price)
        self._learner = shield.learner if true_or_false("learn", learn) else None
        self._reacts = self._learner is not None and bool(self._learner.resolved["react"])
        self._builder = BatchBuilder()
        self._plan: TrainingPlan | None = None
        self._seen: object = None  # the observation as the environment gave it, for the constraint function
        self._x: np.ndarray | None = None  # the same as an array; None between episodes
        self._t = 0
        self._judged: Judged | None = None  # at this observation, once it is needed

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._learn_episode()  # one that was not played to its end
        observation, info = self.env.reset(seed=seed, options=options)
        self._plan, self._t = self.shield.plan(), 0
        self._arrive(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        x, asked = self._here(), self.shield.number_of(action)
        a = self._now().instead_of(asked)
        played = action if a == asked else self.shield.candidates.action(a)
        given = {"asked": self._given(asked, action), "played": self._given(a, played)}
        observation, reward, terminated, truncated, info = self.env.step(played)
        unsafe: bool | None
        if self._learner is not None:
            cost = self._add(x, a, given["played"], observation, reward, terminated, truncated, info)
            unsafe = bool((cost > 0).any())
        else:
            unsafe = constraints.unsafe_by_info(info)
        self._t += 1
        if terminated or truncated:
            self._x = None
            self._learn_episode()
        else:
            self._arrive(observation)
        info = {**info, "shielded": a != asked, **given}
        if a != asked and self.price:
            reward = float(reward) - self.price
        self.shield.record.add(a != asked, unsafe)
        return observation, reward, terminated, truncated, info

    def action_masks(self) -> np.ndarray:
        """(A,) booleans: the admissible actions, or the least harmful where none is."""
        self._here()
        return self._now().admissible.copy()

    def close(self) -> None:
        self._learn_episode()
        super().close()

    def _given(self, number: int, action: object) -> object:
        """What `info` holds of an action: its number, or the vector itself."""
        known = self.shield.candidates
        return known.action(number) if known.values is None else np.array(action)

    # --- inside ------------------------------------------------------------------------------------------------------
    def _here(self) -> np.ndarray:
        if self._x is None:
            raise EverystepError("the episode has not begun, or is over; call reset() first.")
        return self._x

    def _now(self) -> Judged:
        if self._judged is None:
            self._judged = self.shield.judged(self._plan, self._here(), self._t)
        return self._judged

    def _arrive(self, observation: object) -> None:
        self._x, self._judged = self.stage.array_of(observation), None
        if self._learner is not None and self.stage.constraint is not None:
            self._seen = copy.deepcopy(observation)  # environments reuse their arrays

    def _add(
        self,
        x: np.ndarray,
        a: int,
        played: object,
        observation: object,
        reward: SupportsFloat,
        terminated: bool,
        truncated: bool,
        info: Mapping[str, Any],
    ) -> np.ndarray:
        """Keep one step for the learner, with the number of its action and the action itself; its constraints."""
        assert self._learner is not None
        after, rewards, ended, _, infos = self.stage.single(observation, reward, terminated, truncated, info)
        cost, mean_cost = observed_costs(self.stage, self._seen, played, after[0], infos[0])
        self._builder.add(
            observation=x,
            action=a,
            reward=rewards[0],
            cost=cost,
            next_observation=self.stage.array_of(observation),
            terminated=bool(ended[0]),
            step=self._t,
            episode=self._learner.number,
            mean_cost=mean_cost,
        )
        if self._reacts and self._plan is not None:
            self._plan = self._plan.with_cost(self.shield.countdown(self._t), x[None], a, cost)
        return cost

    def _learn_episode(self) -> None:
        """Learn what was played since the last reset."""
        builder, self._builder = self._builder, BatchBuilder()
        if self._learner is not None and len(builder):
            self._learner.learn_played([builder])
