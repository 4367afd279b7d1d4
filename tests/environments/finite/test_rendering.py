"""Text, pictures and windows of problems."""

import sys

import numpy as np
import pytest
from problems_for_tests.random_problem import random_problem

import everystep as es
from everystep.environments.finite import rendering
from everystep.errors import EverystepError

pytestmark = pytest.mark.quick


@pytest.fixture(autouse=True)
def _no_screen(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


def after_steps(problem, mode, actions=()):
    env = es.gym.make_env(problem, render_mode=mode)
    env.reset(seed=0)
    for action in actions:
        env.step(action)
    return env


def test_as_text_a_lake_is_its_map_with_the_agent_in_brackets():
    lines = after_steps(es.problems.from_map(["SFH", "F.G"]), "ansi").render().splitlines()
    assert lines == ["after 0 of 15 steps: the cell in row 1, column 1", "[S] F  H ", " F  .  G "]


def test_the_text_reports_an_unsafe_step():
    lake = es.problems.from_map(["SHF", "FFG"])
    assert "right: reward 0.01, constraint +1.00 (unsafe)" in after_steps(lake, "ansi", [2]).render()
    assert "unsafe" not in after_steps(lake, "ansi", [1]).render()


def test_as_text_a_terrain_shows_its_heights_in_tenths():
    hills = es.problems.terrain_from(np.array([[0.0, 1, 2], [1, 2, 3], [2, 3, 4]]), limit=2)
    text = after_steps(hills, "ansi").render()
    assert {"2", "5", "7"} <= set(text.split("\n", 1)[1])


def test_as_text_other_problems_list_their_actions():
    problem = random_problem(A=20, action_names=tuple("abcdefghijklmnopqrst"))
    text = after_steps(problem, "ansi").render()
    assert f"  b: mean constraint {problem.g[:, 0, 0, 1].max():+.2f}, " in text
    assert text.endswith("and 8 more actions\n")


@pytest.mark.parametrize("problem", [random_problem(), random_problem(S=200, A=14, m=1), "lake", "terrain"])
def test_a_picture_shows_where_the_agent_is(problem, lake):
    problem = {"lake": lake, "terrain": es.problems.terrain()}.get(problem) if isinstance(problem, str) else problem
    env = after_steps(problem, "rgb_array")
    first = env.render()
    assert first.dtype == np.uint8
    assert first.ndim == 3
    assert first.shape[2] == 3
    assert (env.render() == first).all()
    env.reset(options={"start": problem.states - 1})
    there = env.render()
    assert (there != first).any()
    env.reset(options={"start": int(problem.start[0])})
    assert (env.render() == first).all(), "what a frame adds is gone in the next"


def test_the_agent_is_drawn_on_its_cell(lake):
    """Blue is the agent's alone; the middle of its pixels lies in the cell of its state."""
    env = after_steps(lake, "rgb_array")
    for x in (0, 37, 99):
        env.reset(options={"start": x})
        frame = env.render().astype(int)
        rows, columns = np.nonzero((np.abs(frame - [0, 0x72, 0xB2]) < 12).all(-1))
        height, width = frame.shape[:2]
        top = height - width  # the map is square, under the words
        assert int((np.median(rows) - top) / width * 10) == x // 10
        assert int(np.median(columns) / width * 10) == x % 10


def test_a_window_shows_every_step(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")  # no screen is needed
    pytest.importorskip("pygame", reason="pygame is not installed: the window is not tested")
    env = es.gym.make_env(random_problem(), render_mode="human")
    env.metadata = env.metadata | {"render_fps": 1000}
    env.reset(seed=0)
    env.step(0)
    shown = env._window.pygame.surfarray.array3d(env._window.surface).swapaxes(0, 1)
    assert (shown == env._picture.frame(env._now)).all()
    env.close()
    env.close()


def test_without_pygame_a_sentence_names_the_remedy(monkeypatch):
    monkeypatch.setitem(es.gym.CMDPEnv.metadata, "render_modes", ["ansi", "rgb_array"])
    with pytest.raises(EverystepError, match=r"pygame; .* 'rgb_array'\.$"):
        es.gym.make_env(random_problem(), render_mode="human")
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(EverystepError, match="needs pygame"):
        rendering.Window("lake", 4)


def test_rendering_too_early_or_without_a_mode_is_refused():
    env = es.gym.make_env(random_problem())
    with pytest.raises(EverystepError, match="call reset"):
        env.render()
    env.reset(seed=0)
    with pytest.raises(EverystepError, match=r"render_mode is None; .* ansi"):
        env.render()
