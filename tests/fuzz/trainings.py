"""Inputs that are folders of trainings in which something was altered, with all checksums computed again.

The folder is this user's (its request is signed) or somebody else's. In the folder lies a module that must never be
imported, whoever names it; beside the folder one that may be imported only if the folder is trusted. Both leave a mark
in the home folder, where every file is a failure.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fuzz import bombs
from fuzz.cases import FOREIGN, LEAST_MEMORY, Bench, Case
from fuzz.folders import ODD_JSON, altered_json, altered_parquet, seal_again
from fuzz.problem_files import damaged_array, damaged_bytes, huge_header
from fuzz.problem_files import npz as written_npz

LINE = "fuzz.trainings:Line"
KERNEL, GP = "kernel(rbf(1, on=observation))", "gp(rbf(1, on=observation))"
MARKED = """
import os, pathlib
pathlib.Path(os.environ["HOME"], ".imported").write_bytes(b"x")
from fuzz.trainings import Line as make
"""


class Line:
    """An environment with vectors of two numbers, of which the first is to stay below one half, and with pictures."""

    render_mode = "rgb_array"
    pause = 0.0  # seconds of a step

    def __init__(self, box: bool = False) -> None:
        from gymnasium import spaces

        self.observation_space = spaces.Box(-1, 1, (2,), np.float64)
        self.action_space = spaces.Box(-1, 1, (1,), np.float64) if box else spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.x = np.zeros(2)
        return self.x.copy(), {}

    def step(self, action: Any) -> Any:
        time.sleep(self.pause)
        push = float(np.asarray(action).reshape(-1)[0])
        self.x = np.clip(self.x + [0.4 * push, 0.1], -1, 1)
        return self.x.copy(), push, False, False, {"constraint": self.x[0] - 0.5}

    def render(self) -> np.ndarray:
        return np.full((8, 8, 3), int(100 + 50 * self.x[0]), np.uint8)

    def close(self) -> None:
        pass


class Wide(Line):
    """The same: another name, for an evaluation beside that of the training."""


def make(place: Path, quick: bool) -> None:
    """Folders of trainings and of policies to alter."""
    import everystep as es
    from everystep.files import store
    from everystep.training.seeds import run as training_seeds
    from everystep.training.seeds.request import TrainingRequest
    from everystep.training.seeds.run import Means, train

    place.mkdir(parents=True)
    small: dict[str, Any] = {"horizon": 3, "length": 4}
    request = TrainingRequest(LINE, features="fourier(4)", episodes=4, seeds=(0,) if quick else (0, 1), **small)
    train(request, place / "finished", Means(cache=False), lambda message: None)
    policies = place / "policies"
    policies.mkdir()
    shutil.copytree(place / "finished" / "seed-0" / "policy", policies / "linear")
    if quick:
        return
    from everystep.cli.evaluate import evaluate

    evaluate(place / "finished", LINE, None, 2)
    evaluate(place / "finished", LINE.replace("Line", "Wide"), None, 1)
    lake = es.gym.make_env(es.problems.from_map(("SF", "FG"), horizon=3))
    small["episodes"] = 3
    trained: dict[str, Any] = {
        "ahead": es.train(Line(), "lsvi-ahead", features=es.features.tiles(2, 2), **small),
        "box": es.train(Line(box=True), features=es.features.polynomial(1), actions=es.actions.grid(3), **small),
        "kernel": es.train(Line(), es.agents.lsvi_ae(value=KERNEL, cost=GP), **small),
        "lake": es.train(lake, episodes=2),
        "nets": es.train(Line(), "lsvi-nets", length=4, episodes=6),
    }
    for name, each in trained.items():
        each.policy.save(policies / name)
    es.train(Line(), features=es.features.fourier(4), evaluate=1, out=place / "single", **small)
    store.EVERY, store.COST, training_seeds.OFTEN, Line.pause = 0.0, 0, 0.0, 0.05
    request = TrainingRequest(LINE, features="fourier(4)", episodes=9, seeds=(0, 1), horizon=3, length=4)

    def stop(message: Any) -> None:
        if message.episodes > 2:
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        train(request, place / "unfinished", Means(cache=False), stop)
    assert list((place / "unfinished").glob("seed-*/.work/checkpoint-*"))
    request = TrainingRequest(LINE, agent="lsvi-nets", episodes=9, seeds=(0,), length=4)

    def stop_later(message: Any) -> None:
        if message.episodes > 5:  # networks learn from the 16th step on
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        train(request, place / "nets", Means(cache=False), stop_later)
    assert list((place / "nets").glob("seed-*/.work/checkpoint-*"))


# --- altering ---------------------------------------------------------------------------------------------------------
def deep(levels: int) -> Any:
    content: Any = 0
    for _ in range(levels):
        content = [content]
    return content


HUGE = (10**400, -(10**400), 10**4000, 1e309, 2**63, 2**31, -(2**31), [0] * 20_000, deep(30), deep(900), 1e-320)
NAMES = (
    "run.evil:make",
    "evil:make",
    "beside:make",
    "run.seed-0.evil:make",
    "os:getcwd",
    "beside",
    "../evil:make",
    ":",
)


def hostile_json(bench: Bench, path: Path) -> bytes:
    """The content with values inside it replaced, removed, added or moved; at times by huge or deep ones, or names."""
    if bench.chance(0.55):
        return altered_json(bench, path)
    content = json.loads(path.read_bytes())
    places = list(_places(content))
    for _ in range(int(bench.rng.integers(1, 3))):
        node, key = bench.pick(places) if places else ([0], 0)
        node[key] = bench.pick((*HUGE, *ODD_JSON))
    if path.name == "training.json" and bench.chance(0.6):
        content["request"][bench.pick(("env", "env", "constraint", "on_episode", "on_plan"))] = bench.pick(NAMES)
    return json.dumps(content).encode("utf-8", "surrogatepass")


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    for key, child in list(content.items() if isinstance(content, dict) else enumerate(content)):
        yield content, key
        if isinstance(child, dict | list):
            yield from _places(child)


def hostile_npz(bench: Bench, path: Path) -> bytes:
    """Arrays renamed, removed, added, of other types or shapes, with Python objects, or of gigabytes."""
    if path.stat().st_size > 200_000:
        return damaged_bytes(bench, path.read_bytes())  # it holds gigabytes already
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    name, how = bench.pick(list(arrays)), int(bench.rng.integers(9))
    given = arrays[name]
    if how == 0:
        del arrays[name]
    elif how == 1:
        arrays[bench.pick((f"{name}_", "extra", "value_plan_x", f"learner.{name}", "../x"))] = arrays.pop(name)
    elif how == 2 and not bench.quick:
        return bombs.npz(bench, arrays, bench.pick((name, name, "extra", "price", "value_plan_w")))
    elif how == 3:
        return _with_member(arrays, name, huge_header(bench))
    elif how == 4:
        arrays[name] = np.array([print, {}], object) if bench.chance(0.5) else given.astype(object)
    elif how == 5:
        shape = tuple(int(n) for n in bench.rng.integers(0, 4, bench.rng.integers(0, 4)))
        arrays[name] = np.resize(given, shape) if given.size else np.zeros(shape)
    elif how == 6 and given.dtype.kind == "f" and given.size:
        with np.errstate(all="ignore"):
            arrays[name] = given * bench.pick((0.0, -1.0, 1e20, 1e150, 1e308, 1e-300, np.nan))
    else:
        arrays[name] = damaged_array(bench, given)
    return written_npz(arrays)


def _with_member(arrays: dict[str, np.ndarray], name: str, member: bytes) -> bytes:
    import io
    import zipfile

    file = io.BytesIO(written_npz({each: array for each, array in arrays.items() if each != name}))
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member)
    return file.getvalue()


def hostile_parquet(bench: Bench, path: Path) -> bytes:
    if not bench.quick and bench.chance(0.25):
        return bombs.parquet(bench, path)
    return altered_parquet(bench, path)


def hostile_png(bench: Bench, path: Path) -> bytes:
    return bombs.png(bench, path.read_bytes())


INSIDE = {".json": hostile_json, ".npz": hostile_npz, ".parquet": hostile_parquet, ".png": hostile_png}


def alter(bench: Bench, folder: Path) -> str:
    """Change one file below a folder, most times inside; returns what was changed."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    known = [path for path in files if path.suffix in INSIDE]
    victim: Path = bench.pick(known if bench.chance(0.9) and known else files)
    shown = os.path.relpath(victim, folder)
    how = int(bench.rng.integers(16))
    if how < 11 and victim.suffix in INSIDE:
        try:
            changed = INSIDE[victim.suffix](bench, victim)
        except Exception:  # it was damaged before
            changed = damaged_bytes(bench, victim.read_bytes())
        victim.write_bytes(changed)
        return f"{shown} inside"
    if how < 12:
        victim.write_bytes(damaged_bytes(bench, victim.read_bytes()))
        return f"{shown} damaged"
    if how < 14:
        alike = [path for path in files if path.suffix == victim.suffix and path != victim]
        if alike:
            victim.write_bytes(bench.pick(alike).read_bytes())
        return f"{shown} swapped"
    victim.unlink()
    what = bench.pick(("nothing", "folder", "link", "pipe", "empty", "loop"))
    if what == "folder":
        victim.mkdir()
    elif what == "link":
        victim.symlink_to(bench.pick((folder, folder / "nowhere", Path("/dev/zero"), Path("/etc/passwd"))))
    elif what == "loop":
        victim.symlink_to(victim)
    elif what == "pipe":
        os.mkfifo(victim)
    elif what == "empty":
        victim.write_bytes(b"")
    return f"{shown} replaced by {what}"


