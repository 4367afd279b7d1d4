"""A trained policy: acts on observations, certifies actions, and is saved as a folder of JSON and plain arrays.

    policy = result.policy                 action = policy(obs, step=t)        labels = policy.certify(obs)
    policy.save("out/mine")                policy = everystep.Policy.load("out/mine")
    actions = policy.batch(observations)   actions, state = policy.predict(observations, state, episode_start)

Nothing is pickled. A custom feature function is not saved; pass it again when loading.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from everystep import files
from everystep.environments.play.action_sets import Candidates
from everystep.errors import (
    UNLIKE,
    EverystepError,
    path_from,
    shown,
    whole_number,
)
from everystep.features.spaces import flatten
from everystep.files import store
from everystep.training.agent import plan_files
from everystep.training.agent.acting import SIDE, PlanJson
from everystep.training.agent.contract import TrainingPlan
from everystep.training.agent.countdown import Countdown
from everystep.training.agent.encoders import RawEncoder, encoder_from_json
from everystep.training.folder import training_spec
from everystep.training.learnt.plan import LearntPlan
from everystep.training.policy.observed import Observed

ROWS = 1000  # observations that are encoded together
FORMAT = 1
CARD = "CARD.md"  # beside policy.json (card.py)
ARRAYS = (*plan_files.NAMES, "actions", "seen_")  # how the names of its arrays begin


@dataclass(frozen=True)
class Policy:
    """What an agent has learnt, frozen.

    plan      its last plan, without exploration
    spec      how it was made, ready for JSON: settings, environment, the guarantee of its certificates
    observed  what its observations look like, and where it has taken actions: elsewhere it certifies nothing
    chosen    the actions that it chooses among, where the action space is no list of numbers

    Its choices use the estimated costs themselves (`plan.optimism` 0, unless `Learner.policy` was given another), its
    labels both ends of their intervals.

    >>> env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
    >>> policy = es.train(env, episodes=5, seed=0).policy
    >>> policy(0), policy.batch([0, 1]).shape
    (2, (2,))
    >>> policy.certify(0).shape, [end.shape for end in policy.bounds(0)]
    ((4,), [(1, 4), (1, 4)])
    >>> policy.countdown, policy.labels(np.array([0, 1])).shape
    (Countdown(length=4, horizon=4), (2, 4))
    >>> policy.confidence
    'heuristic: widths are tuned, and carry no probability'
    >>> len(policy.candidates), policy.numbers(np.array([0, 1])).shape
    (4, (2,))
    """

    plan: TrainingPlan
    spec: dict[str, Any]
    observed: Observed
    chosen: Candidates | None = None

    def __call__(self, observation: object, step: int = 1) -> Any:
        """The action for one observation at a step of the episode, counted from 1. See `countdown`.

        Without `step` it is that of the first step, which is played for as long as an episode is not about to end.
        """
        return self.candidates.action(self._numbers(self._h(step), self._row(observation))[0])

    @property
    def countdown(self) -> Countdown:
        """Which step of the plan is used at which step of an episode: the rule of `es.evaluate` and of training."""
        return Countdown(self.spec["length"], self.spec["horizon"])

    @property
    def candidates(self) -> Candidates:
        """The actions that it chooses among, by number."""
        return self.chosen or Candidates(self.plan.actions, self.spec["first_action"])

    def numbers(self, x: np.ndarray, step: int = 1) -> np.ndarray:
        """The numbers of the actions (n,), from 0, for observations as arrays (n, ...)."""
        return self._numbers(self._h(step), x)

    def batch(self, observations: Iterable[object], step: int = 1) -> np.ndarray:
        """The action for each of several observations, (n, ...): a sequence of them, or an array of shape (n, ...)."""
        h = self._h(step)
        try:
            rows = [flatten(each) for each in observations]
        except TypeError:
            raise EverystepError(
                f"observations are {shown(observations)}; give a sequence, or an array with one in each row."
            ) from None
        if len({row.shape for row in rows}) > 1:
            raise EverystepError("the observations have different shapes; give those of one environment.")
        chosen = self._numbers(h, np.stack(rows)) if rows else np.empty(0, np.int64)
        return self.candidates.several(chosen)

    def predict(
        self,
        observation: object,
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: object = None,
        deterministic: bool = True,
    ) -> tuple[Any, tuple[np.ndarray, ...]]:
        """The action, or the actions of a batch, and the state for the next call, as stable-baselines3 calls policies.

        observation     one, or a batch as a vector environment returns it
        state           what the last call returned: the steps that each environment has played; None: none
        episode_start   which environments begin an episode: their steps are counted from the first again
        deterministic   has no effect: a policy does not draw actions

        >>> env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
        >>> policy = es.train(env, episodes=5, seed=0).policy
        >>> action, state = policy.predict(0)
        >>> actions, state = policy.predict(np.array([0, 1]), episode_start=np.array([True, True]))
        >>> int(action), actions.shape, state[0].tolist()
        (2, (2,), [1, 1])
        """
        x, one = self.observed.batch(observation)
        _finite(x)
        t = _steps(state, episode_start, len(x))
        h, numbers = self.countdown.several(t), np.empty(len(x), np.int64)
        for each in np.unique(h):
            at = np.flatnonzero(h == each)
            numbers[at] = self._numbers(int(each), x[at])
        return self.candidates.action(numbers[0]) if one else self.candidates.several(numbers), (t + 1,)

    def _numbers(self, h: int, x: np.ndarray) -> np.ndarray:
        """The numbers of the actions (n,); ties are broken by one random order, the same for every observation."""
        tied = np.concatenate([self.plan.best(h, x[first : first + ROWS]) for first in range(0, len(x), ROWS)], 1)
        priority = np.random.default_rng(0).random((len(tied), 1))
        return np.asarray(np.where(tied, priority, -1).argmax(0))

    def certify(self, observation: object, step: int = 1) -> np.ndarray:
        """1 (safe), -1 (unsafe) or 0 (unknown) for each action, by both ends of the cost intervals. See `confidence`.

        Outside of what was seen (`observed`) every action is unknown.
        """
        return np.asarray(self.labels(self._row(observation), step)[0])

    def labels(self, x: np.ndarray, step: int = 1) -> np.ndarray:
        """(n, A): the same for observations as arrays (n, ...)."""
        return np.asarray(np.where(self.observed.holds(x)[:, None], self.plan.labels(self._h(step), x), 0))

    def bounds(self, observation: object, step: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """The lower and upper end of every cost interval, (m, A); infinite outside of what was seen.

        Of an agent that looks ahead: of the harm that an action leads to, less the tolerance, (1, A).
        """
        x = self._row(observation)
        lower, upper = (each[..., 0] for each in self.plan.bounds(self._h(step), x))
        known = bool(self.observed.holds(x)[0])
        return np.where(known, lower, -np.inf), np.where(known, upper, np.inf)

    @property
    def confidence(self) -> str:
        """The guarantee of the labels, in a sentence."""
        return str(self.spec["guarantee"])

    def _row(self, observation: object) -> np.ndarray:
        return _finite(flatten(observation)[None])

    def _h(self, step: int) -> int:
        return self.countdown(whole_number("step", step) - 1)

    # --- folders -----------------------------------------------------------------------------------------------------
    def save(self, folder: str | Path, force: bool = False) -> Path:
        """Write policy.json and policy.npz into a folder, whole or not at all; an existing policy is replaced.

        A file that another program wrote or changed is replaced only with `force`.

        >>> env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
        >>> policy = es.train(env, episodes=2, seed=0).policy
        >>> folder = policy.save("out/policy")
        >>> es.Policy.load("out/policy")(0) == policy(0)
        True
        """
        target, plan = path_from("folder of a policy", folder), self.plan
        arrays = plan.arrays() | ({} if self.chosen is None else self.chosen.arrays()) | self.observed.arrays()
        content = {
            "format": FORMAT,
            **plan.to_json(),
            "value": plan.value_encoder.to_json(),
            "cost": plan.cost_encoder.to_json(),
            "actions": None if self.chosen is None else len(self.chosen),
            "observed": self.observed.to_json(),
            "spec": self.spec,
        }
        with files.replacing(target, force=force) as partial:
            store.write_sealed(partial / "policy.json", content, arrays, "policy.npz")
        if (target / CARD).is_file() and not files.altered(target, CARD):
            (target / CARD).unlink()  # that of a policy which this one has replaced
        return target

    @classmethod
    def load(cls, folder: str | Path, features: object = None, cost_features: object = None) -> Policy:
        """A saved policy. A custom feature function is not saved: pass it again as `features` or `cost_features`.

        The checksums of both files, the shapes of all arrays and that every number is finite are checked, because a
        damaged policy would still return actions and call them safe.
        """
        where = path_from("folder of a policy", folder)
        broken = EverystepError(f"policy '{shown(where)}' cannot be read; give a folder that Policy.save wrote.")
        content, arrays = store.read_sealed(where / "policy.json", "policy", FORMAT, "Policy.save", ARRAYS)
        try:
            plan = _plan(content, arrays, features, cost_features)
            if training_spec.fault(content["spec"], of_policy=True):
                raise broken
            chosen = None if content["actions"] is None else Candidates.from_arrays(arrays)
            observed = Observed.from_json(content["observed"], arrays)
            plan_files.check(plan, arrays)
            _check_steps(content["spec"], plan)
            if chosen is not None and len(chosen) != plan.actions:
                raise EverystepError(f"it has {len(chosen)} actions; save the policy again.")
        except EverystepError as error:
            raise (broken if error is broken else EverystepError(f"policy '{shown(where)}': {error}")) from None
        except UNLIKE:
            raise broken from None
        return cls(plan, content["spec"], observed, chosen)


def _plan(
    content: Mapping[str, Any], arrays: Mapping[str, np.ndarray], features: object, cost_features: object
) -> TrainingPlan:
    """The plan of a saved policy. Raises KeyError, TypeError or ValueError if the content is not one."""
    if "networks" in content:
        sizes = (whole_number(name, content["value"][name]) for name in ("coordinates", "actions"))
        return LearntPlan.read(content, arrays, RawEncoder(*sizes))
    given = {"value": features, "cost": features if cost_features is None else cost_features}
    side = lambda name: plan_files.named(arrays, f"{name}{SIDE}")
    value, cost = (encoder_from_json(content[name], side(name), phi) for name, phi in given.items())
    return plan_files.read(cast(PlanJson, content), arrays, value, cost)


def _check_steps(spec: Mapping[str, Any], plan: TrainingPlan) -> None:
    """Raise if a policy would count the steps of an episode wrongly."""
    H, length = plan.horizon, whole_number("length", spec.get("length"))
    if spec.get("horizon") != H or length < H:
        raise EverystepError(
            f"horizon is {shown(spec.get('horizon'))} and length {length}, and its plan has {H} steps; save it again."
        )


def _finite(x: np.ndarray) -> np.ndarray:
    """Observations as rows; raises if one is not finite."""
    if not np.isfinite(x).all():
        number = x[~np.isfinite(x)][0]
        raise EverystepError(f"an observation holds {number}; give finite numbers.")
    return x


def _steps(state: object, episode_start: object, n: int) -> np.ndarray:
    """(n,): the steps that each of n environments has played in its episode, from what `predict` was given."""
    if state is None:
        t = np.zeros(n, np.int64)
    else:
        given = np.asarray(state[0]) if isinstance(state, tuple | list) and len(state) == 1 else np.empty(0)
        if given.shape != (n,) or given.dtype.kind not in "iu" or (given < 0).any():
            raise EverystepError(
                f"state is {shown(state)} for {n} observations; give what predict returned for as many, or None."
            )
        t = given.astype(np.int64)
    if episode_start is None:
        return t
    starts = np.asarray(episode_start)
    if starts.shape not in ((), (n,)) or starts.dtype.kind not in "biuf":
        raise EverystepError(
            f"episode_start is {shown(episode_start)}; give True or False for each of {n} observations."
        )
    return np.where(starts.astype(bool), 0, t)
