"""The first episode of an evaluation as a GIF."""

import sys

import numpy as np
import pytest

from everystep.environments.play.film import Film, picture, rendering_environment
from everystep.errors import EverystepError

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed: films are not tested")
pytestmark = pytest.mark.quick
MODULE = """
import gymnasium
import numpy as np

class Screen(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Discrete(2)
    metadata = {"render_fps": 20}
    render_mode = "rgb_array"
    brightness = 0

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        self.brightness += 40
        return 0, 0.0, False, False, {"constraint": -1.0}

    def render(self):
        return np.full((6, 8, 3), self.brightness, np.uint8)

def blind():
    env = Screen()
    env.render_mode = None
    return env
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    (tmp_path / "screen_for_test.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("screen_for_test", None)


def test_the_first_episode_of_the_first_environment_is_kept(tmp_path):
    film = Film(tmp_path / "film.gif", "screen_for_test:Screen")
    first, second = film.env_of(0), film.env_of(1)
    for env in (first, second):
        for _ in range(2):
            env.reset()
            env.step(0)
            env.step(1)
    film.write()
    with Image.open(tmp_path / "film.gif") as gif:
        assert (gif.n_frames, gif.size, gif.info["duration"]) == (3, (8, 6), 50)
        shown = []
        for number in range(3):
            gif.seek(number)
            shown.append(int(np.asarray(gif.convert("L"))[0, 0]))
    np.testing.assert_allclose(shown, [0, 40, 80], atol=3)


def test_a_film_needs_a_name_of_its_kind_and_replaces_no_file_of_the_user(tmp_path):
    with pytest.raises(EverystepError, match=r"film.mp4.*\.gif"):
        Film(tmp_path / "film.mp4", "screen_for_test:Screen")
    (tmp_path / "mine.gif").write_bytes(b"mine")
    with pytest.raises(EverystepError, match=r"mine\.gif"):
        Film(tmp_path / "mine.gif", "screen_for_test:Screen")


def test_an_environment_without_pictures_is_refused_with_what_to_do():
    with pytest.raises(EverystepError, match=r"does not render pictures.*or look away"):
        rendering_environment("screen_for_test:blind", "look away")


@pytest.mark.parametrize("shape", [(4, 4), (4, 4, 4), (0, 4, 3), (1, 10**5, 3)])
def test_what_is_no_picture_is_refused_with_its_shape(shape):
    class Odd:
        def render(self):
            return np.zeros(shape, np.uint8)

    with pytest.raises(EverystepError, match="rendered"):
        picture(Odd())
