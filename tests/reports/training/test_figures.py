"""The figure of a training: a curve for each seed, their mean, and the axes."""

from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from helpers.trainings import ROWS, made

from everystep.experiments.figures import COLUMN, SCREEN
from everystep.reports.training import figures

pytestmark = pytest.mark.quick


def drawn(results, page=SCREEN):
    with mpl.rc_context(page.style):
        return figures.training(results, page)


def test_every_seed_has_a_thin_line_and_the_mean_a_thick_one():
    left, right = drawn(made()).axes
    for axes in (left, right):
        *seeds, mean = axes.get_lines()
        assert len(seeds) == 2
        assert all(each.get_linewidth() < mean.get_linewidth() for each in seeds)
        assert axes.get_xlim() == (0, 50)
    np.testing.assert_array_equal(left.get_lines()[0].get_ydata(), [0, *np.cumsum(ROWS["violation"][0])])
    single = drawn(made(seeds=1)).axes
    assert [len(axes.get_lines()) for axes in single] == [1, 1]
    assert not single[0].collections  # no band


def test_the_title_says_what_it_shows():
    words = lambda results: drawn(results)._suptitle.get_text().replace("\n", " ")
    assert "Ring, lsvi-ae: 2 seeds" in words(made())
    assert "one seed" in words(made(seeds=1))
    assert "unfinished" in words(made(finished=False))
    assert "unfinished" not in words(made())


@pytest.mark.usefixtures("sketched")
def test_files_have_the_endings_of_their_page(tmp_path):
    written = figures.write(made(), tmp_path)
    assert {path.name for path in written} == {"training.png", "training.svg"}
    paper = figures.write(replace(made(), folder=tmp_path), tmp_path, paper=True)
    assert {path.suffix for path in paper} == set(COLUMN.endings)
    assert all(path.is_file() for path in [*written, *paper])
