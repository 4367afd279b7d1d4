"""Batches collected by playing in an environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from everystep.agents.arguments import refuse_unknown
from everystep.environments.play.action_sets import ActionSet, Candidates, for_a_batch
from everystep.environments.play.batch import Batch, BatchBuilder
from everystep.environments.play.constraints import Constraint
from everystep.environments.play.rollout import Stage, StepError, play
from everystep.environments.protocols import Env
from everystep.errors import EverystepError, is_masked, number_below, seed_number, shown, user_code, whole_number
from everystep.features.spaces import flatten


@refuse_unknown("logged.from_env", {"horizon": "use length=, the most steps of an episode"})
def from_env(
    env: Env,
    policy: Callable[[Any], object] | None,
    episodes: int,
    seed: int = 0,
    constraint: Constraint | None = None,
    length: int | None = None,
    actions: ActionSet | Candidates | None = None,
) -> Batch:
    """Play episodes and return their transitions.

    env         a gymnasium environment
    policy      a function from observation to action; None: random actions. An `es.Policy` is played as `es.evaluate`
                plays it, with steps counted from the beginning of each episode
    seed        of everything random, in the environment and in the random actions
    constraint  (obs, action, obs_next, info) -> one number or several, safe iff <= 0; None: from `info`
    length      the most steps of an episode, for environments without an end
    actions     where the action space is a Box, those that `es.Learner` chooses among: the nearest one is played, and
                its number is kept

    If the environment or the policy fails, the transitions until then are in `kept` of the error.

    >>> env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
    >>> batch = es.logged.from_env(env, lambda obs: 2, episodes=3, seed=0)
    >>> len(batch), set(batch.actions.tolist())
    (12, {2})
    """
    episodes, seed = whole_number("episodes", episodes), seed_number("seed", seed)
    length = None if length is None else whole_number("length", length)
    stage = Stage(env, constraint, seed, to_array=to_array, actions=actions)
    if stage.is_vector:
        raise EverystepError("env is a vector environment; give a single environment.")
    count, known = stage.actions, for_a_batch(env.action_space, actions)
    rng = np.random.default_rng(seed)
    at_random = lambda obs: known.action(rng.integers(count))
    act = at_random if policy is None else policy
    counted = policy is not None and _counts_steps(policy)

    def choose(t: int, observations: list[Any], x: np.ndarray) -> np.ndarray:
        with user_code(lambda name, words: f"the policy raised {name}: {words.rstrip('.')}."):
            action = act(observations[0], step=t + 1) if counted else act(observations[0])  # type: ignore[call-arg]
        if known.values is not None:
            return np.array([known.number_of(action)])
        return np.array([number_below("the policy's action", action, count)])

    builder = BatchBuilder()
    for k in range(episodes):
        try:
            play(stage, [builder], choose, length=length, episode=k)
        except StepError as error:
            kept = builder.batch(count) if len(builder) else None
            note = "" if kept is None else f" The {len(kept)} steps before it are in this error's `kept`."
            failed = EverystepError(f"episode {k + 1}, {error}{note}")
            failed.kept = kept
            raise failed from error
    return builder.batch(count)


def _counts_steps(policy: object) -> bool:
    """Whether it is a policy of this library, which plays the last steps of an episode by another plan."""
    return hasattr(policy, "countdown")


def to_array(observation: object) -> np.ndarray:
    """A copy of an observation in its own shape; observations of several parts become one row."""
    if isinstance(observation, Mapping | tuple):
        return flatten(observation)
    if is_masked(observation):
        raise EverystepError(f"observation {shown(observation)} has masked entries; give finite numbers.")
    try:
        return np.array(observation)
    except Exception:  # parts of different lengths, or an object that fails while it is converted
        return np.array(None)
