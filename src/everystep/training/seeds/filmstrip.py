"""A few pictures of an episode, evenly spread: of the first one of a training, and of one that its policy plays.

    seed-N/pictures/first.png      the pictures of the first episode, side by side
    seed-N/pictures/policy.png     and of an episode of the policy, without exploration
    seed-N/pictures/pictures.json  the steps before every picture, and how many were unsafe; or why there is none

They are taken when a training of the command ends, because a report makes no environment. Training is deterministic,
so a new learner of the same request and seed plays the first episode again; its row is compared with that of the
training. How long an episode lasts is not known before its end: every k-th step is rendered, and k doubles whenever
there are twice as many pictures as wanted.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from everystep import files
from everystep.environments.play import film, named
from everystep.environments.play.constraints import Constraint, observed
from everystep.environments.protocols import AnyEnv, Info
from everystep.errors import LARGEST_SEED, EverystepError, shown
from everystep.files import forms
from everystep.files.forms import COUNT, NUMBER, POSITIVE
from everystep.training.policy.evaluation import FIRST_SEED, evaluate
from everystep.training.policy.policy import Policy
from everystep.training.result import TrainingResult
from everystep.training.seeds.request import TrainingRequest, close

if TYPE_CHECKING:
    from PIL import Image

PICTURES = 8
WIDTH, HEIGHT, QUALITY = 240, 480, 72  # the most of a picture in pixels, and of its JPEG
MOST_BYTES = 4 * PICTURES * WIDTH * HEIGHT  # of a file of pictures
OTHERWISE = "do without them"
SAME = 1e-9
FOLDER, ABOUT, FORMAT = "pictures", "pictures.json", 1
TITLES = {"first": "The first episode", "policy": "An episode of the policy, without exploration"}
STRIP = {
    **dict.fromkeys(("width", "height"), POSITIVE),
    **dict.fromkeys(("length", "unsafe_steps"), COUNT),
    **dict.fromkeys(("return", "violation"), NUMBER),
    **{name: [COUNT] for name in ("step", "unsafe")},
}


class Picture(NamedTuple):
    """A picture as the address of its data, the steps taken before it, and how many of them were unsafe."""

    data: str
    step: int
    unsafe: int


class Strip(NamedTuple):
    """Pictures of one episode, its return and its violation."""

    pictures: list[Picture]
    length: int
    earned: float
    violation: float
    unsafe: int


class Film(NamedTuple):
    """The pictures of one episode, or why there are none."""

    title: str
    strip: Strip | None
    why: str = ""


class Recorded(NamedTuple):
    """Frames (height, width, 3) with the steps before them and the unsafe ones of these, and the row of the episode."""

    frames: list[tuple[int, int, np.ndarray]]
    row: dict[str, float]


# --- when a training ends ---------------------------------------------------------------------------------------------
def record(request: TrainingRequest, seed: int, result: TrainingResult) -> dict[str, bytes]:
    """The files of the pictures of a seed, by name."""
    made: dict[str, bytes] = {}
    about: dict[str, Any] = {"format": FORMAT}
    for name, play in (
        ("first", lambda: first_episode(request, seed, result.columns)),
        ("policy", lambda: of_policy(result.policy, request)),
    ):
        try:
            recorded = play()
            sheet, about[name] = _sheet(recorded)
            made[f"{FOLDER}/{name}.png"] = sheet
        except Exception as error:  # of the environment, or of what it renders with: the training is finished
            about[name] = {"why": _why(error)}
    return {f"{FOLDER}/{ABOUT}": (json.dumps(about, indent=1) + "\n").encode(), **made}


def _why(error: Exception) -> str:
    if isinstance(error, EverystepError):
        return f"There are no pictures: {error}"
    if isinstance(error, ImportError):
        return f"There are no pictures: {shown(error)}; install it before training."
    return f"There are no pictures: the environment raised {type(error).__name__} ({shown(error)})."


def first_episode(request: TrainingRequest, seed: int, columns: Mapping[str, np.ndarray]) -> Recorded:
    """The first episode of a seed, played again; `columns` are the rows of its training."""
    if request.envs > 1:
        raise EverystepError(f"{request.envs} copies of the environment were stepped together; one alone is recorded.")
    recorder = _Recorder(film.rendering_environment(request.env, OTHERWISE), named.constraint(request.constraint))
    try:
        learner = request.without_functions().learner(seed, env=recorder)
        learner.play(1)
    finally:
        close(recorder.env)
    row = {name: float(learner.columns[name][0]) for name in ("return", "length", "violation", "unsafe_steps")}
    for name, value in row.items():
        before = float(columns[name][0])
        if abs(value - before) > SAME * max(1.0, abs(before)):
            raise EverystepError(
                f"played again, the first episode of seed {seed} has {name.replace('_', ' ')} {value:g}, and "
                f"{before:g} in the training: the environment does not repeat itself."
            )
    return recorder.recorded(row)


def of_policy(policy: Policy, request: TrainingRequest) -> Recorded:
    """An episode of a policy without exploration: the first of an evaluation."""
    g = named.constraint(request.constraint)
    recorder = _Recorder(film.rendering_environment(request.env, OTHERWISE), g)
    try:
        options = {"episodes": 1, "seed": FIRST_SEED, "progress": lambda more: None}
        columns = evaluate(policy, recorder, constraint=g, **options).columns  # type: ignore[arg-type]
    finally:
        close(recorder.env)
    return recorder.recorded({name: float(column[0]) for name, column in columns.items()})


def _sheet(recorded: Recorded) -> tuple[bytes, dict[str, Any]]:
    """The pictures side by side as a PNG, and their entry in pictures.json."""
    from PIL import Image

    pictures = [_small(frame) for _, _, frame in recorded.frames]
    width, height = pictures[0].size
    sheet = Image.new("RGB", (width * len(pictures), height))
    for i, picture in enumerate(pictures):
        sheet.paste(picture, (i * width, 0))  # what an environment renders has one size
    file = io.BytesIO()
    sheet.save(file, "PNG", optimize=True)
    row = recorded.row
    counts = {name: int(row[name]) for name in ("length", "unsafe_steps")}
    steps = {name: [each[i] for each in recorded.frames] for i, name in enumerate(("step", "unsafe"))}
    earned = {name: row[name] for name in ("return", "violation")}
    return file.getvalue(), {"width": width, "height": height, **counts, **earned, **steps}


def _small(frame: np.ndarray) -> Image.Image:
    from PIL import Image

    image = Image.fromarray(frame)
    scale = min(1.0, WIDTH / image.width, HEIGHT / image.height)
    size = (max(1, round(scale * image.width)), max(1, round(scale * image.height)))
    return image if size == image.size else image.resize(size, Image.Resampling.LANCZOS)


class _Recorder:
    """An environment that keeps a few pictures of its first episode, and counts unsafe steps."""

    def __init__(self, env: AnyEnv, constraint: Constraint | None) -> None:
        self.env, self._constraint = env, constraint
        self._frames: list[tuple[int, int, np.ndarray]] = []
        self._every, self._step, self._unsafe, self._over = 1, 0, 0, False
        self._obs: object = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def reset(self, **options: int | None) -> tuple[Any, Info]:
        self._over = self._over or self._step > 0
        found = self.env.reset(**options)
        self._obs = found[0]
        self._keep(True)
        return found

    def step(self, action: object) -> tuple[Any, ...]:
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

    def recorded(self, row: dict[str, float]) -> Recorded:
        which = np.unique(np.linspace(0, len(self._frames) - 1, PICTURES).round().astype(int))
        return Recorded([self._frames[i] for i in which], row)


# --- for a report -----------------------------------------------------------------------------------------------------
def read(folder: Path, otherwise: str) -> list[Film]:
    """The films of a seed; nothing is run. `otherwise` is the remedy for a file that was altered."""
    place = folder / FOLDER
    if not place.is_dir():
        return [Film("", None, "There are no pictures: they are taken when a training of `everystep train` ends.")]
    if find_spec("PIL") is None:
        return [Film("", None, "There are no pictures: they need Pillow; install it.")]
    damaged = EverystepError(f"'{place}' has a {ABOUT} or pictures that cannot be read; restore them, or {otherwise}")
    files.check_unaltered(place / ABOUT, otherwise)
    try:
        about = files.read_json(place / ABOUT)
        films = [_film(place, name, about[name], otherwise) for name in TITLES] if about["format"] == FORMAT else []
    except EverystepError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise damaged from None
    if not films or any(each is None for each in films):
        raise damaged
    found = [each for each in films if each is not None]
    reasons = {each.why for each in found}
    return [Film("", None, reasons.pop())] if len(reasons) == 1 and found[0].strip is None else found


def _film(place: Path, name: str, about: Mapping[str, Any], otherwise: str) -> Film | None:
    """One film; None if it is not what `record` writes."""
    if isinstance(why := about.get("why"), str):
        return Film(TITLES[name], None, str(EverystepError(why)))
    if forms.fault(about, STRIP) or about["width"] > WIDTH or about["height"] > HEIGHT:
        return None
    if not 1 <= len(about["step"]) == len(about["unsafe"]) <= PICTURES:
        return None
    if max(about["length"], about["unsafe_steps"], *about["step"], *about["unsafe"]) > LARGEST_SEED:
        return None
    path = files.check_unaltered(place / f"{name}.png", otherwise)
    size = (about["width"] * len(about["step"]), about["height"])
    jpegs = _cut(path, size, len(about["step"]))
    if jpegs is None:
        return None
    pictures = [Picture(*each) for each in zip(jpegs, about["step"], about["unsafe"], strict=True)]
    numbers = (about["length"], float(about["return"]), float(about["violation"]), about["unsafe_steps"])
    return Film(TITLES[name], Strip(pictures, *numbers))


def _cut(path: Path, size: tuple[int, int], n: int) -> list[str] | None:
    """The pictures of a file as data URLs; None if it is not a PNG of this size, which is checked first."""
    from PIL import Image

    if path.stat().st_size > MOST_BYTES:
        return None
    try:
        with Image.open(io.BytesIO(path.read_bytes()), formats=["PNG"]) as sheet:
            if sheet.size != size or sheet.mode != "RGB":
                return None
            width, height = size[0] // n, size[1]
            return [_jpeg(sheet.crop((i * width, 0, (i + 1) * width, height))) for i in range(n)]
    except Exception:  # a damaged picture may raise any error
        return None


def _jpeg(image: Image.Image) -> str:
    """A picture as the address of its data."""
    file = io.BytesIO()
    image.save(file, "JPEG", quality=QUALITY, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode("ascii")
