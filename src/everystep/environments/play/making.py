"""Environments made from their ids, their names, and the length of their episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everystep.environments.protocols import AnyEnv
from everystep.errors import EverystepError, shown, user_code, whole_number
from everystep.mdp.cmdp import FiniteCMDP

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec


def made(env: AnyEnv | str, copies: int = 1) -> AnyEnv:
    """The environment, given as itself or by its id, in `copies` copies."""
    if not isinstance(env, str) and copies == 1:
        return env
    spec = env if isinstance(env, str) else getattr(env, "spec", None)
    if spec is None:
        raise EverystepError(f"envs is {copies}, but the environment has no spec to make copies from; give its id.")
    return by_id(spec, copies)


def by_id(spec: str | EnvSpec, copies: int = 1, **options: Any) -> AnyEnv:
    """The environment with an id or a spec; `options`, such as render_mode, go to `gymnasium.make`."""
    try:
        import gymnasium
    except ImportError:
        raise EverystepError("an environment by its id needs gymnasium; install everystep[gym].") from None
    name = shown(getattr(spec, "id", spec))
    failed = lambda error, words: (
        f"env '{name}' cannot be made ({error}: {words}); give the id of an installed environment."
    )
    with user_code(failed):  # gymnasium's own errors, and those of any environment
        if copies > 1:
            return gymnasium.make_vec(spec, num_envs=copies)
        one: AnyEnv = gymnasium.make(spec, **options)
        return one


def environment_name(env: object) -> str:
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
