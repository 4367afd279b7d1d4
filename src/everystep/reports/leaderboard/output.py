"""Writing a leaderboard: into a folder of its own, or as a page among others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from everystep import files
from everystep.errors import EverystepError, true_or_false
from everystep.reports.leaderboard import results_files, text

if TYPE_CHECKING:
    from everystep.reports.leaderboard.board import Leaderboard

PAGE, ROWS = "leaderboard.md", results_files.OWN
FIGURES = {"profiles": "profiles.png", "overview": "overview.png"}
REFERENCE = Path("reference", "files.md")  # beside a page of the documentation
HEADING = "results-for-the-leaderboard"


def check(out: Path, force: bool = False) -> None:
    """Raise if `write` could not write into this folder, before any work is done."""
    files.check_writable(out)
    files.check_places(files.real(out), (PAGE, ROWS, *FIGURES.values()), force)


def write(board: Leaderboard, out: Path, force: bool = False) -> Path:
    """Write the page, all rows and the figures into `out`, and return it."""
    from everystep.reports.leaderboard import figures

    check(out, true_or_false("force", force))
    with files.replacing(out, last=PAGE, force=force) as folder:
        figures.write(board, {name: folder / file for name, file in FIGURES.items()})
        with (folder / ROWS).open("wb") as file:
            results_files.write(board.rows, file)
        (folder / PAGE).write_text(board.markdown(FIGURES), encoding="utf-8", errors="backslashreplace")
    return out


def check_page(page: Path, force: bool = False) -> None:
    """Raise if `write_page` could not write this page."""
    if page.suffix != ".md":
        raise EverystepError(f"page '{page}' is no Markdown file; give a name that ends with .md.")
    for path in (page, *_figures_of(page).values()):
        if path.parent.is_dir() or path is page:
            files.check_place(path, force)


def write_page(board: Leaderboard, page: Path, force: bool = False) -> Path:
    """Write the page for a folder of documentation: FILE.md, and its figures into figures/FILE-NAME.png beside it.

    Nothing is recorded beside them, because such folders are under version control; so an existing page is replaced
    only with `force`.
    """
    from everystep.reports.leaderboard import figures

    check_page(page, force)
    pictures = _figures_of(page)
    format_at = f"[the format]({REFERENCE}#{HEADING})" if (page.parent / REFERENCE).is_file() else "see File formats"
    files.make_folder(page.parent / "figures")
    figures.write(board, pictures)
    links = {name: path.relative_to(page.parent).as_posix() for name, path in pictures.items()}
    files.write_text(page, text.page(board, links, format_at))
    return page


def _figures_of(page: Path) -> dict[str, Path]:
    return {name: page.parent / "figures" / f"{page.stem}-{file}" for name, file in FIGURES.items()}
