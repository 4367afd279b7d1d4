"""A few pictures of an episode, evenly spread: of the first one of a training, and of one that its policy plays.

Training is deterministic, so a new learner of the same request and seed plays the first episode again; its row is
compared with that of the folder. How long an episode lasts is not known before its end: every k-th step is rendered,
and k doubles whenever there are twice as many pictures as wanted.
"""

from __future__ import annotations

import base64
import io
from typing import Any, NamedTuple

import numpy as np

from everystep.environments import film, named
from everystep.environments.constraints import Constraint, observed
from everystep.environments.evaluation import FIRST_SEED, evaluate
from everystep.environments.policy import Policy
from everystep.environments.training_request import TrainingRequest, close
from everystep.environments.training_results import SeedResult
from everystep.errors import EverystepError

PICTURES = 8
WIDTH, QUALITY = 240, 72  # of a picture in pixels, and of its JPEG
OTHERWISE = "leave pictures out with --no-player"
SAME = 1e-9


class Picture(NamedTuple):
    """A picture as the address of its data, the steps taken before it, and how many of them were unsafe."""

    data: str
    step: int
    unsafe: int


class Strip(NamedTuple):
    """Pictures of one episode, and what it earned and harmed."""

    pictures: list[Picture]
    length: int
    earned: float
    violation: float
    unsafe: int


def first_episode(request: TrainingRequest, seed: SeedResult) -> Strip:
    """The first episode of a seed, played again."""
    if request.envs > 1:
        raise EverystepError(f"{request.envs} copies of the environment were stepped together; one alone is recorded.")
    recorder = _Recorder(film.rendering_environment(request.env, OTHERWISE), named.constraint(request.constraint))
    try:
        learner = request.without_functions().learner(seed.seed, env=recorder)
        learner.play(1)
    finally:
        close(recorder.env)
    row = {name: float(learner.columns[name][0]) for name in ("return", "length", "violation", "unsafe_steps")}
    for name, value in row.items():
        before = float(seed.columns[name][0])
        if abs(value - before) > SAME * max(1.0, abs(before)):
            raise EverystepError(
                f"played again, the first episode of seed {seed.seed} has {name.replace('_', ' ')} {value:g}, and "
                f"{before:g} in the folder: the environment is not the one that was trained in, or another version."
            )
    return recorder.strip(row)


def of_policy(policy: Policy, request: TrainingRequest) -> Strip:
    """An episode of a policy without exploration: the first of an evaluation."""
    g = named.constraint(request.constraint)
    recorder = _Recorder(film.rendering_environment(request.env, OTHERWISE), g)
    try:
        columns = evaluate(policy, recorder, constraint=g, episodes=1, seed=FIRST_SEED).columns
    finally:
        close(recorder.env)
    return recorder.strip({name: float(column[0]) for name, column in columns.items()})


class _Recorder:
    """An environment that keeps a few pictures of its first episode, and counts unsafe steps."""

    def __init__(self, env: Any, constraint: Constraint | None) -> None:
        self.env, self._constraint = env, constraint
        self._frames: list[tuple[int, int, np.ndarray]] = []
        self._every, self._step, self._unsafe, self._over = 1, 0, 0, False
        self._obs: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def reset(self, **options: Any) -> Any:
        self._over = self._over or self._step > 0
        found = self.env.reset(**options)
        self._obs = found[0]
        self._keep(True)
        return found

    def step(self, action: Any) -> Any:
        found = self.env.step(action)
        if not self._over:
            obs, _, terminated, truncated, info = found
            self._step += 1
            self._unsafe += bool((observed(self._constraint, self._obs, action, obs, info) > 0).any())
            self._obs = obs
            self._keep(bool(terminated or truncated))
        return found

    def _keep(self, always: bool) -> None:
        if self._over or (self._step % self._every and not always):
            return
        self._frames.append((self._step, self._unsafe, film.picture(self.env)))
        if len(self._frames) > 2 * PICTURES:
            self._every *= 2
            self._frames = [each for each in self._frames if each[0] % self._every == 0 or each is self._frames[-1]]

    def strip(self, row: dict[str, float]) -> Strip:
        which = np.unique(np.linspace(0, len(self._frames) - 1, PICTURES).round().astype(int))
        pictures = [Picture(_jpeg(frame), step, unsafe) for step, unsafe, frame in (self._frames[i] for i in which)]
        return Strip(pictures, int(row["length"]), row["return"], row["violation"], int(row["unsafe_steps"]))


def _jpeg(frame: np.ndarray) -> str:
    """A small JPEG in a data URL."""
    from PIL import Image

    image = Image.fromarray(frame)
    height = max(1, round(WIDTH * image.height / image.width))
    if image.width > WIDTH:
        image = image.resize((WIDTH, height), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=QUALITY, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode("ascii")
