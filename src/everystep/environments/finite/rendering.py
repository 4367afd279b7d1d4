"""An episode drawn: as text, as an image, in a window.

A problem on a grid is drawn as its map, any other as a board of its states beside the actions of the current one. The
background is drawn once; a frame adds the agent, its trail and a caption.
"""

from __future__ import annotations

import math
import os
from typing import Any, NamedTuple

import numpy as np

from everystep.errors import EverystepError
from everystep.mdp.cmdp import FiniteCMDP, Grid
from everystep.mdp.world import at_step

FEW_ACTIONS = 12  # listed for a state
NUMBERED = 144  # the most states whose tiles have numbers
DPI = 100
WINDOW_SENTENCE = (
    "render_mode is 'human', which needs pygame; install it with pip install 'gymnasium[toy-text]', or use 'rgb_array'."
)


class Moment(NamedTuple):
    """One frame: the state x after h steps, the trail to it, and the last step's outcome (None before the first)."""

    h: int
    x: int
    trail: tuple[int, ...]
    action: int | None = None
    reward: float = 0.0
    cost: np.ndarray | None = None


def caption(problem: FiniteCMDP, now: Moment) -> str:
    """Where the agent is, and the outcome of its last step."""
    place = f"after {now.h} of {problem.horizon} steps: {problem.describe(now.x)}"
    if now.action is None or now.cost is None:
        return place
    numbers = ", ".join(f"{g:+.2f}" for g in now.cost)
    unsafe = " (unsafe)" if (now.cost > 0).any() else ""
    return f"{place}\n{problem.describe_action(now.action)}: reward {now.reward:.2f}, constraint {numbers}{unsafe}"


def text(problem: FiniteCMDP, now: Moment) -> str:
    """The map with the agent's cell in brackets, or the state's actions with their mean constraints."""
    words = caption(problem, now)
    if problem.grid is not None:
        cells = _letters(problem.grid)
        width = problem.grid.width
        mark = lambda i, j: "[{}]" if i * width + j == problem.grid.cell(now.x) else " {} "
        rows = ["".join(mark(i, j).format(cell) for j, cell in enumerate(row)) for i, row in enumerate(cells)]
        return "\n".join([words, *rows]) + "\n"
    worst = _constraints(problem, now)
    listed = [
        f"  {problem.describe_action(a)}: mean constraint {g:+.2f}, {'unsafe' if g > 0 else 'safe'}"
        for a, g in enumerate(worst[:FEW_ACTIONS])
    ]
    more = [f"  and {len(worst) - FEW_ACTIONS} more actions"] if len(worst) > FEW_ACTIONS else []
    return "\n".join([words, *listed, *more]) + "\n"


