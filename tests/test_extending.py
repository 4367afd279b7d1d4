"""docs/extending.md, executed: what a reader adds by its examples works like what the library has."""

import base64
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import everystep as es
from everystep.cli import main as command
from everystep.web import charts

PAGE = Path(__file__).resolve().parent.parent / "docs" / "extending.md"


def example(heading):
    """The code of a section of the page."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return "\n".join(re.findall(r"```python\n(.*?)```", section, re.DOTALL))


def executed(heading, name):
    """A module made from the code of a section."""
    module = ModuleType(name)
    exec(compile(example(heading), str(PAGE), "exec"), module.__dict__)
    return module


@pytest.fixture(scope="module")
def pond():
    return es.run(es.problems.from_map(("SFF", "FHF", "FFG"), horizon=6), ["lsvi-ae", "lsvi"], episodes=30, seeds=2)


@pytest.mark.quick
def test_a_new_command_is_listed_and_runs(monkeypatch, capsys, pond, tmp_path):
    monkeypatch.setitem(sys.modules, "everystep.cli.worst", executed("A command", "everystep.cli.worst"))
    monkeypatch.setattr(command, "COMMANDS", (*command.COMMANDS, "worst"))
    with pytest.raises(SystemExit):
        command.main(["--help"])
    assert "the episodes of a run with the most violations" in capsys.readouterr().out
    assert command.main(["worst", str(pond.save(tmp_path / "pond")), "--count", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    most = sorted((row["violation"] for row in pond.episodes.to_pylist()), reverse=True)
    assert [float(line.split(": ")[1]) for line in lines] == most[:2]
    assert most[0] > 0


def test_a_new_chart_is_on_the_page_of_the_report(monkeypatch, pond, tmp_path):
    monkeypatch.setattr(charts, "CHARTS", charts.CHARTS)  # restored afterwards
    executed("A chart of the report", "added_chart")
    folder = pond.save(tmp_path / "pond", figures=False)
    assert command.main(["report", str(folder), "--no-player"]) == 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Share of episodes with a violation" in page
    content = json.loads(re.search(r'<script type="application/json" id="content">(.*?)</script>', page, re.DOTALL)[1])
    (chart,) = [chart for chart in content["charts"] if chart["name"] == "share-violated"]
    for label, curves in pond.curves.items():
        mean = np.frombuffer(base64.b64decode(chart["bands"][label]["mean"]), "<f8")
        assert mean[-1] == pytest.approx((curves["violation"] > 0).mean())
