"""A board as Markdown."""

import re

import pytest
from helpers.results import row, save

import everystep as es
from everystep.experiments import figures as drawing
from everystep.reports.leaderboard import text

pytestmark = pytest.mark.quick


def test_names_with_markup_stay_names_in_a_table(tmp_path, monkeypatch):
    monkeypatch.setattr(drawing, "DPI", 30)
    assert text.literal("a|b*c_$") == r"a\|b\*c\_\$"
    path = save([row("a|b$x$"), row("<b>", harm=1.0)], tmp_path / "r.parquet")
    lines = [line for line in es.leaderboard(path).markdown().splitlines() if line.startswith("|")]
    cells = {len(re.findall(r"(?<!\\)\|", line)) for line in lines}
    assert cells == {9, 6}
    es.leaderboard(path).write(tmp_path / "out")