class Picture:
    """Draws frames of a problem as images (height, width, 3) of bytes."""

    def __init__(self, problem: FiniteCMDP) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.patches import Circle

        from everystep.experiments import figures

        self.problem = problem
        grid = problem.grid
        self.width = grid.width if grid is not None else math.ceil(math.sqrt(problem.states))
        rows = len(grid.rows) if grid is not None else math.ceil(problem.states / self.width)
        board = (4.8, min(max(4.8 * rows / self.width, 1.2), 9.6))
        beside = 0.0 if grid is not None else 2.6
        top, edge = 0.62, 0.12
        bottom = edge if grid is not None else 0.34
        total = (board[0] + beside + 2 * edge, board[1] + top + bottom)
        figure = Figure(figsize=total, dpi=DPI, facecolor="white")
        self.canvas = FigureCanvasAgg(figure)
        place = lambda x, y, w, h: figure.add_axes((x / total[0], y / total[1], w / total[0], h / total[1]))
        self.axes = place(edge, bottom, *board)
        if grid is not None:
            figures.cells(self.axes, grid, fill=True)
        else:
            _board(self.axes, problem, self.width, rows)
        (self.trail,) = self.axes.plot([], [], color=figures.INK, linewidth=2, alpha=0.55, solid_capstyle="round")
        tile = min(board[0] / self.width, board[1] / rows)
        self.agent = Circle(
            (0, 0),
            np.clip(0.3 * tile, 0.06, 0.18) / tile,
            facecolor="#0072B2",
            edgecolor="white",
            linewidth=2,
            zorder=5,
        )
        self.axes.add_patch(self.agent)
        self.words = figure.text(
            edge / total[0], 1 - 0.1 / total[1], "", va="top", fontsize=10.5, color=figures.INK, linespacing=1.35
        )
        self.bars: Any = None
        if grid is None:
            shade = "each tile is a state; the redder, the more of its actions are unsafe"
            figure.text(edge / total[0], 0.1 / total[1], shade, fontsize=8, color=figures.INK)
            self.actions = place(board[0] + 1.35, bottom + 0.25, 1.25, board[1] - 0.55)
            self.bars = _bars(self.actions, problem)
        self.moving = [self.trail, self.agent, self.words]
        for artist in [*self.moving, *(self.bars or ())]:
            artist.set_animated(True)
        self.canvas.draw()
        self.still = self.canvas.copy_from_bbox(figure.bbox)
        self.colours = (figures.INK, figures.CELLS["H"])

    def frame(self, now: Moment) -> np.ndarray:
        self.canvas.restore_region(self.still)
        tile = lambda x: x if self.problem.grid is None else int(self.problem.grid.cell(x))
        place = lambda x: (tile(x) % self.width, tile(x) // self.width)
        self.trail.set_data(*np.transpose([place(x) for x in now.trail]))
        self.agent.set_center(place(now.x))
        words = caption(self.problem, now)
        self.words.set_text(words)
        self.words.set_color(self.colours["(unsafe)" in words])
        for artist in self.moving:
            artist.axes.draw_artist(artist) if artist.axes else self.canvas.figure.draw_artist(artist)
        if self.bars is not None:
            for bar, g in zip(self.bars, _constraints(self.problem, now), strict=False):
                bar.set_width(g)
                bar.set_facecolor(self.colours[1] if g > 0 else "#0072B2")
                self.actions.draw_artist(bar)
        return np.asarray(self.canvas.buffer_rgba())[..., :3].copy()


class Window:
    """A window that shows frames."""

    def __init__(self, title: str, fps: int) -> None:
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        try:
            import pygame
        except ImportError:
            raise EverystepError(WINDOW_SENTENCE) from None
        self.pygame, self.title, self.fps = pygame, title, fps
        self.surface: Any = None
        pygame.display.init()
        self.clock = pygame.time.Clock()

    def show(self, frame: np.ndarray) -> None:
        if self.surface is None:
            self.surface = self.pygame.display.set_mode((frame.shape[1], frame.shape[0]))
            self.pygame.display.set_caption(self.title)
        self.surface.blit(self.pygame.surfarray.make_surface(frame.swapaxes(0, 1)), (0, 0))
        self.pygame.event.pump()
        self.pygame.display.flip()
        self.clock.tick(self.fps)

    def close(self) -> None:
        self.pygame.display.quit()


def _letters(grid: Grid) -> list[str]:
    """The rows of a map; plain cells of a height map are digits, the height in tenths of its range."""
    if grid.heights is None:
        return list(grid.rows)
    low, high = grid.heights.min(), grid.heights.max()
    tenth = np.clip(np.floor(10 * (grid.heights - low) / max(high - low, 1e-300)), 0, 9).astype(int)
    plain = lambda letter, digit: str(digit) if letter in ".F" else letter
    return ["".join(map(plain, row, digits)) for row, digits in zip(grid.rows, tenth, strict=True)]


def _constraints(problem: FiniteCMDP, now: Moment) -> np.ndarray:
    """(A,): the worst mean constraint of each action, at the step that comes next (at the end, the last)."""
    h = min(now.h, problem.horizon - 1)
    return np.asarray(at_step(problem.g.swapaxes(0, 1), h)[:, now.x].max(0))


def _board(axes: Any, problem: FiniteCMDP, width: int, rows: int) -> None:
    """States as tiles; the redder, the larger the share of unsafe actions."""
    from matplotlib.colors import LinearSegmentedColormap

    from everystep.experiments import figures

    shares = np.full(width * rows, np.nan)
    shares[: problem.states] = (problem.g > 0).any(0).mean((0, 2))
    ramp = LinearSegmentedColormap.from_list("unsafe", ["#EAF2F8", figures.CELLS["H"]])
    axes.imshow(shares.reshape(rows, width), cmap=ramp, vmin=0, vmax=1)
    axes.set(xticks=np.arange(-0.5, width), yticks=np.arange(-0.5, rows), xticklabels=[], yticklabels=[])
    axes.tick_params(length=0)
    if problem.states <= NUMBERED:
        axes.grid(color="white", linewidth=2)
        for x in range(problem.states):
            at = (x % width - 0.4, x // width - 0.4)
            axes.text(*at, str(x), ha="left", va="top", fontsize=7.5, color=figures.INK)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _bars(axes: Any, problem: FiniteCMDP) -> Any:
    """Bars for the mean constraints of the first actions; a bar to the right of the line is unsafe."""
    from everystep.experiments import figures

    shown = min(problem.actions, FEW_ACTIONS)
    named = [problem.describe_action(a) for a in range(shown)]
    axes.set(xlim=(-1.05, 1.05), ylim=(shown - 0.4, -0.6), yticks=range(shown), yticklabels=named, xticks=[-1, 0, 1])
    axes.axvline(0, color=figures.FAINT, linewidth=0.8)
    axes.set_title("mean constraint", fontsize=9, color=figures.INK)
    axes.tick_params(labelsize=8, length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    return axes.barh(range(shown), [0.0] * shown, height=0.6)