# --- checksums --------------------------------------------------------------------------------------------------------
def recompute(folder: Path, own: bool) -> None:
    """All checksums below a folder, as its forger would compute them; the signature if this user is to have made it."""
    from everystep.environments.play import trust
    from everystep.files import store

    def sealed(content: Any, around: Path) -> None:
        with contextlib.suppress(OSError):
            content["arrays"].update(sha256=_sha256(around / content["arrays"]["name"]))
        content.pop("checksum", None)
        content["checksum"] = store.checksum(content)

    for name in ("policy.json", "learner.json"):
        for path in _files(folder, name):
            _edit(path, lambda content, path=path: sealed(content, path.parent))
    for path in _files(folder, "spec.json"):
        named = path.parent / "policy" / "policy.json"
        if named.is_file():
            _edit(path, lambda content, named=named: content.update(policy=_sha256(named)))
    for path in _files(folder, "training.json"):
        _edit(path, lambda content: content.update(signature=trust.sign(content["request"]) if own else "0" * 64))
    seal_again(folder)


def _files(folder: Path, name: str) -> list[Path]:
    return [path for path in sorted(folder.rglob(name)) if path.is_file() and not path.is_symlink()]


def _sha256(path: Path) -> str:
    if not path.is_file():
        raise OSError("a pipe would be read for ever")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _edit(path: Path, change: Callable[[Any], object]) -> None:
    """Change the content of a JSON file; one that cannot be changed so stays as it is."""
    with contextlib.suppress(Exception):
        content = json.loads(path.read_bytes())
        change(content)
        path.write_bytes(json.dumps(content, indent=1).encode("utf-8", "surrogatepass"))


