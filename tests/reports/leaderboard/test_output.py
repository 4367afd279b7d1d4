"""`everystep leaderboard` writes a page, all rows and two figures."""

import pyarrow.parquet as pq
import pytest
from helpers.results import save

from everystep.cli import main as command
from everystep.experiments import figures as drawing

pytestmark = pytest.mark.quick


def test_the_command_writes_a_page_all_rows_and_two_figures(contest, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(drawing, "DPI", 30)
    (tmp_path / "in").mkdir()
    save(contest, tmp_path / "in" / "all.parquet")
    words = ["leaderboard", "in", "--out", "in/board"]
    assert command.main([*words, "--page", "docs.md"]) == 0
    printed = capsys.readouterr().out
    assert "Best rival: careful" in printed
    out = tmp_path / "in" / "board"
    written = {path.name: path.read_bytes() for path in out.iterdir() if path.name[0] != "."}
    assert set(written) == {"leaderboard.md", "leaderboard.parquet", "overview.png", "profiles.png"}
    assert pq.read_table(out / "leaderboard.parquet").num_rows == len(contest)
    page = (tmp_path / "docs.md").read_text(encoding="utf-8")
    assert page.startswith("# Leaderboard\n")
    assert "$" not in page
    for name in ("overview", "profiles"):
        assert f"](figures/docs-{name}.png)" in page
        assert (tmp_path / "figures" / f"docs-{name}.png").read_bytes() == written[f"{name}.png"]
    assert command.main(words) == 0  # its own leaderboard.parquet is not read again, and its own files are replaced
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.name[0] != "."} == written
    assert command.main([*words, "--page", "docs.md"]) == 2
    assert "--force" in capsys.readouterr().err
