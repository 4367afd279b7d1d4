"""Figures for papers: lines, not pixels, as wide as a column, with their fonts inside."""

import re

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

from everystep.cli import main
from everystep.experiments import experiment, figures
from everystep.mdp.cmdp import Grid
from everystep.problems import from_map

CURVES = ["learning", "regret", "heatmap"]
NAMES = {f"{name}-{width}" for name in CURVES for width in ("single", "double")} | {"map-single"}


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    out = tmp_path_factory.mktemp("figures") / "run"
    pond = from_map(["SFFF", "FHFH", "F.#G"], horizon=8)
    experiment.run(pond, ["lsvi-ae", "lsvi"], 5, 2).save(out, figures=False)
    assert main.main(["figures", str(out), "--style", "paper"]) == 0
    return out / "figures" / "paper"


def test_every_figure_comes_in_the_widths_it_needs(paper):
    assert {path.name for path in paper.glob("[!.]*")} == {f"{name}.{end}" for name in NAMES for end in ("pdf", "svg")}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_pdf_is_made_of_lines_and_has_its_fonts_inside(paper, name):
    content = (paper / f"{name}.pdf").read_bytes()
    assert content.count(b"/Type /FontDescriptor") == content.count(b"/FontFile2") > 0
    assert b"/Type3" not in content
    assert b"/Subtype /Image" not in content
    inches = float(re.search(rb"/MediaBox \[\s*0 0 ([0-9.]+)", content)[1]) / 72
    assert inches == pytest.approx(3.35 if "single" in name else 6.9, abs=0.01)


@pytest.mark.quick
@pytest.mark.parametrize("name", sorted(NAMES))
def test_an_svg_needs_neither_pixels_nor_fonts(paper, name):
    content = (paper / f"{name}.svg").read_text(encoding="utf-8")
    assert "<image" not in content
    assert "<text" not in content  # words are outlines


@pytest.mark.quick
@pytest.mark.parametrize("fill", [True, False])
def test_a_large_map_is_one_image_with_two_letters(fill):
    side = figures.LARGE + 1
    rows = ("S" + "F" * (side - 1), *["FH" * (side // 2) + "#"] * (side - 2), "F" * (side - 1) + "G")
    axes = Figure().subplots()
    figures.cells(axes, Grid(rows), fill)
    assert [len(axes.images), len(axes.patches)] == [1, 0]
    assert {text.get_text(): text.get_position() for text in axes.texts} == {"S": (0, 0), "G": (side - 1, side - 1)}
    pixels, (hazard, wall) = axes.images[0].get_array(), (figures.CELLS["H"], figures.CELLS["#"])
    assert (pixels[1, 1] == figures.to_rgba(hazard if fill else (0, 0, 0, 0))).all()
    assert (pixels[1, -1] == figures.to_rgba(wall)).all()
    assert (axes.get_xlim(), axes.get_ylim()) == ((-0.5, side - 0.5), (side - 0.5, -0.5))


def test_a_style_nobody_knows_is_refused(tmp_path, capsys):
    assert main.main(["figures", str(tmp_path), "--style", "papr"]) == 2
    assert "Did you mean paper?" in capsys.readouterr().err


def test_settings_of_matplotlib_do_not_change_a_figure(paper, tmp_path):
    run = paper.parent.parent
    settings = {"text.usetex": True, "text.latex.preamble": r"\input{x}", "figure.facecolor": "red", "savefig.dpi": 7}
    with mpl.rc_context(settings):  # of a file matplotlibrc in the current folder, which may be one that was received
        assert main.main(["figures", str(run), "--style", "paper", "--out", str(tmp_path / "again")]) == 0
        assert mpl.rcParams["text.usetex"]
    for name in NAMES:
        assert (tmp_path / "again" / f"{name}.svg").read_bytes() == (paper / f"{name}.svg").read_bytes()
