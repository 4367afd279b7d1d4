"""Run the commands and the Python of pages as they are printed, in a temporary folder: `make blocks`.

    python docs/run_blocks.py                     README.md and the pages of "Start"
    python docs/run_blocks.py docs/runs.md ...    others
    python docs/run_blocks.py --list              what would run, what would not, and why

Commands are the lines of indented and of fenced blocks that begin with a program of `PROGRAMS`; Python is what is
fenced as python. Everything of a page runs in one folder, in its order, with a copy of examples/. What takes long,
installs something or serves a browser is in `LEFT_OUT` with its reason, and listed at the end. The status is 1 if
anything fails.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE / "extensions"))

from generated import expanded  # noqa: E402

PAGES = ("README.md", "docs/start.md", "docs/reproduce.md", "docs/environments.md")
PROGRAMS = ("everystep", "python", "pip", "make", "git")
LIMIT = 300  # seconds for one block

LEFT_OUT = {  # by how it begins
    "pip ": "installs packages",
    "make ": "installs packages, and takes minutes",
    "everystep compare": "takes about an hour",
    "everystep play": "serves the browser until it is stopped",
    "everystep run examples/experiment.toml": "takes minutes; run with --dry-run instead",
    "everystep run --problem terrain": "takes minutes; run with --dry-run instead",
    "everystep train --env CartPole-v1 ...": "is abbreviated",
    "everystep resume": "needs a run that was interrupted",
}

# What a fragment of Python takes as given: by how it begins.
GIVEN = {
    "problem = es.FiniteCMDP(P, r, g": """
import numpy as np
import scipy.sparse
import everystep as es

rng = np.random.default_rng(0)
S, A, d = 6, 2, 3
P = rng.dirichlet(np.ones(S), (S, A))
r, g = rng.random((S, A)), np.where(rng.random((S, A)) < 0.3, 0.5, -0.5)
g[:, 0] = -0.5
states, probabilities = rng.integers(0, S, (S, A, 2)), np.full((S, A, 2), 0.5)
stay, go = scipy.sparse.eye(S).tocsr(), scipy.sparse.csr_matrix(P[:, 1])
phi, mu = rng.dirichlet(np.ones(d), (S, A)), rng.dirichlet(np.ones(S), d)
rows = ["SFFF", "FHFF", "F.#G"]
np.savetxt("alps.csv", rng.random((5, 5)), delimiter=",")
""",
    'env = gymnasium.make("everystep/FrozenLake-v0")': """
import gymnasium
import everystep as es

problem = es.problems.frozen_lake()
es.logged.write(es.logged.from_env(es.gym.make_env(problem), None, episodes=3), "log.parquet")
""",
}


class Block(NamedTuple):
    """What runs at once: the source of a program in Python, or one command."""

    kind: str
    text: str

    @property
    def title(self) -> str:
        """Its command, or its first line that is not an import."""
        lines = [line for line in self.text.splitlines() if line.strip() and not line.startswith("import ")]
        return lines[0].strip() if lines else self.text.strip()

    @property
    def reason_to_leave_out(self) -> str | None:
        """Why it does not run, if it does not."""
        found = [why for start, why in LEFT_OUT.items() if self.kind == "command" and self.text.startswith(start)]
        return found[0] if found else None

    @property
    def shortened(self) -> Block | None:
        """What runs in place of a run that is left out: its estimate."""
        long_run = self.reason_to_leave_out and self.text.startswith("everystep run ")
        return Block(self.kind, f"{self.text} --dry-run") if long_run else None


def blocks(text: str) -> list[Block]:
    """The blocks of a page in their order."""
    found: list[tuple[int, Block]] = []
    fenced = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
    for match in fenced.finditer(text):
        if match[1] == "python":
            found.append((match.start(), Block("python", match[2])))
        elif match[1] in ("", "bash", "sh", "console"):
            found += [(match.start(2), each) for each in commands(match[2])]
    outside = fenced.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    for match in re.finditer(r"^    (\S.*)$", outside, re.MULTILINE):
        found += [(match.start(), each) for each in commands(match[1])]
    return [block for _, block in sorted(found, key=lambda pair: pair[0])]


def commands(text: str) -> list[Block]:
    """The lines that are commands, without their comments."""
    lines = [re.sub(r"\s+#.*$", "", line.strip().removeprefix("$ ")) for line in text.splitlines()]
    return [Block("command", line) for line in lines if line.split(" ")[0] in PROGRAMS]


def files(text: str) -> dict[str, str]:
    """The files that a page shows: an indented block whose first line is `# name.txt: ...`."""
    shown = re.findall(r"^    # ([\w-]+\.txt):.*\n((?:    \S.*\n)+)", text, re.MULTILINE)
    return {name: re.sub(r"^    ", "", lines, flags=re.MULTILINE) for name, lines in shown}


def run(block: Block, folder: Path) -> str | None:
    """Run a block in a folder; what it printed if it failed, else None."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    if block.kind == "python":
        given = [source for start, source in GIVEN.items() if start in block.text]
        command: str | list[str] = [sys.executable, "-c", "\n".join([*given, block.text])]
    else:
        command = block.text
    program = subprocess.Popen(
        command,
        shell=isinstance(command, str),
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # so that what a shell started can be ended with it
    )
    with program:
        try:
            printed, _ = program.communicate(timeout=LIMIT)
        except BaseException as error:
            os.killpg(program.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                return f"did not end in {LIMIT} s"
            raise
    return None if program.returncode == 0 else printed[-2000:]


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the commands and the Python of pages as they are printed.")
    parser.add_argument("pages", nargs="*", metavar="PAGE", default=PAGES, help="Markdown pages (README.md and Start)")
    parser.add_argument("--list", action="store_true", help="run nothing: show what would run")
    options = parser.parse_args()
    seen: set[Block] = set()
    left_out: list[tuple[str, Block]] = []
    failed = count = 0
    for page in options.pages:
        text = expanded((ROOT / page).read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            shutil.copytree(ROOT / "examples", folder / "examples")
            for file, lines in files(text).items():
                (folder / file).write_text(lines, encoding="utf-8")
            new = [block for block in blocks(text) if block not in seen]
            seen |= set(new)
            for block in new:
                if block.reason_to_leave_out:
                    left_out.append((page, block))
                program = block.shortened if block.reason_to_leave_out else block
                if program is None:
                    continue
                count += 1
                if options.list:
                    print(f"{page}: {program.title}")
                    continue
                began = time.monotonic()
                error = run(program, folder)
                seconds = time.monotonic() - began
                print(f"{'FAILED' if error else 'ok':6} {seconds:5.1f} s  {page}: {program.title}", flush=True)
                if error:
                    failed += 1
                    print("    " + error.strip().replace("\n", "\n    "))
    print(f"\nleft out: {len(left_out)}")
    for page, block in left_out:
        print(f"    {page}: {block.title}  ({block.reason_to_leave_out})")
    print(f"{count} blocks{' to run' if options.list else f', {failed} failed'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
