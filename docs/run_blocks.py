"""Run the commands and the Python of pages as printed, in a temporary folder: `make blocks`, `make blocks-all`.

    python docs/run_blocks.py                     README.md and the pages of "Start"
    python docs/run_blocks.py --all               README.md and all pages below docs/
    python docs/run_blocks.py docs/runs.md ...    these
    python docs/run_blocks.py --list [...]        what would run, what would not, and why

Commands are the lines of indented and of fenced blocks that begin with a program of `PROGRAMS`; Python is what is
fenced as python (cells of tutorials run when the site is built). Everything of a page runs in its order, in one folder
with copies of examples/, benchmarks/ and studies/; its Python in one interpreter, as in a notebook. docs/blocks.toml
lists what is left out or shortened, with the reason (it takes an hour, needs a GPU, a cluster or a package that is not
there), and what pages take as given.
The status is 1 if anything fails.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE / "extensions"))

from generated import expanded  # noqa: E402

START = ("README.md", "docs/start.md")
NEVER_RUN = {"pip": "installs packages", "make": "installs packages, and takes minutes", "ray": "needs a cluster"}
PROGRAMS = ("everystep", "python", "pytest", "tensorboard", *NEVER_RUN)
COPIED = ("examples", "benchmarks", "studies")
LIMIT = 300  # seconds for one block
LISTS: dict[str, list[dict[str, Any]]] = tomllib.loads((HERE / "blocks.toml").read_text(encoding="utf-8"))

# The interpreter of a page: a program in each line of its input, what went wrong (or null) in each line of its output.
SESSION = """
import contextlib, io, json, os, sys, traceback
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
sys.path.insert(0, "")
names = {"__name__": "__main__"}
for line in sys.stdin:
    printed, error = io.StringIO(), None
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            exec(compile(json.loads(line), "<page>", "exec"), names)
    except BaseException:
        error = printed.getvalue() + traceback.format_exc()
    print(json.dumps(error), file=answers, flush=True)
"""


class Block(NamedTuple):
    """What runs at once: the source of a program in Python, or one command."""

    kind: str
    text: str

    @property
    def title(self) -> str:
        """Its command, or its first line that is not an import."""
        lines = [line for line in self.text.splitlines() if line.strip() and not line.startswith(("import ", "from "))]
        return lines[0].strip() if lines else self.text.strip()

    @property
    def change(self) -> dict[str, Any] | None:
        """Its entry among those that do not run as printed, if it has one: the one that says most about it."""
        found = [each for each in LISTS["changed"] if each["has"] in self.text]
        return max(found, key=lambda each: len(each["has"]), default=None)

    @property
    def reason(self) -> str | None:
        """Why it does not run as printed, if it does not."""
        if self.kind == "command" and self.text.split(" ")[0] in NEVER_RUN:
            return NEVER_RUN[self.text.split(" ")[0]]
        if self.change is None:
            return None
        missing = [name for name in self.change.get("needs", ()) if not installed(name)]
        reason: str | None = f"needs {', '.join(missing)}" if missing else self.change.get("why")
        return reason

    @property
    def to_run(self) -> Block | None:
        """What runs: the block, a shorter one, or nothing."""
        if self.reason is None:
            return self
        if self.change is None or "instead" not in self.change or self.reason != self.change["why"]:
            return None
        old, new = self.change["instead"]
        text = self.text.replace(old, new) if old else f"{self.text} {new}"
        if text == self.text:
            raise ValueError(f"docs/blocks.toml: '{self.title}' has no '{old}' to replace")
        return Block(self.kind, text)


def installed(module: str) -> bool:
    """Whether a module is there that a block needs."""
    return importlib.util.find_spec(module) is not None


def blocks(text: str) -> list[Block]:
    """The blocks of a page in their order; a line that ends in a backslash continues on the next one."""
    text = re.sub(r" *\\\n\s+", " ", text)
    found: list[tuple[int, Block]] = []
    fenced = re.compile(r"^```([^`\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
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


class Page:
    """A folder in which the blocks of a page run, and the interpreter of its Python."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.session: subprocess.Popen[str] | None = None
        self.environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    def run(self, block: Block) -> str | None:
        """Run a block; what it printed if it failed, else None."""
        error = self._python(block.text) if block.kind == "python" else self._command(block.text)
        return error[-2000:] if error else None

    def close(self) -> None:
        """End the interpreter, and what it started."""
        if self.session is not None:
            _end(self.session)
            self.session = None

    def _start(self, command: str | list[str], **streams: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            shell=isinstance(command, str),
            cwd=self.folder,
            env=self.environment,
            text=True,
            start_new_session=True,  # so that what a shell started can be ended with it
            **streams,
        )

    def _command(self, text: str) -> str | None:
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        program = self._start(text, stdin=nothing, stdout=pipe, stderr=subprocess.STDOUT)
        try:
            printed, _ = program.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return f"did not end in {LIMIT} s"
        finally:
            _end(program)
        return None if program.returncode == 0 else printed or f"status {program.returncode}"

    def _python(self, source: str) -> str | None:
        if self.session is None:
            program = [sys.executable, "-c", SESSION]
            pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
            self.session = self._start(program, stdin=pipe, stdout=pipe, stderr=nothing)
        assert self.session.stdin is not None
        assert self.session.stdout is not None
        self.session.stdin.write(json.dumps(source) + "\n")
        self.session.stdin.flush()
        if not select.select([self.session.stdout], [], [], LIMIT)[0]:
            self.close()
            return f"did not end in {LIMIT} s"
        answer = self.session.stdout.readline()
        if not answer:
            self.close()
            return "the interpreter ended"
        error: str | None = json.loads(answer)
        return error


