"""docs/extending.md, executed: what a reader adds by its examples works like what the library has."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import everystep as es
from everystep.cli import main as command

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