# --- commands ---------------------------------------------------------------------------------------------------------
READING = ("summary", "summary", "report", "figures", "compare", "leaderboard", "load")
RUNNING = ("evaluate", "evaluate", "evaluate", "resume", "train", "learner")


@FOREIGN.kind("trainings", 45)
def training(bench: Bench) -> Case:
    templates = bench.templates / "foreign"
    name = bench.pick([path.name for path in sorted(templates.iterdir()) if path.name != "policies"])
    run = bench.here / "run"
    shutil.copytree(templates / name, run, symlinks=True)
    own, trusted = bench.chance(0.5), bench.chance(0.3)
    if not own:
        os.environ["EVERYSTEP_STATE"] = str(bench.here.parent / "state")
    changed = [alter(bench, run) for _ in range(int(bench.rng.integers(1, 3)))]
    for place in (run, run / "seed-0"):
        if place.is_dir():
            (place / "evil.py").write_bytes(MARKED.encode())
    recompute(run, own)
    command = bench.pick(("summary", "summary", "compare", "load") if bench.quick else READING + RUNNING)
    inner = bench.chance(0.2)
    runs_code = own or (trusted and command in ("evaluate", "resume"))
    (bench.here / "beside.py").write_bytes(
        MARKED.encode() if not runs_code else b"from fuzz.trainings import Line as make"
    )
    where = "run"
    if inner and command not in ("leaderboard", "train", "learner", "load"):
        os.chdir(run)
        where = "."
    about = f"{name}, {'own' if own else 'foreign'}, {'; '.join(changed)}"
    case = _case(bench, command, where, run, trusted)
    case.shown = f"{command} {' '.join(map(str, case.words))} [{about}]"
    case.memory = LEAST_MEMORY
    return case


