"""Inputs that are files of problems: maps, arrays and heights, valid ones with something changed."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fuzz.cases import COMMAND, DTYPES, NUMBERS, TEXTS, Bench, Case, array

AGENTS = (
    "lsvi-ae", "lsvi", "lsvi-primal", "lsvi-new", "rpol", "slucb-qvi", "rslucb-qvi", "uniform", "lsvi-ahead",
    "lsvi-priced", "sucbvi", "lsvi-nets",
)  # fmt: skip


def run_case(bench: Bench, *words: str, agents: str | None = None, out: str | None = None) -> Case:
    """`everystep run` with these words, small. Most of them name a folder in use, so that nothing is compiled."""
    chosen = agents if agents is not None else ",".join(bench.some(AGENTS, 2))
    small = ["--episodes", str(bench.pick((1, 2, 7))), "--seeds", str(bench.pick((1, 1, 2)))]
    given = set(words)
    small = [word for i in (0, 2) if small[i] not in given for word in small[i : i + 2]]
    listed = [] if "--agents" in given else ["--agents", chosen]
    if out is None and bench.chance(0.3) and not bench.quick:
        return Case(["run", *words, *listed, *small, "--out", "new"], written=["new", "new-logs"])
    if out is None:
        out = "used"
        (bench.here / out).mkdir()
        (bench.here / out / "other.txt").write_bytes(b"something else\n")
        return Case(["run", *words, *listed, *small, "--out", out])
    return Case(["run", *words, *listed, *small, "--out", out], written=[out])


# --- maps -------------------------------------------------------------------------------------------------------------
ODD_LETTERS = "sfhg \t\x00\x0b\x0c\x1f\x85\u2028\u00a0\u0130\u202eS\u0301\U0001f600\ufeffFFHG#.SX*?\\'\"<&"


def rows_of_a_map(bench: Bench, most: int = 7) -> list[str]:
    rng = bench.rng
    height, width = (int(n) for n in rng.integers(1, most, 2))
    cells = rng.choice(list("FFFF.H#"), (height, width))
    for letter in "SG":
        cells[int(rng.integers(height)), int(rng.integers(width))] = letter
    return ["".join(row) for row in cells]


def damaged_text(bench: Bench, text: str) -> bytes:
    """A text with a few changes of the kind that editors, systems and people make."""
    rng = bench.rng
    data = text.encode()
    for _ in range(int(rng.integers(0, 4))):
        how = int(rng.integers(14))
        at = int(rng.integers(len(data) + 1))
        if how == 0:
            data = data.replace(b"\n", bench.pick([b"\r\n", b"\r", b"\n\n", b"\n\r", b"\x0b", "\u2028".encode(), b""]))
        elif how == 1:
            data = bench.pick([b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\x00", b"#!", b"\n", b" "]) + data
        elif how == 2:
            data = data[:at] + bench.pick(ODD_LETTERS).encode("utf-8", "surrogatepass") + data[at + 1 :]
        elif how == 3:
            data = data[:at] + bytes([int(rng.integers(256))]) + data[at:]
        elif how == 4:
            data = data[:at]
        elif how == 5:
            data = data[:at] + data[at + int(rng.integers(1, 5)) :]
        elif how == 6:
            data = data * int(rng.integers(2, 4))
        elif how == 7:
            data = data.decode("utf-8", "replace").encode(bench.pick(["utf-16", "utf-16-le", "utf-32", "utf-7"]))
        elif how == 8:
            data = data + bench.pick([b"\n", b"\n\n\n", b"   ", b"\x1a", b"\x00" * 100, b"\xff"])
        elif how == 9:
            data = bench.pick([b"", b"\n", b" ", b"\x00", b"\xef\xbb\xbf", bytes(1000), b"\n" * 5000])
        elif how == 10 and len(data) < 2000:
            line = data.split(b"\n")[0] or b"F"
            data = line * int(10 ** rng.integers(1, 5)) + b"\n" + data
        elif how == 11:
            data = data.lower() if bench.chance(0.5) else data.swapcase()
        elif how == 12:
            lines = data.split(b"\n")
            rng.shuffle(lines)  # type: ignore[arg-type]
            data = b"\n".join(lines)
        elif how == 13:
            data = data[:at] + b"#" + data[at:]
    return data


@COMMAND.kind("maps", 13)
def a_map(bench: Bench) -> Case:
    if bench.chance(0.08):  # larger than usual, up to absurd
        side = int(bench.pick((20, 40, 90, 200, 1000)))
        cells = np.full((side, int(bench.pick((1, side)))), "F")
        cells[0, 0], cells[-1, -1] = "S", "G"
        rows = ["".join(row) for row in cells]
    else:
        rows = rows_of_a_map(bench)
    text = "\n".join(rows) + ("\n" if bench.chance(0.8) else "")
    name = bench.path(
        bench.pick(("map.txt", "map.txt", "map.track", "a b.txt", "-map.txt", "m\u00e4p.txt", "map.TXT", "x.csv")),
        damaged_text(bench, text),
    )
    words = ["--problem", f"./{name}" if name.startswith("-") else name]
    if bench.chance(0.4):
        words += [
            "--horizon",
            str(bench.pick((1, 2, 3, 20, 0, -1, 10**6)) if bench.chance(0.8) else bench.pick(NUMBERS)),
        ]
    if bench.chance(0.3):
        words += [
            "--set",
            bench.pick(("cost=gp", "cost=linear", "cost=counts", "value=kernel", "known_safe=safest", "react=true")),
        ]
    return run_case(bench, *_without_dash_values(words))


def _without_dash_values(words: Sequence[str]) -> list[str]:
    """`--flag=-1` where `--flag -1` would be taken for another flag."""
    joined: list[str] = []
    for word in words:
        if (
            joined
            and joined[-1].startswith("--")
            and "=" not in joined[-1]
            and word.startswith("-")
            and not word.startswith("--")
        ):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


# --- arrays -----------------------------------------------------------------------------------------------------------
def arrays_of_a_problem(bench: Bench) -> dict[str, Any]:
    rng = bench.rng
    S, A, H = int(rng.integers(1, 6)), int(rng.integers(1, 4)), int(rng.integers(1, 5))
    steps = (H,) if bench.chance(0.3) else ()
    P = rng.random((*steps, S, A, S)) ** 3 + 1e-3
    P /= P.sum(-1, keepdims=True)
    g = rng.uniform(-1, 1, (*steps, S, A))
    g[..., 0] = -np.abs(g[..., 0])
    if bench.chance(0.3):
        g = np.stack([g, g - 0.1])
    arrays: dict[str, Any] = {
        "P": P,
        "r": rng.random((*steps, S, A)),
        "g": g,
        "start": np.array(0),
        "horizon": np.array(H),
    }
    if bench.chance(0.2):
        d = int(rng.integers(1, 4))
        phi, mu = rng.random((S, A, d)) + 0.01, rng.random((d, S)) + 0.01
        arrays |= {"phi": phi / phi.sum(-1, keepdims=True), "mu": mu / mu.sum(-1, keepdims=True)}
        if bench.chance(0.8):
            del arrays["P"]
    elif bench.chance(0.3):
        arrays |= {"successors": np.broadcast_to(rng.permutation(S), (S, A, S)).copy(), "probabilities": P}
        if bench.chance(0.8):
            del arrays["P"]
    optional = {
        "reward_sigma": np.array(0.1), "cost_sigma": np.array(0.1), "features": rng.random((S, A, 2)),
        "exempt": np.zeros(S, bool),
        "rows": np.array(["S" * S]), "heights": rng.random((1, S)), "kernel": np.array("rbf(2, on=state)"),
        "linear_costs": np.array(False),
        "threshold": np.array(0.5), "safe_action": np.zeros(S, int), "coordinate_place": rng.random((S, A, 2)),
        "name": np.array("mine"),
        "reward_on_arrival": np.broadcast_to(arrays["r"][..., None], (*steps, S, A, S)).copy(),
        "triples": rng.random((S, A, S, 2)),
    }  # fmt: skip
    if bench.chance(0.5):
        arrays |= {name: optional[name] for name in bench.some(list(optional), 3)}
    if bench.chance(0.15):
        arrays["start"] = bench.pick([np.full(S, 1 / S), np.zeros(7, int), np.array([0]), np.array(S - 1)])
    return arrays


def damaged_array(bench: Bench, given: Any) -> Any:
    rng = bench.rng
    found = np.array(given)
    how = int(rng.integers(15))
    with np.errstate(all="ignore"):
        try:
            if how == 0:
                return found.astype(bench.pick(DTYPES))
            if how == 1:
                return found.T
            if how == 2:
                return found[None]
            if how == 3:
                return found.reshape(-1)
            if how == 4:
                return array(bench)
            if how == 5 and found.size:
                found = np.real(found).astype(float)
                found.flat[int(rng.integers(found.size))] = bench.pick([np.nan, np.inf, -np.inf, 1e308, -1, 2, 1e-320])
                return found
            if how == 6:
                return found[:-1]
            if how == 7:
                return found[..., :0]
            if how == 8:
                return np.concatenate([found, found], axis=int(rng.integers(max(found.ndim, 1))))
            if how == 9:
                return np.real(found).astype(float) * bench.pick([0.0, -1.0, 0.999, 1.0001, 1e150, 1e300, np.nan, 2.0])
            if how == 10:
                return np.array(bench.pick([*NUMBERS[:40], *TEXTS[:50]]))
            if how == 11:
                return np.asfortranarray(found).astype(found.dtype.newbyteorder(">"))
            if how == 12:
                return np.zeros(3, dtype=[("a", "f8"), ("b", "i4")])
            if how == 13:
                return np.array(bench.pick([-1, 0, 1, 10**3, 10**9, 10**15, 2**63 - 1, 0.5, True, 1e300]))
            return np.array(None)
        except Exception:  # NumPy cannot do it; a date as a short text is a RuntimeError
            return found


def npz(arrays: dict[str, Any], how: Callable[..., None] = np.savez) -> bytes:
    file = io.BytesIO()
    how(file, **arrays)
    return file.getvalue()


def huge_header(bench: Bench, descr: str = "<f8") -> bytes:
    """An array in the format of .npy that says it is larger than it is."""
    side = int(10 ** bench.rng.integers(2, 10))
    shape = bench.pick([(side,), (side, side), (side, 4, side), (-1,), (2**63,), (side, side, side, side)])
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape!r}, }}"
    if bench.chance(0.2):
        text = bench.pick(
            [
                "{'descr': 'O'}",
                "[" * 300,
                "{}",
                "__import__('os')",
                "{'descr': '<f8', 'fortran_order': 0, 'shape': 1}",
                "(" * 9000,
                "1" * 9000,
            ]
        )
    data = text.encode() + b" " * (64 - (len(text) + 11) % 64) + b"\n"
    return (
        b"\x93NUMPY\x01\x00"
        + struct.pack("<H", min(len(data), 65535))
        + data[:65535]
        + b"\x00" * int(bench.rng.integers(0, 200))
    )


def damaged_bytes(bench: Bench, data: bytes) -> bytes:
    rng = bench.rng
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(data) + 1))
        how = int(rng.integers(7))
        if how == 0:
            data = data[:at]
        elif how == 1 and data:
            at = min(at, len(data) - 1)
            data = data[:at] + bytes([data[at] ^ (1 << int(rng.integers(8)))]) + data[at + 1 :]
        elif how == 2:
            data = data[:at] + rng.bytes(int(rng.integers(1, 40))) + data[at:]
        elif how == 3:
            data = data[at:]
        elif how == 4:
            data = data[:at] + bytes(int(rng.integers(1, 40))) + data[at + 40 :]
        elif how == 5:
            data = data + data
        else:
            data = bench.pick(
                [b"", b"\x00", b"PK\x05\x06" + bytes(18), b"\x80\x04N.", b"\x93NUMPY", b"hello\n", rng.bytes(200)]
            )
    return data


@COMMAND.kind("arrays", 15)
def arrays(bench: Bench) -> Case:
    rng = bench.rng
    found = arrays_of_a_problem(bench)
    for _ in range(int(rng.integers(0, 3))):
        name = bench.pick(list(found))
        how = int(rng.integers(8))
        if how == 0:
            del found[name]
            found = found or {"x": np.zeros(1)}
        elif how == 1:
            found[
                bench.pick(
                    (
                        "extra",
                        "P",
                        "g",
                        "triples",
                        "features",
                        "coordinate_",
                        "coordinate_x",
                        "file",
                        "kernel",
                        "exempt",
                    )
                )
            ] = found[name]
        else:
            found[name] = damaged_array(bench, found[name])
    try:
        data = npz(found, bench.pick([np.savez, np.savez_compressed]))
    except (TypeError, ValueError):
        data = npz({"P": np.zeros(1)})
    how = int(rng.integers(10))
    if how == 0:
        data = damaged_bytes(bench, data)
    elif how == 1:  # an archive made by hand: huge, doubled, odd or nested members
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in ("P", "r", "g", "start", "horizon"):
                member = huge_header(bench) if bench.chance(0.3) else _npy(found.get(name, np.array(1)))
                called = bench.pick((f"{name}.npy", f"{name}.npy", name, f"../{name}.npy", f"{name}.npy/"))
                info = zipfile.ZipInfo(called)  # a fixed date: the same number is the same input
                archive.writestr(info, member, zipfile.ZIP_DEFLATED)
        data = file.getvalue()
    name = bench.path(bench.pick(("arrays.npz", "arrays.npz", "arr ays.npz", "arrays.npy")), data)
    words = ["--problem", name]
    if bench.chance(0.25):
        words += ["--horizon", str(bench.pick((1, 3, 0, 10**6, "nan", 10**12)))]
    if bench.chance(0.3):
        words += [
            "--set",
            bench.pick(
                ("cost=gp", "cost=linear", "value=linear", "features=one-hot", "safe_action=safest", "switch=2")
            ),
        ]
    return run_case(bench, *words)


def _npy(given: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, given, allow_pickle=True)
    return file.getvalue()


# --- heights ----------------------------------------------------------------------------------------------------------
def png(bench: Bench, width: int, height: int, depth: int = 8, colour: int = 0, data: bytes | None = None) -> bytes:
    """A picture, as the format defines it."""
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    line = (width * channels * depth + 7) // 8
    raw = data if data is not None else b"".join(b"\x00" + bench.rng.bytes(line) for _ in range(height))
    chunk = lambda kind, content: (
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    )
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    palette = chunk(b"PLTE", bytes(range(256)) * 3) if colour == 3 else b""
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + palette
        + chunk(b"IDAT", zlib.compress(raw))
        + chunk(b"IEND", b"")
    )


@COMMAND.kind("heights", 10)
def heights(bench: Bench) -> Case:
    rng = bench.rng
    shape = tuple(int(n) for n in rng.integers(1, 9, 2))
    made = rng.standard_normal(shape)
    kind = bench.pick(("npy", "csv", "png"))
    if kind == "npy":
        made = damaged_array(bench, made) if bench.chance(0.6) else made
        data = huge_header(bench) if bench.chance(0.15) else _npy(made)
        data = damaged_bytes(bench, data) if bench.chance(0.2) else data
    elif kind == "csv":
        cell = lambda number: bench.pick((*NUMBERS, *TEXTS[:40])) if bench.chance(0.02) else f"{number:.6g}"
        text = "\n".join(bench.pick((",", ",", ", ", ";"))[:2].join(cell(number) for number in row) for row in made)
        text = text.replace("\ud800", "?").replace("\udcff", "?").replace("\udcfe", "?")
        data = damaged_text(bench, text) if bench.chance(0.6) else text.encode()
    else:
        width, height = int(rng.integers(1, 9)), int(rng.integers(1, 9))
        depth, colour = bench.pick(((8, 0), (16, 0), (1, 0), (4, 0), (8, 2), (8, 3), (8, 4), (8, 6), (16, 6)))
        data = png(bench, width, height, depth, colour)
        if bench.chance(0.15):  # a picture that says it is enormous
            data = png(
                bench,
                *bench.pick([(10**5, 10**5), (2**31 - 1, 1), (10**9, 10**9), (0, 0), (30000, 30000)]),
                data=b"\x00" * 100,
            )  # type: ignore[misc]
        data = damaged_bytes(bench, data) if bench.chance(0.3) else data
    words = ["--problem", bench.path(f"heights.{kind}", data)]
    if bench.chance(0.3):
        words += ["--horizon", str(bench.pick((1, 3, 5, 40, 10**4)))]
    return run_case(bench, *words)
