"""Inputs that are paths: what is missing, in the way, looped, a pipe or a device, not allowed, or oddly named."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat

from fuzz.cases import COMMAND, Bench, Case

NAMES = (
    "new", "new/deeper/still", "a b", "-x", "--", ".", "./", "", " ", "\u96ea", "e\u0301", "\udcff\udcfe",
    "line\nbreak", "tab\t",
    "\x1b[31mred", "a" * 255, "a" * 256, "a/" * 2100, "x" * 5000, "new/", "new//", "new/.", "new/../new", "~",
    "$HOME", "*", "a\\b", "..",
    "con", "new.partial", ".everystep-1.partial", ".work", "figures", "\u202etxt", "'", '"', "`id`", "new;ls", "%s",
    "{}", "=", "new\r",
)  # fmt: skip
OBSTACLES = (
    "name", "name", "file", "empty", "folder", "full", "loop", "link", "dangling", "fifo", "device", "socket", "closed",
    "closed file", "below a file", "below a loop", "in a closed folder", "through a link", "run", "unreadable",
)  # fmt: skip
ENDINGS = ("", ".txt", ".npz", ".npy", ".csv", ".png", ".toml", ".html", ".TXT", ".txt.gz")


def obstacle(bench: Bench, ending: str = "") -> str:
    """The name of something in the working folder that is not what a path should lead to; at times of nothing."""
    here = bench.here
    how = bench.pick(OBSTACLES)
    name = bench.pick(("place", "pl ace", "pl\u00e4ce", "-place")) + ending
    path = here / name
    if how == "name":
        return bench.pick(NAMES) + ending
    if how in ("file", "below a file"):
        path.write_bytes(bench.pick((b"x", b"SF\nFG\n", b"{}", b"\x00" * 100)))
        return name if how == "file" else f"{name}/below{ending}"
    if how == "empty":
        path.write_bytes(b"")
    elif how == "folder":
        path.mkdir()
    elif how == "full":
        path.mkdir()
        (path / "thing").write_bytes(b"x")
    elif how in ("loop", "below a loop"):
        path.symlink_to(here / "other")
        (here / "other").symlink_to(path)
        return name if how == "loop" else f"{name}/below{ending}"
    elif how in ("link", "through a link"):
        (here / "target").mkdir() if bench.chance(0.5) else (here / "target").write_bytes(b"SF\nFG\n")
        path.symlink_to(here / "target")
        return name if how == "link" else f"{name}/below{ending}"
    elif how == "dangling":
        path.symlink_to(here / "nowhere")
    elif how == "fifo":
        os.mkfifo(path)
    elif how == "device":  # our own, never the system's
        with contextlib.suppress(PermissionError):
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, bench.pick((3, 5, 7))))
    elif how == "socket":
        with socket.socket(socket.AF_UNIX) as server, contextlib.suppress(OSError):
            before = os.getcwd()
            os.chdir(here)
            server.bind(name)
            os.chdir(before)
    elif how in ("closed", "in a closed folder"):
        path.mkdir()
        path.chmod(bench.pick((0o000, 0o500, 0o400, 0o300)))
        return name if how == "closed" else f"{name}/below{ending}"
    elif how in ("closed file", "unreadable"):
        path.write_bytes(b"SF\nFG\n")
        path.chmod(0o000)
    elif how == "run":
        shutil.copytree(bench.templates / "run", path)
    return name


def word(path: str) -> str:
    return path.replace("\x00", "")


@COMMAND.kind("paths", 11)
def paths(bench: Bench) -> Case:
    """A strange path where a file or a folder is read or written."""
    how = bench.pick(("out", "problem", "file", "read", "page", "figures", "compare"))
    if how == "problem":
        path = obstacle(bench, bench.pick(ENDINGS))
        return Case(
            [
                "run",
                f"--problem={word(path)}",
                "--episodes",
                "1",
                "--seeds",
                "1",
                "--agents",
                "uniform",
                "--out",
                "used/../place/x",
            ],
            written=["."],
        )
    if how == "file":
        path = obstacle(bench, bench.pick(("", ".toml")))
        return Case(
            [
                "run",
                *(["--"] if bench.chance(0.3) else []),
                word(path),
                *(["--out", "out"] if bench.chance(0.5) else []),
            ]
        )
    if how == "out":
        path = obstacle(bench)
        agents = "uniform" if bench.quick or bench.chance(0.5) else "lsvi"
        size = ["--episodes", "1", "--seeds", "1", "--problem", "bandit"]
        if bench.quick or bench.chance(0.7):  # refused for another reason, at the latest moment
            return Case(
                [
                    "run",
                    *size,
                    "--agents",
                    "nobody" if bench.chance(0.5) else agents,
                    "--set=switch=0.5",
                    f"--out={word(path)}",
                ]
            )
        return Case(["run", *size, "--agents", agents, f"--out={word(path)}"], written=["."])
    if how == "read":
        path = obstacle(bench)
        command = bench.pick(("summary", "certify", "theory", "figures", "report", "resume"))
        written = ["."] if (bench.here / path[:200]).is_dir() else []
        if bench.quick and command in ("theory", "figures", "report", "certify"):
            command = "summary"
        return Case([command, *(["--"] if path.startswith("-") else []), word(path)], written=written)
    shutil.copytree(bench.templates / "run", bench.here / "run")
    path = obstacle(bench, bench.pick(("", ".html")))
    if how == "page":
        if bench.quick:
            return Case(["summary", "run"])
        return Case(["report", "run", "--no-player", f"--out={word(path)}"], written=["."])
    if how == "figures":
        if bench.quick:
            return Case(["summary", "run", "--"])
        return Case(["figures", "run", f"--out={word(path)}"], written=["."])
    return Case(["compare", "--table-only", f"--out={word(path)}"], written=["."])
