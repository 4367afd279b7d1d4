"""Inputs that are run folders in which something was altered, for every command that reads one."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.bombs import few_rows
from fuzz.cases import COMMAND, NUMBERS, Bench, Case
from fuzz.problem_files import damaged_array, damaged_bytes, damaged_text

QUICK = ("run",)  # templates that the small fuzz needs


class StoppedError(Exception):
    """Stops a run between two chunks."""


def make_templates(place: Path, quick: bool) -> None:
    """Run folders to alter: finished ones, an unfinished one, a training run, a comparison.

    Made in a process of its own, because what is imported here must not start a compiler.
    """
    if (place / "done").exists():
        return
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            _make(place, quick)
            code = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise SystemExit("the run folders that are to be altered could not be made")


class Line:
    """An environment with vectors of two numbers, of which the first is to stay below one half."""

    def __init__(self) -> None:
        from gymnasium import spaces

        self.observation_space, self.action_space = spaces.Box(-1, 1, (2,), np.float64), spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.x = np.zeros(2)
        return self.x.copy(), {}

    def step(self, action: int) -> Any:
        self.x = np.clip(self.x + [0.4 * action, 0.1], -1, 1)
        return self.x.copy(), float(action), False, False, {"constraint": self.x[0] - 0.5}


def _make(place: Path, quick: bool) -> None:
    import everystep as es
    from everystep.experiments import experiment, runner
    from everystep.files import store

    place.mkdir(parents=True, exist_ok=True)
    pond = es.problems.from_map(("SFF", "FHF", "FFG"), horizon=4)
    prepared = experiment.prepare(pond, ["lsvi-ae"] if quick else ["lsvi-ae", "lsvi"], 6, 2, certify=True)
    prepared.run().save(place / "run", figures=not quick)
    if not quick:
        costs = es.agents.lsvi_ae(cost="gp(rbf(1, on=position))")
        experiment.prepare(pond, [costs], 4, 1).run().save(place / "gp", figures=False)
        features = np.full((9, 4, 2), 0.5)
        experiment.prepare(pond, [es.agents.lsvi_ae(features=features)], 4, 1).run().save(
            place / "features", figures=False
        )
        (place / "compared").mkdir()
        for name in ("a", "b"):
            shutil.copytree(place / "run", place / "compared" / name)
        gym_env = es.gym.make_env(pond)
        es.train(gym_env, "lsvi-ae", episodes=2).save(place / "training")
        es.train(
            Line(), "lsvi-ae", features=es.features.fourier(4), horizon=3, episodes=3, evaluate=1, out=place / "trained"
        )

    def stop(report: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise StoppedError

    left = 2
    store.EVERY, store.COST = 0.0, 0
    runner.local.CHUNK = 4
    with contextlib.suppress(StoppedError):
        runner.run(prepared, place / "unfinished", stop, figures=False)
    assert (place / "unfinished" / ".work").is_dir()
    from fuzz import bombs, trainings

    trainings.make(place / "foreign", quick)
    if not quick:
        bombs.make(place / "bombs")
    (place / "done").write_bytes(b"")


# --- altering ---------------------------------------------------------------------------------------------------------
ODD_JSON = (
    None,
    True,
    0,
    -1,
    1.5,
    1e308,
    float("nan"),
    10**30,
    "",
    "x",
    "\ud800",
    "a" * 2000,
    [],
    {},
    [[]],
    [None],
    {"": {}},
    "<script>",
    "../x",
    [0, 0],
    ["a", "a"],
)


def altered_json(bench: Bench, path: Path) -> bytes:
    """The same content with a value somewhere inside it replaced, removed, added or moved."""
    content = json.loads(path.read_bytes())
    for _ in range(int(bench.rng.integers(1, 3))):
        places: list[tuple[Any, Any]] = []

        def walk(node: Any, places: list[tuple[Any, Any]] = places) -> None:
            for key, child in list(node.items() if isinstance(node, dict) else enumerate(node)):
                places.append((node, key))
                if isinstance(child, dict | list):
                    walk(child)

        if isinstance(content, dict | list):
            walk(content)
        if not places:
            break
        node, key = bench.pick(places)
        how = int(bench.rng.integers(6))
        if how == 0:
            del node[key]
        elif how == 1 and isinstance(node, dict):
            node[bench.pick(("extra", "", "kind", "label", "agent"))] = node.pop(key)
        elif how == 2:
            node[key] = copy.deepcopy(bench.pick(list(node.values() if isinstance(node, dict) else node)))
        else:
            node[key] = copy.deepcopy(bench.pick(ODD_JSON))
    if bench.chance(0.05):
        content = bench.pick(ODD_JSON)
    return json.dumps(content).encode("utf-8", "surrogatepass")


def altered_npz(bench: Bench, path: Path) -> bytes:
    from fuzz.problem_files import npz

    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    name = bench.pick(list(arrays))
    how = int(bench.rng.integers(5))
    if how == 0:
        del arrays[name]
    elif how == 1:
        arrays[bench.pick(("extra", "lsvi_x", f"{name}_", "file"))] = arrays.pop(name)
    else:
        arrays[name] = damaged_array(bench, arrays[name])
    return npz(arrays)


def altered_parquet(bench: Bench, path: Path) -> bytes:
    """The same table with columns dropped, renamed, retyped, shuffled, cut or with missing values."""
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    table = few_rows(path)
    name = bench.pick(table.column_names)
    at = table.column_names.index(name)
    how = int(bench.rng.integers(9))
    n = table.num_rows
    if how == 0:
        table = table.drop_columns([name])
    elif how == 1:
        table = table.rename_columns([f"{each}x" if each == name else each for each in table.column_names])
    elif how == 2:
        table = table.set_column(at, name, pa.array([bench.pick(NUMBERS[:30])] * n))
    elif how == 3:
        table = table.set_column(at, name, pa.nulls(n, pa.float64()))
    elif how == 4:
        table = table.slice(0, int(bench.rng.integers(n)))
    elif how == 5:
        table = pa.concat_tables([table, table.slice(0, 1)])
    elif how == 6:
        table = table.take(pa.array(bench.rng.permutation(n)))
    elif how == 7:
        table = table.set_column(at, name, pa.array([bench.pick((float("nan"), float("inf"), 1e308, -1.0))] * n))
    else:
        table = table.set_column(at, name, pa.array([[1.0]] * n))
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


INSIDE = {".json": altered_json, ".npz": altered_npz, ".parquet": altered_parquet}


def alter(bench: Bench, folder: Path) -> None:
    """Change one file or folder below `folder`."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".svg", ".png"))
    victim: Path = bench.pick(files)
    how = int(bench.rng.integers(16))
    data = victim.read_bytes()
    if how < 6 and victim.suffix in INSIDE:
        try:
            changed = INSIDE[victim.suffix](bench, victim)
        except Exception:  # it was damaged before
            changed = damaged_bytes(bench, data)
        victim.write_bytes(changed)
    elif how < 9:
        victim.write_bytes(damaged_bytes(bench, data))
    elif how == 9:
        victim.write_bytes(damaged_text(bench, data.decode("utf-8", "replace")))
    elif how == 10:
        victim.unlink()
    elif how == 11:
        victim.unlink()
        victim.mkdir()
    elif how == 12:
        victim.unlink()
        victim.symlink_to(bench.pick((victim, folder, folder / "nowhere")))
    elif how == 13:
        victim.chmod(0)
    elif how == 14:
        victim.unlink()
        os.mkfifo(victim)
    else:
        other: Path = bench.pick(files)
        if other != victim:
            victim.write_bytes(other.read_bytes())


