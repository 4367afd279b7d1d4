"""Inputs of `everystep leaderboard`: files of results and monitor files in which something was altered, odd options."""

from __future__ import annotations

import io
import json
from typing import Any

from fuzz.cases import COMMAND, NUMBERS, TEXTS, Bench, Case
from fuzz.folders import altered_parquet
from fuzz.places import obstacle, word
from fuzz.problem_files import damaged_bytes, damaged_text

ODD_NUMBERS = (0, -1, 1, 10**6, 2**62, 0.0, -0.0, 1e-300, 1e99, 1e101, 1e308, float("nan"), float("inf"))
ODD_LISTS = ([], [None], [0.0], [1.0, 0.5], [float("nan")], [1e308, 1e308], None)
SYSTEMS = {
    "random": None, "ours": "ours", "a|b": "rival", "$x$": "ours", "\u96ea": "reference", "n" * 100: None,
    "lsvi-ae": "ours",
}  # fmt: skip


def rows(bench: Bench, first: int = 0) -> list[dict[str, Any]]:
    """Rows that fit the format, of a few systems, problems and seeds from `first` on; strange but allowed values."""
    found = []
    for system, kind in bench.some(list(SYSTEMS.items()), 4):
        for problem in bench.some(["lake", "p*q", "<b>"], 3):
            for seed in bench.some([first, first + 1, first + 2, first + 2**60], 3):
                harm = float(bench.pick((0.0, 0.5, 3.0, 1e-300, 1e99)))
                found.append(
                    {
                        "system": system, "problem": problem, "seed": seed, "steps": bench.pick((1, 100, 2**62)),
                        "harm": harm, "unsafe_steps": int(harm > 0), "last_violation": int(harm > 0),
                        "final_return": float(bench.pick((0.0, -5.0, 2.0, 1e99, -1e99))), "final_harm": harm,
                        "final_episodes": 1, "command": bench.pick(("", "x", "a`b", "x" * 5000)), "versions": "{}",
                        "kind": kind, "harm_curve": bench.pick((None, [0.0, harm], [harm])),
                    }
                )  # fmt: skip
    return found


def parquet(content: list[dict[str, Any]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(content), file)
    return file.getvalue()


def altered_rows(bench: Bench, first: int = 0) -> bytes:
    """A file of results: right, with one value replaced, with a column altered, or damaged."""
    content = rows(bench, first)
    how = int(bench.rng.integers(7)) - 3
    if how <= 0:
        return parquet(content)
    if how == 1:
        each = bench.pick(content)
        name = bench.pick(list(each))
        odd = ODD_LISTS if name.endswith("curve") else ODD_NUMBERS if isinstance(each[name], int | float) else TEXTS
        value = bench.pick(odd)
        if isinstance(each[name], int) and not isinstance(value, int):
            value = 0
        value = float(value) if isinstance(each[name], float) else value
        each[name] = value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value
        return parquet(content)
    whole = parquet(content)
    if how == 2:
        return damaged_bytes(bench, whole)
    path = bench.here / "altered"
    path.write_bytes(whole)
    try:
        return altered_parquet(bench, path)
    except Exception:  # pyarrow has no such table
        return whole
    finally:
        path.unlink()


def monitor_text(bench: Bench) -> bytes:
    """A monitor file of stable-baselines3, at times with an odd value or damaged."""
    names = ["r", "l", "t", bench.pick(("harm", "harm", "harm", "harm", "cost"))]
    if bench.chance(0.3):
        names.append("unsafe_steps")
    lines = ["#" + json.dumps({"t_start": 1.0, "env_id": bench.pick(("x", None, 3))}), ",".join(names)]
    for i in range(int(bench.rng.integers(0, 30))):
        values = [str(bench.pick((1, -2.5, 0))), "10", f"{i}", *[bench.pick(("0", "1"))] * len(names[3:])]
        if bench.chance(0.01):
            values[int(bench.rng.integers(len(values)))] = bench.pick(NUMBERS)
        lines.append(",".join(values))
    text = "\n".join(lines) + "\n"
    whole = text.encode("utf-8", "surrogatepass")
    return damaged_text(bench, whole.decode("utf-8", "replace")) if bench.chance(0.25) else whole


def write_monitors(bench: Bench) -> None:
    (bench.here / "monitors").mkdir()
    names = ["seed-0.monitor.csv", "seed-1.monitor.csv", "2.monitor.csv"]
    for name in bench.some([*names, *(["monitor.csv", "1e9"] if bench.chance(0.2) else [])], 3):
        (bench.here / "monitors" / name).write_bytes(monitor_text(bench))


@COMMAND.kind("results", 4)
def results(bench: Bench) -> Case:
    """A leaderboard of such files, or the file of results that is made of others."""
    if bench.chance(0.4):
        write_monitors(bench)
        out = obstacle(bench, bench.pick((".parquet", ""))) if bench.chance(0.3) else "new.parquet"
        words = [
            "leaderboard",
            "--convert",
            "monitors",
            f"--system={_text(bench, 's')}",
            f"--problem={_text(bench, 'p')}",
        ]
        words += [f"--out={word(out)}"]
        odd = (
            ["--kind", "ours"], ["--kind=best"], ["--seeds", "0,1"], ["--seeds=x"], ["--seeds="],
            ["--final", "monitors"], ["--final", "nowhere"], ["--harm-column", "cost"], ["--harm-column="],
            ["--versions", "{}"], ["--versions=[1]"], ['--versions={"a": 1}'], ["--command", "x"],
            ["--baseline", "s"], ["--page", "p.md"],
        )  # fmt: skip
        return Case([*words, *(bench.pick(odd) if bench.chance(0.3) else [])], written=["."])
    (bench.here / "results").mkdir()
    for i in range(int(bench.rng.integers(1, 3))):
        (bench.here / "results" / f"{i}.parquet").write_bytes(altered_rows(bench, 10 * i))
    in_the_way = bench.pick(("where", "out", "", "", ""))
    where = obstacle(bench, bench.pick(("", ".parquet"))) if in_the_way == "where" else "results"
    words = ["leaderboard", *(["--"] if where.startswith("-") else []), word(where)]
    odd_out = f"--out={word(obstacle(bench))}" if in_the_way == "out" else "--out=board"
    options = [
        odd_out,
        *(bench.pick((["--page=p.md"], ["--page=p"], [f"--baseline={_text(bench, 'ours')}"], [], [], []))),
    ]
    return Case([words[0], *options, *words[1:]], written=["."])


def _text(bench: Bench, usual: str) -> str:
    return bench.pick(TEXTS) if bench.chance(0.1) else usual