def _case(bench: Bench, command: str, where: str, run: Path, trusted: bool) -> Case:
    """A command on an altered folder, or a call; what it may write there."""
    import everystep as es

    trust = ["--trust"] if trusted else []
    if command in ("summary", "compare"):
        return Case([command, where] if command == "summary" or bench.chance(0.7) else [command, where, where])
    if command in ("report", "figures"):
        words = [command, where, *(["--no-player"] if command == "report" and bench.chance(0.8) else [])]
        return Case(words, written=["run/report.html", "run/figures", "run/.everystep.sha256"])
    if command == "leaderboard":
        words = ["leaderboard", "--convert", where, "--system", "s", "--problem", "p", "--out", "new.parquet"]
        return Case(words, written=["new.parquet", ".everystep.sha256"])
    if command == "evaluate":
        given = ["--env", LINE] if bench.chance(0.4) else []
        return Case(["evaluate", where, "--episodes", "1", *given, *trust], written=["run"], any_words=False)
    if command == "resume":
        return Case(["resume", where, *trust], written=["run"], kept=["run"])
    seed = run / "seed-0" if (run / "seed-0").is_dir() else run
    if command == "load":
        return Case(call=lambda: use(es.Policy.load(seed / "policy"), bench), written=["saved"], kept=["saved"])
    if command == "learner":
        saved = [*sorted((seed / ".work").glob("checkpoint-*")), seed / "learner"]
        chosen = bench.pick(saved)

        def more() -> None:
            learner = es.Learner.load(chosen, Line())
            learner.play(1)
            learner.result()

        return Case(call=more)
    options: dict[str, Any] = {"horizon": 3, "length": 4, "episodes": int(bench.pick((3, 4, 5, 9)))}
    features = es.features.fourier(4)
    return Case(call=lambda: es.train(Line(), features=features, out=seed, **options), written=["run"], kept=["run"])


# --- policies ---------------------------------------------------------------------------------------------------------
ROWS = (
    [0.1, 0.2], [0.0, 0.0], [1e300, 0.0], [-1e300, np.nan], [], [[0.1, 0.2]], np.zeros((3, 2)), "x", None, 0, 3, -1,
    2**40, np.ma.array([0.1, 0.2], mask=[True, False]), np.zeros((0, 2)), {"a": 1}, 10**400,
)  # fmt: skip


def use(policy: Any, bench: Bench) -> None:
    """Everything that can be done with a policy; each call returns or raises an error of ours."""
    import everystep as es

    row = bench.pick(ROWS)
    step = bench.pick((1, 2, 3, 4, 100, 2**31, 0, -1, "x", 10**400))
    deeds = (
        lambda: policy(row),
        lambda: policy(row, step=step),
        lambda: policy.predict(row),
        lambda: policy.predict(np.zeros((3, 2)), state=bench.pick((None, (np.arange(3),), 3)), episode_start=True),
        lambda: policy.certify(row, step),
        lambda: policy.bounds(row, step),
        lambda: policy.confidence,
        lambda: str(policy) + repr(policy),
        lambda: es.shield(policy, bench.pick((None, 0.1, np.inf))).admissible(row),
        lambda: es.evaluate(policy, Line(), episodes=1),
        lambda: policy.save("saved"),
        lambda: es.Policy.load(policy.save("saved"))(row),
        lambda: (policy([0.1, 0.2]), policy.certify([0.1, 0.2]), policy.bounds([0.1, 0.2])),
    )
    refused = None
    for deed in bench.some(deeds, 5):
        try:
            deed()
        except es.EverystepError as error:
            refused = error
    if refused is not None:
        raise refused


@FOREIGN.kind("policies", 25)
def policy(bench: Bench) -> Case:
    import everystep as es

    folder = bench.here / "policy"
    kinds = sorted((bench.templates / "foreign" / "policies").iterdir())
    chosen: Path = bench.pick(kinds)
    shutil.copytree(chosen, folder)
    changed = [alter(bench, folder) for _ in range(int(bench.rng.integers(1, 3)))]
    recompute(folder, own=False)
    return Case(
        call=lambda: use(es.Policy.load("policy"), bench), shown=f"{chosen.name}: {'; '.join(changed)}",
        written=["saved"], kept=["saved"], memory=LEAST_MEMORY,
    )  # fmt: skip
