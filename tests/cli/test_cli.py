"""The command as a user runs it: on a custom map, and with every wrong input."""

import gc
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import matplotlib.font_manager
import numpy as np
import pyarrow.parquet as pq
import pytest

from everystep import files
from everystep.cli import main, reading
from everystep.experiments import figures, run_progress
from everystep.mdp import reach
from everystep.runtime import signals

MAP = "SFFF\nFHFH\nF.#G\n"


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """An empty folder with a map in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pond.txt").write_text(MAP, encoding="utf-8")
    return tmp_path


def everystep(*arguments, cwd):
    """The command in its own process. The list of fonts exists then, so that matplotlib does not report building it."""
    assert matplotlib.font_manager.fontManager.ttflist
    return subprocess.run(
        [sys.executable, "-m", "everystep.cli", *arguments], cwd=cwd, capture_output=True, text=True, timeout=300
    )


def test_a_person_runs_agents_on_a_map_of_their_own(desk):
    done = everystep(
        "run", "--problem", "pond.txt", "--agents", "lsvi-ae,lsvi", "--episodes", "40", "--seeds", "3",
        "--horizon", "8", "--set", "beta=0.4", "--set", "lsvi-ae.floor=sqrt", "--out", "mine", cwd=desk,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "safe optimum" in done.stdout
    assert "lsvi-ae" in done.stdout
    assert re.sub("^note: .*\n", "", done.stderr, flags=re.MULTILINE) == ""  # no progress bar without a terminal
    table = pq.read_table(desk / "mine" / "episodes.parquet")
    assert table.num_rows == 2 * 3 * 40
    assert set(table["problem"].to_pylist()) == {"pond"}
    spec = json.loads((desk / "mine" / "spec.json").read_text(encoding="utf-8"))
    assert [agent["settings"]["beta"] for agent in spec["agents"]] == [0.4, 0.4]
    assert spec["agents"][0]["settings"]["floor"] == "sqrt"
    assert spec["seeds"] == [0, 1, 2]
    summary = json.loads((desk / "mine" / "summary.json").read_text(encoding="utf-8"))
    assert set(summary["agents"]) == {"lsvi-ae", "lsvi"}
    assert summary["problem"]["horizon"] == 8


def test_every_module_of_a_command_is_listed_and_has_a_line_of_help(capsys):
    modules = {path.stem for path in Path(main.__file__).parent.glob("*.py")}
    own = modules - {"__init__", "__main__", "main", "shared", "reading"}
    assert own | set(reading.COMMANDS) == set(main.COMMANDS)
    assert not own & set(reading.COMMANDS)
    with pytest.raises(SystemExit):
        main.main(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for name in main.COMMANDS:
        command = reading.COMMANDS.get(name) or import_module(f"everystep.cli.{name}")
        assert f"{name} {command.HELP}" in shown


def test_help_needs_neither_jax_nor_matplotlib(desk):
    code = "import sys; from everystep.cli import main; main.parser().format_help(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"jax", "numpy", "matplotlib", "pyarrow"} & set(done.stdout.split())


def test_a_command_called_from_python_leaves_the_garbage_collector_as_it_was(capsys):
    before = gc.get_threshold(), gc.get_freeze_count()
    main.main(["list"])
    assert (gc.get_threshold(), gc.get_freeze_count()) == before


@pytest.mark.quick
def test_list_shows_problems_agents_and_settings(capsys):
    assert main.main(["list"]) == 0
    shown = capsys.readouterr().out
    for word in (
        "frozen-lake",
        "terrain",
        "linear",
        ".csv",
        "lsvi-ae",
        "lsvi-primal",
        "beta_cost",
        "share_values",
        "optimism",
        "requires",
        "default",
    ):
        assert word in shown


def test_reproduce_runs_small_and_says_what_it_found(desk, capsys, monkeypatch):
    """The figures that every run has are painted by other tests, and episodes planned in spans are compared there."""
    paint = figures.save

    def save(figure, stem, endings=figures.SCREEN.endings):
        if stem.name == "literal":
            return paint(figure, stem, endings)
        stem.parent.mkdir(parents=True, exist_ok=True)
        paths = [stem.with_name(stem.name + ending) for ending in endings]
        for path in paths:
            files.write(path, lambda file: file.write(b"a figure"))
        return paths

    monkeypatch.setattr(figures, "save", save)
    monkeypatch.setattr(reach, "WORTH", 0)
    assert main.main(["reproduce", "--seeds", "2", "--episodes", "6", "--out", "paper"]) == 0
    shown = capsys.readouterr().out
    assert "step-indexed Algorithm 1" in shown
    assert "does not reproduce" in shown
    assert "Report for the browser: paper/report.html" in shown
    assert "lsvi-primal" in (desk / "paper" / "report.html").read_text(encoding="utf-8")
    held = {str(path.relative_to(desk / "paper")) for path in (desk / "paper").rglob("*") if path.is_file()}
    for name in ("episodes.parquet", "summary.json", "spec.json", "visits.npz", "findings.txt", "literal/spec.json"):
        assert name in held
    for stem in ("map", "learning", "heatmap", "regret", "literal"):
        assert {f"figures/{stem}.png", f"figures/{stem}.svg"} <= held


RUN = ["run", "--problem", "pond.txt", "--agents", "lsvi-ae", "--episodes", "5", "--seeds", "1", "--out", "out"]


def without(option):
    at = RUN.index(option)
    return RUN[:at] + RUN[at + 2 :]


WRONG = {
    "unknown agent": ([*without("--agents"), "--agents", "lsvi-a"], "no agent 'lsvi-a'. Did you mean lsvi-ae"),
    "no agent": ([*without("--agents"), "--agents", ","], "agents is empty"),
    "agent twice": ([*without("--agents"), "--agents", "lsvi,lsvi"], "agent 'lsvi' is given twice"),
    "unknown problem": ([*without("--problem"), "--problem", "frozen-lak"], "Did you mean frozen-lake"),
    "no such map": ([*without("--problem"), "--problem", "sea.txt"], "No such file or directory"),
    "zero episodes": ([*without("--episodes"), "--episodes", "0"], "episodes is 0"),
    "words for episodes": ([*without("--episodes"), "--episodes", "many"], "episodes is many"),
    "negative seeds": ([*without("--seeds"), "--seeds", "-2"], "seeds is -2"),
    "no whole number": ([*RUN, "--horizon", "inf"], "horizon is inf"),
    "half a seed": ([*without("--seeds"), "--seeds", "1.5"], "seeds is 1.5"),
    "negative first seed": ([*without("--seeds"), "--seeds=-1:3"], "seeds is '-1:3'"),
    "zero horizon": ([*RUN, "--horizon", "0"], "horizon is 0"),
    "bad key": ([*RUN, "--set", "bta=1"], "Did you mean beta"),
    "bad value": ([*RUN, "--set", "beta=wide"], "setting beta of lsvi-ae is 'wide'"),
    "no value": ([*RUN, "--set", "beta"], "write key=value"),
    "setting of an absent agent": (
        [*RUN, "--set", "lsvi.beta=1"],
        "--set is 'lsvi.beta=1': lsvi is not an agent of this run (lsvi-ae)",
    ),
    "setting the agent lacks": (
        [*RUN, "--set", "kappa=1"],
        "lsvi-ae has no setting kappa",
    ),
    "too many seeds": ([*without("--seeds"), "--seeds", "99999999999"], "are free; give at most"),
    "a folder as a map": ([*without("--problem"), "--problem", "."], "no problem '.'"),
    "a problem with an endless name": ([*without("--problem"), "--problem", "a" * 300 + ".txt"], "File name too long"),
    "out inside a file": ([*without("--out"), "--out", "pond.txt/x"], "Not a directory"),
    "out with an endless name": ([*without("--out"), "--out", "a" * 300], "File name too long"),
    "out is a file": ([*without("--out"), "--out", "pond.txt"], "is a file; choose a folder"),
    "cap too low": ([*RUN, "--set", "cap=0.001"], "below the unconstrained optimum"),
}


@pytest.mark.quick
@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_argument_ends_in_one_sentence_and_writes_nothing(case, desk, capsys):
    arguments, message = WRONG[case]
    assert main.main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("everystep: ")
    assert said.count("\n") == 1
    assert message in said
    assert sorted(os.listdir(desk)) == ["pond.txt"]


BAD_MAPS = {
    "ragged": ("SFF\nFF\nFFG", "row 2 has 2 cells, row 1 has 3"),
    "empty": ("", "the map is empty"),
    "unknown letter": ("SFX\nFFG", "row 1, column 3 is 'X'"),
    "no start": ("FFF\nFFG", "the map has 0 cells S"),
    "two starts": ("SFS\nFFG", "the map has 2 cells S"),
    "no goal": ("SFF\nFFF", "no cell G"),
}


@pytest.mark.parametrize("case", BAD_MAPS)
def test_a_wrong_map_is_explained_with_its_name(case, desk, capsys):
    rows, message = BAD_MAPS[case]
    (desk / "pond.txt").write_text(rows, encoding="utf-8")
    assert main.main(RUN) == 2
    said = capsys.readouterr().err
    assert said.startswith("everystep: problem 'pond.txt': ")
    assert message in said
    assert sorted(os.listdir(desk)) == ["pond.txt"]


class Bomb:
    """Leaves a trace if it is ever unpickled."""

    def __reduce__(self):
        return os.mkdir, ("exploded",)


@pytest.mark.quick
def test_arrays_are_read_and_objects_in_them_are_refused_never_unpickled(desk, sketched, capsys):
    rng = np.random.default_rng(0)
    arrays = {"P": rng.dirichlet(np.ones(3), size=(3, 2)), "r": rng.random((3, 2)), "g": -np.ones((3, 2)), "start": 0}
    options = ["--agents", "lsvi-ae", "--episodes", "5", "--seeds", "1"]
    np.savez("good.npz", horizon=4, **arrays)
    assert main.main(["run", "--problem", "good.npz", *options, "--out", "good"]) == 0
    np.savez("short.npz", **{key: arrays[key] for key in ("P", "r", "start")})
    np.savez("bomb.npz", horizon=4, **(arrays | {"g": np.array([Bomb()], dtype=object)}))
    np.savez("sum.npz", horizon=4, **(arrays | {"P": arrays["P"] * 0.9}))
    (desk / "text.npz").write_text("not an archive", encoding="utf-8")
    wrong = {
        "short.npz": "it has no g and no horizon",
        "bomb.npz": "never unpickled",
        "sum.npz": "P sums to 0.9 over the next states at state 0, action 0",
        "text.npz": "cannot be read as .npz",
    }
    for name, message in wrong.items():
        capsys.readouterr()
        assert main.main(["run", "--problem", name, *options, "--out", "bad"]) == 2
        assert message in capsys.readouterr().err
    assert not (desk / "exploded").exists()
    assert not (desk / "bad").exists()


def test_a_folder_with_a_different_run_is_refused_before_running(desk, sketched, capsys):
    assert main.main(RUN) == 0
    assert main.main(RUN) == 0
    capsys.readouterr()
    assert main.main([*without("--episodes"), "--episodes", "6"]) == 2
    assert "out 'out' already holds a different run" in capsys.readouterr().err


def test_a_horizon_too_short_for_the_goal_is_said_and_allowed(desk, sketched, capsys):
    assert main.main([*RUN, "--horizon", "2"]) == 0
    assert "note: the horizon 2 is shorter than the" in capsys.readouterr().err


@pytest.mark.parametrize("place", [".", "link", "dangling", "deep/er/still"])
def test_a_run_may_go_to_any_folder_that_can_be_made(place, desk, sketched, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (desk / "maps").mkdir()
    (desk / "pond.txt").rename(desk / "maps" / "pond.txt")
    home = desk / "home"
    home.mkdir()
    os.chdir(home)
    (home / "link").symlink_to(elsewhere) if place == "link" else None
    (home / "dangling").symlink_to(elsewhere / "new") if place == "dangling" else None
    options = ["--agents", "lsvi-ae", "--episodes", "5", "--seeds", "1", "--out", place]
    assert main.main(["run", "--problem", "../maps/pond.txt", *options]) == 0
    assert (home / place / "spec.json").is_file()
    assert not list(desk.rglob("*.partial"))


@pytest.mark.skipif(sys.platform != "linux", reason="file names are text here, not bytes")
def test_file_names_that_the_locale_cannot_decode_work_like_others(desk, sketched, capsys):
    strange = os.fsdecode(b"pond-\xff")
    (desk / "pond.txt").rename(desk / f"{strange}.txt")
    options = ["--agents", "lsvi-ae", "--episodes", "5", "--seeds", "1", "--out", strange]
    assert main.main(["run", "--problem", f"{strange}.txt", *options]) == 0
    assert "Written to pond-\\udcff" in capsys.readouterr().out
    assert json.loads((desk / strange / "spec.json").read_text(encoding="utf-8"))["problem"]["name"] == "pond-\ufffd"
    assert main.main(["certify", strange]) == 0


@pytest.mark.parametrize("arguments", [["list"], ["--help"]])
def test_a_reader_that_has_gone_is_no_error(arguments, desk):
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", encoding="utf-8") as nobody:
        done = subprocess.run(
            [sys.executable, "-m", "everystep.cli", *arguments], stdout=nobody, stderr=subprocess.PIPE, env=environment
        )
    assert done.returncode == 0
    assert re.sub(b"^note: .*\n", b"", done.stderr, flags=re.MULTILINE) == b""  # of a busy machine


def test_stopping_a_run_keeps_what_was_done_and_it_can_go_on(desk, capsys):
    arguments = [*without("--episodes"), "--episodes", "2000000"]
    running = subprocess.Popen(
        [sys.executable, "-m", "everystep.cli", *arguments], cwd=desk, stderr=subprocess.PIPE, text=True
    )
    while not (desk / "out" / ".work" / "pid").is_file():
        time.sleep(0.1)
    time.sleep(1.5)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=120)
    assert running.returncode == 130
    said = re.sub(r"^note: .*\n", "", said, flags=re.MULTILINE)  # of a busy machine
    assert said.removeprefix(f"{signals.STOPPING}\n") == "everystep: stopped; `everystep resume out` continues.\n"
    assert [path.name for path in (desk / "out").iterdir()] == [".work"]
    for arguments in (["certify", "out"], ["theory", "out"]):
        assert main.main(arguments) == 2
        assert "holds an unfinished run; `everystep resume out` continues it" in capsys.readouterr().err
    assert main.main(RUN) == 2
    assert "already holds a different, unfinished run" in capsys.readouterr().err


def test_an_interrupt_that_got_lost_stops_the_run_at_its_next_chunk_and_it_goes_on(monkeypatch, desk, sketched, capsys):
    def lost(*arguments):
        with real(*arguments) as advanced:
            signals._received.append(signal.SIGINT)  # as if its exception had been swallowed
            yield advanced

    real = run_progress.shown
    monkeypatch.chdir(desk)
    assert main.main([*without("--out"), "--out", "whole"]) == 0
    with monkeypatch.context() as patched:
        patched.setattr(run_progress, "shown", contextmanager(lost))
        assert main.main(RUN) == 130
    assert capsys.readouterr().err == "everystep: stopped; `everystep resume out` continues.\n"
    assert main.main(["resume", "out"]) == 0
    assert "Written to out" in capsys.readouterr().out
    files = lambda folder: {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert files(desk / "out") == files(desk / "whole")
    assert main.main(["resume", "out"]) == 2
    assert "there is nothing to resume" in capsys.readouterr().err
    assert main.main(["resume", "nowhere"]) == 2
    assert "holds no run; `everystep run` begins one" in capsys.readouterr().err


def test_a_missing_option_or_command_is_one_sentence_too(capsys):
    for arguments in ([], ["run", "--out", "x"], ["fly"]):
        with pytest.raises(SystemExit) as stopped:
            main.main(arguments)
        assert stopped.value.code == 2
        assert capsys.readouterr().err.count("\n") == 1
