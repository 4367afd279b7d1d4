"""Environments made from their ids, their names, and the length of their episodes."""

from __future__ import annotations

from everystep.environments.protocols import AnyEnv
from everystep.errors import EverystepError, user_code, whole_number
from everystep.mdp.cmdp import FiniteCMDP


def made(env: AnyEnv | str, copies: int = 1) -> AnyEnv:
    """The environment, given as itself or by its id, in `copies` copies."""
    if not isinstance(env, str) and copies == 1:
        return env
    spec = env if isinstance(env, str) else getattr(env, "spec", None)
    if spec is None:
        raise EverystepError(f"envs is {copies}, but the environment has no spec to make copies from; give its id.")
    try:
        import gymnasium
    except ImportError:
        raise EverystepError("an environment by its id needs gymnasium; install everystep[gym].") from None
    with user_code(lambda name, words: f"environment '{spec}' cannot be made ({name}: {words}); check its id."):
        return gymnasium.make(spec) if copies == 1 else gymnasium.make_vec(spec, num_envs=copies)


def environment_name(env: AnyEnv) -> str:
    """The id of an environment, or the name of its class."""
    spec = getattr(env, "spec", None)
    return str(getattr(spec, "id", None) or type(env).__name__)


def episode_limit(env: AnyEnv) -> int | None:
    """The most steps of an episode, if the environment has such a limit."""
    copies = getattr(env, "envs", None)
    one = copies[0] if copies else env
    limit = getattr(getattr(one, "spec", None), "max_episode_steps", None)
    problem = getattr(getattr(one, "unwrapped", one), "problem", None)
    if limit is not None:
        return whole_number("max_episode_steps of the environment", limit)
    return problem.horizon if isinstance(problem, FiniteCMDP) else None