def seal_again(folder: Path) -> None:
    """Write the checksums of the altered files into the list of what was written, as a thorough forger would."""
    for listed in folder.rglob(".everystep.sha256"):
        if listed.is_file():
            sums = [
                f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
                for path in sorted(listed.parent.iterdir())
                if path.is_file() and path != listed and os.access(path, os.R_OK)
            ]
            listed.write_bytes("".join(sums).encode("utf-8", "surrogateescape"))


TRAININGS = ("training", "trained")
RUNS = ("run", "gp", "features", "compared", "unfinished", *TRAININGS)
READERS = ("summary", "certify", "theory", "figures", "report", "resume", "run", "compare")


@COMMAND.kind("folders", 13)
def folder(bench: Bench) -> Case:
    templates = [path.name for path in sorted(bench.templates.iterdir()) if path.name in RUNS]
    name = bench.pick([*templates, "run", "run", "unfinished"])
    shutil.copytree(bench.templates / name, bench.here / "run", symlinks=True)
    for _ in range(int(bench.rng.integers(1, 3))):
        alter(bench, bench.here / "run")
    if bench.chance(0.6):
        seal_again(bench.here / "run")
    cheap = ("summary", "summary", "certify", "resume") if bench.quick else READERS
    command = bench.pick(cheap)
    if name == "compared":
        return Case(["compare", "--table-only", "--out", "run"], written=["run"])
    if name in TRAININGS and bench.chance(0.7):
        words = bench.pick((["report", "run"], ["report", "run", "--no-player"], ["compare", "run"]))
        along = bench.pick((["--along", "0,1"], ["--along", "1,9"], ["--along", "x"])) if bench.chance(0.3) else []
        return Case([*words, *(along if words[0] == "report" else [])], written=["run"])
    if command == "compare":
        return Case(["compare", "--table-only", "--out", "."], written=["."])
    if command == "run":
        (bench.here / "map.txt").write_bytes(b"SFF\nFHF\nFFG\n")
        return Case(
            ["run", "--problem", "map.txt", "--horizon", "4", "--agents", "lsvi-ae,lsvi", "--episodes", "6",
             "--seeds", "2", "--certify", "--out", "run"],
            written=["run"], kept=["run"],
        )  # fmt: skip
    words = [command, "run"]
    if command == "report" and bench.chance(0.8):
        words.append("--no-player")
    if command == "certify" and bench.chance(0.5):
        words += bench.pick(
            (
                ["--agent", "lsvi-ae"],
                ["--seed", "9"],
                ["--step", "99"],
                ["--seed", "x"],
                ["--agent", ""],
                ["--step=0"],
                ["--seed=1"],
            )
        )
    if command == "theory":
        words += ["--seeds", bench.pick(("1", "2", "100", "0"))]
    if command == "figures" and bench.chance(0.3):
        words += ["--style", "paper"]
    return Case(words, written=["run"], kept=["run"] if command == "resume" else [])
