"""Terrains: hills where steep climbs are unsafe. Costs vary smoothly, so that one step informs about its neighbours."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from everystep.errors import (
    LARGEST_TEXT,
    EverystepError,
    as_array,
    check_openable,
    real_number,
    seed_number,
    shown,
    whole_number,
)
from everystep.files import did_not_fit, name_from
from everystep.mdp.cmdp import FiniteCMDP, Grid, Noise
from everystep.problems.grids import (
    ACTIONS,
    SPARE,
    cell_name,
    check_equally_long,
    entering_rewards,
    grid_coordinates,
    landing_cells,
    slippery_moves,
    steps_to,
)
from everystep.problems.registry import Comparison, register
from everystep.runtime import memory

STEEP = 0.2  # the fraction of moves between cells that are unsafe by default
LENGTHY, DETOUR = 0.6, 4  # least length of a drawn route: a fraction of the horizon, and steps beyond a direct route
LENGTHS = 0.1, 100.0  # in cells: below, heights are independent; above, the ground is flat up to rounding
ROUNDING = 1e-9  # a climb this close to the limit is equal to it, and safe
WIDEST = 300  # rows and columns: a terrain is drawn up to 2000 times, and each drawing of 90,000 cells takes a while
MOST_PIXELS = 2**24  # of a picture of heights: far more than a problem may have states
SEARCHED = 64 * 64  # cells: with more, the distances between all of them take more than a gigabyte


@register(
    "terrain",
    gym_id="everystep/Terrain-v0",
    compared=Comparison(episodes=300, settings={"cost": "gp", "safe_action": "safest"}, ablation=True),
)
def terrain(
    seed: int = 0,
    size: int = 12,
    length: float = 3.0,
    limit: float | None = None,
    horizon: int = 26,
    sigma: float = 0.0,
) -> FiniteCMDP:
    """Hills drawn from a Gaussian process: reach the goal in 26 slippery steps without climbing too steeply.

    States      size * size cells, row * size + column.
    Actions     0 left, 1 down, 2 right, 3 up.
    Transitions 0.9 as intended, 0.05 to each side; a move off the grid stays in place; the goal is absorbing.
    Reward      6 on the step that enters the goal, 0.01 on every other step.
    Constraint  g = (slope - limit) / scale, where slope = height of the cell aimed at - height of the cell: climbing by
                more than `limit` is unsafe, descending is safe. By default a fifth of the moves between cells are
                unsafe, or fewer where a pit would otherwise have no safe exit. Staying in place, at the edge or at the
                goal, is a slope of 0: g = -limit / scale. The scale is the largest |slope - limit|, so that |g| <= 1,
                or larger if the prior variance of g would exceed 1. Costs are observed with normal noise of standard
                deviation `sigma`.
    Optimum     5.6018542360537 under the constraint, 6.2499993233186 without it (seed 0).
    Origin      made for this library after the slopes of Mars in SafeMDP (Turchetta, Berkenkamp and Krause, NIPS 2016).

    Heights have mean 0, variance 1 and covariance exp(-distance^2 / (2 length^2)) between cells. Heights, start and
    goal are drawn until every cell has a safe action, and the shortest safe route takes at least 0.6 of the horizon,
    leaves three steps to spare and is at least four steps longer than the shortest of all routes.

    >>> hills = es.problems.terrain(seed=0)
    >>> hills.states, round(es.planner.solve(hills).value, 4)
    (144, 5.6019)
    """
    rng = np.random.default_rng(seed_number("seed", seed))
    size, horizon = whole_number("size", size, at_least=2), whole_number("horizon", horizon, at_least=SPARE + 1)
    if size > WIDEST:
        raise EverystepError(f"size is {size}; give at most {WIDEST}.")
    memory.check_problem(lambda size: memory.of_grid(size**2), size=size)
    length, limit = real_number("length", length, *LENGTHS), None if limit is None else real_number("limit", limit)
    root = covariance_root(size, length)
    for _ in range(2000):
        hills = Hills(root @ rng.standard_normal((size, size)) @ root, limit)
        start, goal = (int(x) for x in rng.choice(size * size, 2, replace=False))
        direct = hills.direct_steps(start, goal)
        steps = hills.safe_steps([goal], horizon - SPARE)[start, 0]
        if max(LENGTHY * horizon, direct + DETOUR) <= steps < np.inf and not hills.stuck([goal]).any():
            return hills.problem(start, goal, length, horizon, sigma, f"terrain-{seed}")
    limited = "" if limit is None else f" and limit {limit:g}"
    raise EverystepError(
        f"no terrain of size {size} with length {length:g}{limited} fits a horizon of {horizon}; change one of them."
    )


def terrain_from(
    heights: ArrayLike,
    start: tuple[int, int] | None = None,
    goal: tuple[int, int] | None = None,
    limit: float | None = None,
    horizon: int = 26,
    sigma: float = 0.0,
    length: float = 3.0,
) -> FiniteCMDP:
    """A terrain from given heights: an array, a .npy file, comma-separated numbers (.csv) or a grey-scale .png.

    States, actions, transitions, reward and constraint are those of `terrain`; the map may be rectangular.
    `limit` is in the units of the map (0 to 1 for a picture); its default is that of `terrain`.
    `start` and `goal` are (row, column), counted from 0. By default they are chosen so that the shortest safe route is
    the longest one that leaves three steps of the horizon to spare; among these, the one with the longest detour.
    Heights are standardised (mean 0, standard deviation 1), which changes no cost. `length`, in cells, is then the only
    parameter of the suggested kernel: heights further apart than this are nearly independent.

    >>> heights = np.add.outer(np.arange(5.0), np.sin(np.arange(6.0)))
    >>> hill = es.problems.terrain_from(heights, start=(0, 0), goal=(4, 5), limit=1.2)
    >>> hill.states, round(es.planner.solve(hill).value, 3)
    (30, 6.25)
    """
    if not isinstance(heights, str | Path):
        return _from_heights(heights, start, goal, limit, horizon, sigma, length, "terrain")
    path = Path(heights)
    try:
        if path.suffix not in READERS:
            raise EverystepError(f"it ends in '{path.suffix}'; give heights as {', '.join(READERS)}.")
        check_openable(path, LARGEST_TEXT)
        read = READERS[path.suffix](path)
        return _from_heights(read, start, goal, limit, horizon, sigma, length, name_from(path))
    except EverystepError as error:
        raise EverystepError(f"problem '{heights}': {error}") from None


def rbf(distance: float | np.ndarray, length: float) -> np.ndarray:
    """The covariance of two heights."""
    return np.asarray(np.exp(-0.5 * (np.asarray(distance) / length) ** 2))


def covariance_root(size: int, length: float) -> np.ndarray:
    """A root R of the covariance along one axis, for both: R Z R has covariance exp(-a^2 - b^2) if Z is white noise.

    The symmetric root, because it does not depend on the signs of eigenvectors, which differ between machines.
    """
    at = np.arange(size)
    values, vectors = np.linalg.eigh(rbf(at[:, None] - at, length))
    return np.asarray(vectors * np.sqrt(values.clip(min=0)) @ vectors.T)


class Hills:
    """Heights, the slope of every move on them, and which moves are safe."""

    def __init__(self, heights: np.ndarray, limit: float | None) -> None:
        self.heights, self.width = heights, heights.shape[1]
        self.landing = landing_cells(np.zeros(heights.shape, bool))
        self.own = np.arange(heights.size)[:, None]
        self.slope = heights.reshape(-1)[self.landing] - heights.reshape(-1, 1)
        self.limit = self._usual_limit() if limit is None else limit
        excess = self.slope - self.limit
        self.excess = np.where(np.abs(excess) < ROUNDING, 0.0, excess)
        self.safe = self.excess <= 0

    def _usual_limit(self) -> float:
        """The limit that a fifth of the moves between cells exceed; higher where a pit would have no safe exit."""
        steep = np.quantile(self.slope[self.landing != self.own], 1 - STEEP)
        return float(max(steep, self.slope.min(1).max()))

    def stuck(self, goals: list[int]) -> np.ndarray:
        """(S,): cells without a safe action; at a goal every action is safe."""
        stuck = np.asarray(~self.safe.any(axis=1))
        stuck[goals] = False
        return stuck

    def safe_steps(self, goals: list[int], at_most: int) -> np.ndarray:
        """(S, n): the length of a shortest route over safe moves from every cell to each goal, inf beyond `at_most`."""
        return steps_to(self.own == np.array(goals), np.where(self.safe, self.landing, self.own), at_most)

    def direct_steps(self, start: int | np.ndarray, goal: int | np.ndarray) -> np.ndarray:
        """The length of a shortest route over all moves."""
        rows, columns = start // self.width - goal // self.width, start % self.width - goal % self.width
        return np.asarray(abs(rows) + abs(columns))

    def problem(self, start: int, goal: int, length: float, horizon: int, sigma: float, name: str) -> FiniteCMDP:
        """The problem of walking on these heights, which have unit variance, from `start` to `goal`.

        Because g = (slope - limit) / scale is a constant plus a difference of heights, its prior is a constant kernel
        plus a difference of the heights' kernel. At the goal every action aims at the goal, so that this holds there.
        """
        S, width = self.heights.size, self.width
        at_goal = np.arange(S) == goal
        P = slippery_moves(self.landing, at_goal)
        earned = entering_rewards(at_goal, P)
        landing, excess = self.landing.copy(), self.excess.copy()
        landing[goal], excess[goal] = goal, -self.limit
        # The prior variance k(y, y) of g stays below 1, too, as the theory of Gaussian processes requires; with a small
        # reserve, because the text of the kernel is rounded.
        prior = math.hypot(self.limit, math.sqrt(2 - 2 * rbf(1, length)))
        scale = max(float(np.abs(excess).max()), prior * (1 + 1e-5))
        constant, weight = (self.limit / scale) ** 2, (1 / scale) ** 2
        intercept = f"constant({constant:.6g}) + " if constant > 0 else ""
        cells = np.full(S, ".")
        cells[[start, goal]] = "S", "G"
        problem = FiniteCMDP(
            P,
            (P.probabilities * earned).sum(-1),
            excess / scale,
            start=start,
            horizon=horizon,
            noise=Noise(reward_on_arrival=earned, cost_sigma=real_number("sigma", sigma, 0, 1e6)),
            name=name,
            state_names=tuple(cell_name(x, width) for x in range(S)),
            action_names=ACTIONS,
            grid=Grid(tuple("".join(row) for row in cells.reshape(self.heights.shape)), self.heights),
            coordinates=grid_coordinates(landing, width),
            kernel=f"{intercept}{weight:.6g}*difference(rbf({length:g}), on=move)",
        )
        problem.check()
        return problem


def _from_heights(
    given: object, start: object, goal: object, limit: object, horizon: int, sigma: float, length: float, name: str
) -> FiniteCMDP:
    heights, unit = _standardised(given)
    horizon, length = whole_number("horizon", horizon), real_number("length", length, *LENGTHS)
    hills = Hills(heights, None if limit is None else real_number("limit", limit) / unit)
    first, last = (_cell(field, each, heights.shape) for field, each in (("start", start), ("goal", goal)))
    memory.check_problem(memory.of_grid, cells=heights.size)
    if last is None and heights.size > SEARCHED:
        raise EverystepError(
            f"goal is not given, and is searched for on at most {SEARCHED} cells; give it on these {heights.size}."
        )
    if first is not None and first == last:
        raise EverystepError(f"start and goal are both {start}; choose two cells.")

    stuck = hills.stuck([] if last is None else [last])
    if stuck.any():
        needed = hills.slope.min(1)[stuck].max() * unit
        raise EverystepError(
            f"{cell_name(int(stuck.argmax()), hills.width)} has no safe action, "
            f"because every move climbs more than the limit {hills.limit * unit:.4g}; "
            f"raise limit to {needed * 1.001:.4g}."  # with a small reserve for rounding
        )
    most = horizon if first is not None and last is not None else horizon - SPARE
    starts, goals = ([*range(heights.size)] if x is None else [x] for x in (first, last))
    steps = hills.safe_steps(goals, most)[starts]
    steps[np.isinf(steps)] = 0
    if not steps.any():
        given_ends = (("from start", start), ("to goal", goal))
        leads = " ".join(f"{words} {cell}" for words, cell in given_ends if cell is not None) or "anywhere"
        raise EverystepError(
            f"no safe route of at most {max(most, 0)} steps leads {leads}; "
            f"raise the horizon of {horizon} or the limit of {hills.limit * unit:.4g}."
        )
    longest = np.argwhere(steps == steps.max())
    pairs = np.array(starts)[longest[:, 0]], np.array(goals)[longest[:, 1]]
    roundabout = int(hills.direct_steps(*pairs).argmin())
    return hills.problem(int(pairs[0][roundabout]), int(pairs[1][roundabout]), length, horizon, sigma, name)


def _standardised(given: object) -> tuple[np.ndarray, float]:
    """Heights with mean 0 and standard deviation 1, and their unit."""
    heights = as_array(given)
    if heights.dtype.kind not in "biuf":
        raise EverystepError("the heights are not a table of numbers; give rows of equal length.")
    if heights.ndim != 2 or min(heights.shape) < 2 or heights.size > WIDEST**2:
        raise EverystepError(
            f"the heights have shape {heights.shape}; give at least 2 rows and 2 columns, of at most {WIDEST**2} cells."
        )
    heights = heights.astype(np.float64)
    if not (finite := np.isfinite(heights)).all():
        x = int(finite.argmin())
        raise EverystepError(f"{cell_name(x, heights.shape[1])} is {heights.flat[x]}; give a finite height.")
    with np.errstate(over="ignore", invalid="ignore"):
        heights = heights - heights.mean()
        unit = float(heights.std())
    if (heights == heights[0, 0]).all():
        raise EverystepError("the heights are all the same; give a map with slopes.")
    if not 1e-100 < unit < 1e100:
        raise EverystepError(f"the heights have a standard deviation of {unit:.3g}; give them in another unit.")
    return heights / unit, unit


def _cell(field: str, given: object, shape: tuple[int, ...]) -> int | None:
    """The state of a (row, column)."""
    if given is None:
        return None
    try:
        row, column = (whole_number(field, each, at_least=0) for each in given)  # type: ignore[attr-defined]
        return int(np.ravel_multi_index((row, column), shape))
    except (TypeError, ValueError):  # not two whole numbers, or outside the map
        raise EverystepError(
            f"{field} is {shown(given)}; give (row, column), from (0, 0) to ({shape[0] - 1}, {shape[1] - 1})."
        ) from None


# --- files of heights ------------------------------------------------------------------------------------------------
def _read_npy(path: Path) -> np.ndarray:
    """An array. `read_array` accepts the format of .npy only; numpy.load would also try others."""
    try:
        with path.open("rb") as file:
            return np.asarray(np.lib.format.read_array(file, allow_pickle=False))
    except Exception as error:  # a damaged header is parsed as Python and may raise any error
        if did_not_fit(error):
            raise
        if "allow_pickle=False" in str(error):
            raise EverystepError("it holds Python objects, which are never unpickled. Save plain numbers.") from None
        raise EverystepError("it cannot be read as .npy. Write it with numpy.save.") from None


def _read_csv(path: Path) -> np.ndarray:
    """Comma-separated numbers, one row per line."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise EverystepError("it cannot be read as text. Give numbers with commas between them.") from None
    rows = [line.split(",") for line in lines if line.strip()]
    if not rows:
        raise EverystepError("it is empty. Give a row of heights on each line, with commas between them.")
    check_equally_long(rows)
    for number, row in enumerate(rows, 1):
        for column, cell in enumerate(row, 1):
            try:
                float(cell)
            except ValueError:
                raise EverystepError(
                    f"row {number}, column {column} is '{cell.strip()}'. Give numbers with commas between them."
                ) from None
    return np.array(rows, dtype=np.float64)


def _read_png(path: Path) -> np.ndarray:
    """Grey values from 0 (black) to 1 (white). The reader has no limit: a picture of one colour takes no room."""
    from matplotlib.image import imread

    try:
        with path.open("rb") as file:
            signature, width, height = struct.unpack(">8s8xII", file.read(24))  # where every PNG has them
            if signature == b"\x89PNG\r\n\x1a\n" and width * height > MOST_PIXELS:
                raise EverystepError(f"it has {width} x {height} pixels. Give a picture of at most {MOST_PIXELS}.")
            file.seek(0)
            image = np.asarray(imread(file, format="png"))
    except (MemoryError, EverystepError):
        raise
    except Exception:  # the errors of the image reader are not documented
        raise EverystepError("it cannot be read as .png. Save it as a grey-scale PNG.") from None
    if image.ndim == 2:
        return image
    if (image[..., :3] != image[..., :1]).any():
        raise EverystepError("it is a colour picture. Save it as a grey-scale PNG, where lighter is higher.")
    return image[..., 0]


READERS: dict[str, Callable[[Path], np.ndarray]] = {".npy": _read_npy, ".csv": _read_csv, ".png": _read_png}
