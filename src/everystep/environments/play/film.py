"""The first episode of an evaluation as a GIF, where the environment renders pictures (render_mode "rgb_array")."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from everystep import files
from everystep.environments.play import named
from everystep.environments.play.rollout import calls
from everystep.environments.protocols import AnyEnv, Info
from everystep.errors import EverystepError, shown

MOST_FRAMES = 1000
MOST_FRAMES_PER_SECOND = 30
MOST_SIDE = 10_000  # pixels of a picture


class Film:
    """Records the first episode of the first environment that `env_of` makes."""

    def __init__(self, path: Path, env: str, force: bool = False) -> None:
        try:
            import PIL.Image  # noqa: F401
        except ImportError:
            raise EverystepError("a GIF needs Pillow; install it, or leave --gif out.") from None
        if path.suffix.lower() != ".gif":
            raise EverystepError(f"gif is '{shown(path)}'; give a name that ends in .gif.")
        files.check_place(path, force)
        self._path, self._env, self._force = path, env, force
        self._frames: list[np.ndarray] = []
        self._per_second = MOST_FRAMES_PER_SECOND
        self._made = False

    def env_of(self, seed: int) -> AnyEnv:
        """A new environment; the first one records."""
        if self._made:
            return named.environment(self._env)
        self._made = True
        env = rendering_environment(self._env, "leave --gif out")
        given = (getattr(env, "metadata", None) or {}).get("render_fps")
        self._per_second = min(int(given), MOST_FRAMES_PER_SECOND) if isinstance(given, int) and given > 0 else 10
        return _Recording(env, self._frames)

    def write(self) -> None:
        from PIL import Image

        pictures = [Image.fromarray(frame) for frame in self._frames]
        duration = round(1000 / self._per_second)
        files.write_output(
            self._path,
            lambda file: pictures[0].save(
                file, "GIF", save_all=True, append_images=pictures[1:], duration=duration, loop=0
            ),
            self._force,
        )


class _Recording:
    """An environment whose pictures of the first episode are kept."""

    def __init__(self, env: AnyEnv, frames: list[np.ndarray]) -> None:
        self.recorded_env, self._frames, self._episodes = env, frames, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.recorded_env, name)

    def reset(self, **options: int | None) -> tuple[Any, Info]:
        found = self.recorded_env.reset(**options)
        self._episodes += 1
        self._keep()
        return found

    def step(self, action: object) -> tuple[Any, ...]:
        found = self.recorded_env.step(action)
        self._keep()
        return found

    def _keep(self) -> None:
        if self._episodes == 1 and len(self._frames) < MOST_FRAMES:
            self._frames.append(picture(self.recorded_env))


def rendering_environment(name: str, otherwise: str) -> AnyEnv:
    """A new environment that renders pictures; `otherwise` is the remedy in the error if it does not."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pictures need no window, and SDL would complain without one
    options = {} if named.is_imported(name) else {"render_mode": "rgb_array"}
    env = named.environment(name, **options)
    if getattr(env, "render_mode", None) != "rgb_array":
        raise EverystepError(
            f"env '{shown(name)}' does not render pictures; make it with render_mode='rgb_array', or {otherwise}."
        )
    return env


def picture(env: object) -> np.ndarray:
    """What an environment shows now, (height, width, 3) bytes."""
    with calls("render"):
        frame = np.asarray(getattr(env, "render")())  # noqa: B009  which not every environment has
    if frame.ndim == 3 and not 0 < min(frame.shape[:2]) <= max(frame.shape[:2]) <= MOST_SIDE:
        raise EverystepError(
            f"the environment rendered a picture of {frame.shape[1]} x {frame.shape[0]} pixels; return one of at least "
            f"1 x 1 and at most {MOST_SIDE} x {MOST_SIDE}."
        )
    if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != np.uint8:
        raise EverystepError(
            f"the environment rendered an array of shape {frame.shape} and type {frame.dtype}; return pictures "
            "(height, width, 3) of bytes."
        )
    return frame.copy()