def _end(program: subprocess.Popen[str]) -> None:
    """End a program and all that it started."""
    if program.poll() is None:
        os.killpg(program.pid, signal.SIGKILL)
    with program:
        pass


def prepare(name: str, text: str, page: Page) -> str | None:
    """Put what a page takes as given into its folder; what went wrong, if anything did."""
    for each in COPIED:
        shutil.copytree(ROOT / each, page.folder / each, ignore=shutil.ignore_patterns("__pycache__"))
    for file, lines in files(text).items():
        (page.folder / file).write_text(lines, encoding="utf-8")
    for given in given_before(name, None):
        for file, content in given.get("files", {}).items():
            (page.folder / file).write_text(content, encoding="utf-8")
        ready = [Block("command", command) for command in given.get("commands", ())]
        ready += [Block("python", given["python"])] if "python" in given else []
        for block in ready:
            if error := page.run(block):
                return f"what is given failed, {block.title}: {error}"
    return None


def given_before(name: str, block: Block | None) -> list[dict[str, Any]]:
    """What a page takes as given: before a block of its Python, or (None) at its start."""
    of_page = [each for each in LISTS["given"] if each["page"] == name]
    if block is None:
        return [each for each in of_page if "before" not in each]
    return [each for each in of_page if each.get("before", "\0") in block.text]


def all_pages() -> list[str]:
    """README.md and the pages of docs/, in which folders whose names begin with _ are output."""
    pages = sorted(path.relative_to(ROOT) for path in HERE.rglob("*.md"))
    return ["README.md", *(str(page) for page in pages if not any(part.startswith("_") for part in page.parts))]


def run_page(name: str, new: list[Block], text: str) -> int:
    """Run blocks of a page and print how each went; the number that failed."""
    failed = 0
    with tempfile.TemporaryDirectory() as place:
        page = Page(Path(place))
        try:
            if error := prepare(name, text, page):
                print(f"FAILED {name}: {error}")
                return 1
            for block in new:
                began = time.monotonic()
                error = None
                for given in given_before(name, block):
                    error = error or page.run(Block("python", given["python"]))
                error = error or page.run(block)
                seconds = time.monotonic() - began
                print(f"{'FAILED' if error else 'ok':6} {seconds:5.1f} s  {name}: {block.title}", flush=True)
                if error:
                    failed += 1
                    print("    " + error.strip().replace("\n", "\n    "), flush=True)
        finally:
            page.close()
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the commands and the Python of pages as they are printed.")
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="Markdown pages (README.md and Start)")
    parser.add_argument("--all", action="store_true", help="all pages")
    parser.add_argument("--list", action="store_true", help="run nothing: show what would run")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what runs is ended, too
    seen: set[Block] = set()
    changed: list[tuple[str, Block]] = []
    failed = count = 0
    for name in all_pages() if options.all else options.pages or START:
        text = expanded((ROOT / name).read_text(encoding="utf-8"))
        new = [block for block in dict.fromkeys(blocks(text)) if block not in seen]
        seen |= set(new)
        changed += [(name, block) for block in new if block.reason]
        to_run = [shorter for block in new if (shorter := block.to_run)]
        count += len(to_run)
        if options.list:
            print("".join(f"{name}: {block.title}\n" for block in to_run), end="")
        elif to_run:
            failed += run_page(name, to_run, text)
    for heading, kept in (("shortened", True), ("left out", False)):
        listed = [(name, block) for name, block in changed if (block.to_run is not None) == kept]
        print(f"\n{heading}: {len(listed)}")
        for name, block in listed:
            print(f"    {name}: {block.title}  ({block.reason})")
    print(f"\n{count} blocks{' to run' if options.list else f', {failed} failed'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
