"""Gymnasium and finite problems: a problem as an environment, an environment's table as a problem, six-value steps.

    env = gymnasium.make("everystep/FrozenLake-v0", horizon=20)      # after `import everystep`
    env = es.gym.make_env(problem)                                   # from a FiniteCMDP
    problem = es.gym.from_toy_text(gymnasium.make("FrozenLake-v1"), horizon=100)

Requires the extra `gym`.
"""

from __future__ import annotations

import importlib.util
import inspect
import math
from typing import Any, SupportsFloat

import numpy as np

from everystep.environments.finite.rendering import WINDOW_SENTENCE, Moment, Picture, Window, text
from everystep.environments.play.constraints import from_info, signed, violation
from everystep.errors import EverystepError, check_type, number_below, quoted, real_number, unknown
from everystep.mdp.cmdp import FiniteCMDP
from everystep.mdp.world import start_state, step
from everystep.problems import REGISTERED

try:
    import gymnasium
    from gymnasium import spaces
except ImportError:
    raise EverystepError(
        "es.gym needs gymnasium, which is not installed; install it with pip install 'everystep[gym]'."
    ) from None

from everystep.environments.finite.from_table import from_toy_text

__all__ = ["CMDPEnv", "FromSixValueStep", "SixValueStep", "from_toy_text", "make_env"]

HUMAN = ["human"] if importlib.util.find_spec("pygame") else []


def make_env(problem: FiniteCMDP, render_mode: str | None = None) -> CMDPEnv:
    """A FiniteCMDP as an environment.

    >>> env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
    >>> x, info = env.reset(seed=0)
    >>> x, reward, terminated, truncated, info = env.step(2)
    >>> float(info["constraint"][0]), info["cost"]
    (-1.0, 0.0)
    """
    return CMDPEnv(problem, render_mode=render_mode)


class CMDPEnv(gymnasium.Env[Any, Any]):
    """A finite problem as a gymnasium environment.

    Actions       Discrete(A).      Observations  Discrete(S), the state.
    Reward        as the problem generates it: on arrival or as a mean, with noise if the problem has any.
    info          "constraint": (m,) as observed, signed, safe iff <= 0; "cost": sum_i max(constraint_i, 0);
                  "mean_constraint": (m,) the true means g(x, a), for evaluation. After `reset`, all are 0.
    Start         the problem's; `reset(options={"start": x})` starts in state x. A problem with a sequence of starts
                  uses them in turn, and begins with the first again after `reset(seed=...)`.
    End           truncated after H steps, never terminated; the last observation is the state after step H.

    `problem` is a FiniteCMDP, or the name of a registered problem with its settings: `CMDPEnv("terrain", seed=3)`.
    All randomness comes from `np_random`, so that `reset(seed=...)` repeats an episode: a uniform draw for the start
    and for each step, and normal draws if rewards or constraints are noisy.

    >>> env = es.gym.CMDPEnv("streaming", horizon=3, render_mode="ansi")
    >>> env.reset(seed=0, options={"start": 2})[0], env.horizon
    (2, 3)
    >>> env.step(1)[2:4], env.h
    ((False, False), 1)
    >>> kept = env.checkpoint_state()
    >>> print(env.render())
    after 1 of 3 steps: 2 packets
    fast: reward 0.20, constraint -0.20
      slow: mean constraint -0.20, safe
      fast: mean constraint -0.20, safe
    >>> env.restore_state(kept)
    >>> env.close()
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array", *HUMAN], "render_fps": 4}  # noqa: RUF012

    def __init__(self, problem: FiniteCMDP | str, render_mode: str | None = None, **settings: Any) -> None:
        self.problem = _problem(problem, settings)
        modes = self.metadata["render_modes"]
        if render_mode is not None and (not isinstance(render_mode, str) or render_mode not in modes):
            if isinstance(render_mode, str) and render_mode == "human":
                raise EverystepError(WINDOW_SENTENCE)
            raise EverystepError(f"render_mode is {quoted(render_mode)}; choose {', '.join(modes)}, or leave it out.")
        self.render_mode = render_mode
        self.observation_space = spaces.Discrete(self.problem.states)
        self.action_space = spaces.Discrete(self.problem.actions)
        self._world = self.problem.world
        self._episode = 0
        self._now: Moment | None = None
        self._picture: Picture | None = None
        self._window: Window | None = None

    @property
    def horizon(self) -> int:
        """H, the steps of every episode. It depends on the problem, so gymnasium's `spec` does not have it."""
        return self.problem.horizon

    @property
    def h(self) -> int:
        """The number of steps taken in this episode."""
        return 0 if self._now is None else self._now.h

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._episode = 1 if seed is not None else self._episode + 1
        x = int(start_state(self._world, self._episode, self.np_random.random()))
        if options is not None and options.get("start") is not None:
            x = self._given_start(options["start"])
        self._now = Moment(0, x, (x,))
        if self.render_mode == "human":
            self.render()
        nothing = np.zeros(self.problem.constraints)
        return x, _info(nothing, nothing)

    def step(self, action: object) -> tuple[int, SupportsFloat, bool, bool, dict[str, Any]]:
        now, H = self._now, self.problem.horizon
        if now is None or now.h >= H:
            raise EverystepError(f"the episode has not begun, or is over after {H} steps; call reset() first.")
        a = number_below("action", action, self.problem.actions)
        u = self.np_random.random()
        reward_noise = 0.0 if self._world.reward_sigma is None else self.np_random.standard_normal()
        many = self.problem.constraints
        cost_noise = 0.0 if self._world.cost_sigma is None else self.np_random.standard_normal(many)
        outcome = step(self._world, now.h, now.x, a, u, reward_noise, cost_noise)
        x, reward = int(outcome.x_next), float(outcome.reward)
        trail = (*now.trail, x) if self.render_mode is not None else ()
        self._now = Moment(now.h + 1, x, trail, a, reward, outcome.cost)
        if self.render_mode == "human":
            self.render()
        return x, reward, False, now.h + 1 >= H, _info(outcome.cost, outcome.g)

    def checkpoint_state(self) -> int:
        """What is kept from one episode to the next besides `np_random`: their number, for a sequence of starts."""
        return self._episode

    def restore_state(self, state: int) -> None:
        """The inverse of `checkpoint_state`, between two episodes."""
        self._episode = state

    def render(self) -> str | np.ndarray | None:
        """Text for `ansi`, an image (height, width, 3) for `rgb_array`; `human` draws a window at every step."""
        if self._now is None:
            raise EverystepError("there is nothing to render before the first episode; call reset() first.")
        if self.render_mode is None:
            modes = ", ".join(self.metadata["render_modes"])
            raise EverystepError(f"render_mode is None; make the environment with one of {modes}.")
        if self.render_mode == "ansi":
            return text(self.problem, self._now)
        if self._picture is None:
            self._picture = Picture(self.problem)
        frame = self._picture.frame(self._now)
        if self.render_mode == "rgb_array":
            return frame
        if self._window is None:
            self._window = Window(self.problem.name, self.metadata["render_fps"])
        self._window.show(frame)
        return None

    def close(self) -> None:
        if self._window is not None:
            self._window.close()
            self._window = None

    def _given_start(self, start: object) -> int:
        x = number_below("start", start, self.problem.states)
        if self.problem.exempt[x]:
            raise EverystepError(f"start is {x}, which is never entered; give another state.")
        return x


class SixValueStep(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment in the style of Safety-Gymnasium: step returns obs, reward, cost, terminated, truncated, info.

    cost = sum_i max(constraint_i, 0), from `info`. Make it the outermost wrapper: others expect five values.

    >>> pond = es.problems.from_map(["SFG", "HFF"], horizon=4)
    >>> env = es.gym.SixValueStep(es.gym.make_env(pond))
    >>> x, info = env.reset(seed=0)
    >>> x, reward, cost, terminated, truncated, info = env.step(1)
    >>> cost
    1.0
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        _check_environment(env)
        super().__init__(env)

    def step(self, action: object) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, violation(from_info(info)), terminated, truncated, info


class FromSixValueStep(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The inverse: the cost of a six-value step becomes "constraint" and "cost" of `info`.

    constraint = cost - limit where `info` has no constraint, so that costs up to `limit` are safe; "cost" is then the
    excess. Make it the innermost wrapper, around the six-value environment itself.

    >>> pond = es.problems.from_map(["SFG", "HFF"], horizon=4)
    >>> theirs = es.gym.SixValueStep(es.gym.make_env(pond))
    >>> env = es.gym.FromSixValueStep(theirs, limit=0.5)
    >>> x, info = env.reset(seed=0)
    >>> len(env.step(1))
    5
    """

    def __init__(self, env: gymnasium.Env[Any, Any], limit: float = 0.0) -> None:
        _check_environment(env)
        super().__init__(env)
        self.limit = real_number("limit", limit, least=-math.inf)

    def step(self, action: object) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        values: Any = self.env.step(action)
        if len(values) != 6:
            raise EverystepError(
                f"the environment's step returns {len(values)} values, not six; use it without this wrapper."
            )
        obs, reward, cost, terminated, truncated, info = values
        if "constraint" not in info:
            g = signed(cost, lambda: f"the cost of a step is {cost}") - self.limit
            info = {**info, "constraint": g}
        return obs, reward, terminated, truncated, {**info, "cost": violation(info["constraint"])}


def _check_environment(env: object) -> None:
    check_type("env", env, gymnasium.Env, "a gymnasium environment")


def _info(cost: np.ndarray, g: np.ndarray) -> dict[str, Any]:
    return {"constraint": np.array(cost), "cost": violation(cost), "mean_constraint": np.array(g)}


def _problem(problem: object, settings: dict[str, Any]) -> FiniteCMDP:
    if isinstance(problem, str):
        if problem not in REGISTERED:
            raise unknown("problem", problem, REGISTERED, f"Registered are {', '.join(REGISTERED)}.")
        build = REGISTERED[problem].make
        known = inspect.signature(build).parameters
        for name in settings:
            if name not in known:
                raise unknown("setting", name, known, f"The problem '{problem}' takes {', '.join(known)}.")
        return build(**settings)
    if not isinstance(problem, FiniteCMDP):
        raise EverystepError(f"problem is {type(problem).__name__}; give an es.FiniteCMDP or the name of a problem.")
    if settings:
        raise EverystepError(
            f"{next(iter(settings))} is not a setting of an environment made from a FiniteCMDP; leave it out."
        )
    problem.check()
    return problem
