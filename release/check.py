"""Build the sdist and the wheel into dist/, and try them as a stranger would: `make dist`.

    python release/check.py               all checks
    python release/check.py --tag v0.2.0  and that this tag is that of the version (as .github/workflows/release.yml)

What is built is the last commit, in two copies of it at different places, under different umasks and time zones: both
must have the same bytes. Then each is installed into an empty environment, with an empty home and outside of the
checkout. A sentence is printed for each check; the status is 1 if any fails.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = (ROOT / "src/everystep/__init__.py").read_text(encoding="utf-8").split('\n__version__ = "')[1].split('"')[0]
WHEEL, SDIST = f"everystep-{VERSION}-py3-none-any.whl", f"everystep-{VERSION}.tar.gz"

LIMITS = {WHEEL: 1_000_000, SDIST: 8_000_000}  # bytes

# What may be inside. Folders mean what is committed in them.
IN_WHEEL = ("everystep/",)
INFO = ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
IN_SDIST = (".ci/", ".github/", "benchmarks/", "conda/", "docs/", "examples/", "release/", "src/", "studies/", "tests/")
IN_SDIST += (".gitignore", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md")
IN_SDIST += ("constraints.txt", "pyproject.toml", "tsconfig.json")
SUFFIXES = {".py", ".pyi", ".typed", ".css", ".js", ".ts", ".html", ".json", ".md"}  # of the package

# Addresses that may be named: of the standards of the web, of this machine, of a page that is linked, of tests.
HOSTS = {
    "www.w3.org",
    "json-schema.org",
    "arxiv.org",
    "127.0.0.1",
    "127",
    "localhost",
    "docs.ray.io",
    "x.org",
    "other.example",
}
PLACES = re.compile(rb"(?<![\w.-])/(?:root|home|Users)/[\w.]")


class CheckError(Exception):
    """What a check found, in a sentence."""


def files_of_commit() -> list[str]:
    """The names of all committed files."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return [name for name in listed.split("\0") if name]


def copy_of_commit(to: Path) -> None:
    """The committed files, and nothing else, in another place."""
    to.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(to)], input=archive, check=True)


def run(command: list[str | Path], cwd: Path, environment: dict[str, str] | None = None, umask: int = -1) -> str:
    """What a command prints; its failure is that of the check."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        umask=umask,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        words = " ".join(str(part) for part in command)
        raise CheckError(f"{words[:200]} ended with status {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


# Building


def build(place: Path) -> str:
    """Both files from two copies of the commit."""
    if run(["git", "status", "--porcelain"], ROOT).strip():
        print("note: there are uncommitted changes; what is built and checked is the last commit", flush=True)
    epoch = run(["git", "log", "-1", "--format=%ct"], ROOT).strip()
    for number, (umask, zone) in enumerate([(0o022, "UTC"), (0o077, "Asia/Kolkata")], 1):
        copy = place / ("copy" * number) / "tree"
        copy_of_commit(copy)
        environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch, "TZ": zone}
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", place / f"dist{number}", copy]
        run(command, place, environment, umask)
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    shutil.copytree(place / "dist1", ROOT / "dist")
    found = sorted(path.name for path in (ROOT / "dist").iterdir())
    if found != sorted([WHEEL, SDIST]):
        raise CheckError(f"dist/ holds {', '.join(found)} instead of {WHEEL} and {SDIST}.")
    day = time.strftime("%Y-%m-%d", time.gmtime(int(epoch)))
    return f"The sdist and the wheel of {VERSION} are built from the commit of {day}."


def reproducible(place: Path) -> str:
    """The same bytes from two copies."""
    for name in (WHEEL, SDIST):
        if (place / "dist1" / name).read_bytes() != (place / "dist2" / name).read_bytes():
            raise CheckError(f"{name} has other bytes when it is built in another folder, umask and time zone.")
    return "Built twice, in two folders, under two umasks and time zones, both have the same bytes."


# What is inside


def contents(name: str) -> dict[str, bytes]:
    """The files of dist/NAME; of the sdist without the folder that they are in."""
    path = ROOT / "dist" / name
    if name == WHEEL:
        with zipfile.ZipFile(path) as archive:
            return {each.filename: archive.read(each) for each in archive.infolist() if not each.is_dir()}
    inside = {}
    with tarfile.open(path) as archive:
        for member in archive.getmembers():
            if not (member.isfile() or member.isdir()):
                raise CheckError(f"{name} holds {member.name}, which is neither a file nor a folder.")
            if file := archive.extractfile(member):
                inside[member.name.removeprefix(f"everystep-{VERSION}/")] = file.read()
    return inside


def metadata(place: Path) -> str:
    run([sys.executable, "-m", "twine", "check", "--strict", ROOT / "dist" / WHEEL, ROOT / "dist" / SDIST], place)
    return "twine check --strict accepts the metadata and the description of both."


def only_what_belongs(place: Path) -> str:
    """Exactly the committed files of the folders listed above, and the metadata."""
    committed = files_of_commit()
    package = {name.removeprefix("src/") for name in committed if name.startswith("src/everystep/")}
    wheel = package | {f"everystep-{VERSION}.dist-info/{name}" for name in INFO}
    sdist = {name for name in committed if name.startswith(IN_SDIST)} | {"PKG-INFO"}
    for name, expected in ((WHEEL, wheel), (SDIST, sdist)):
        found = set(contents(name))
        if found != expected:
            differ = sorted(f"{each} is stray" for each in found - expected)
            differ += sorted(f"{each} is missing" for each in expected - found)
            raise CheckError(f"{name}: {', '.join(differ[:20])}{' ...' if len(differ) > 20 else ''}.")
    odd = sorted(name for name in package if Path(name).suffix not in SUFFIXES)
    if odd:
        raise CheckError(
            f"The package holds files of another kind than {', '.join(sorted(SUFFIXES))}: {', '.join(odd)}."
        )
    return f"They hold what is committed and nothing else: {len(wheel)} files in the wheel, {len(sdist)} in the sdist."


def sizes(place: Path) -> str:
    found = {name: (ROOT / "dist" / name).stat().st_size for name in LIMITS}
    for name, size in found.items():
        if size > LIMITS[name]:
            raise CheckError(f"{name} has {size:,} bytes; at most {LIMITS[name]:,} are allowed.")
    text = ", ".join(f"{name} {size / 1e6:.2f} MB (limit {LIMITS[name] / 1e6:.0f} MB)" for name, size in found.items())
    return f"They are small: {text}."


def no_places(place: Path) -> str:
    """No folder of this or another machine, and no address but those of `HOSTS`."""
    here = [re.escape(str(each).encode()) for each in {ROOT, Path.home(), Path(sys.prefix)} if len(str(each)) > 5]
    places = re.compile(b"|".join([PLACES.pattern, *here]))
    for name in (WHEEL, SDIST):
        for file, content in contents(name).items():
            if file == "release/check.py":  # which names them
                continue
            if found := places.search(content):
                raise CheckError(f"{name}: {file} names a place of a machine, {found[0].decode(errors='replace')}.")
            if b"\0" in content:
                continue
            hosts = {host.decode().rstrip(".") for host in re.findall(rb"https?://([A-Za-z0-9.-]+)", content)}
            if hosts - HOSTS:
                raise CheckError(
                    f"{name}: {file} names {', '.join(sorted(hosts - HOSTS))}, which is not a listed address."
                )
    return "They name no folder of a machine, and no address but the listed ones."


# Using it


@contextmanager
def stranger(place: Path, name: str) -> Iterator[tuple[Path, Path, dict[str, str]]]:
    """An empty environment of Python, an empty folder to work in, and variables with an empty home.

    How packages are reached (the settings of pip) stays as it is.
    """
    there = place / name
    home, work = there / "home", there / "work"
    work.mkdir(parents=True)
    old = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "pip"
    if old.is_dir():
        shutil.copytree(old, home / ".config" / "pip")
    home.mkdir(exist_ok=True)
    others = ("XDG_", "PYTHON", "VIRTUAL_", "JAX_", "EVERYSTEP_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(others)}
    environment = {**kept, "HOME": str(home), "JAX_PLATFORMS": "cpu"}
    environment["PATH"] = f"{there / 'env' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    run([Path(sys.executable).resolve(), "-m", "venv", there / "env"], work, environment)
    try:
        yield there / "env" / "bin" / "python", work, environment
    finally:
        shutil.rmtree(there)


def install(python: Path, what: str, work: Path, environment: dict[str, str], *options: str | Path) -> None:
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, *options, what], work, environment)


def quick_start() -> str:
    """The example of the README that needs no extra."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## Reproduce the paper\n")[1]
    return re.search(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[1]  # type: ignore[index]


def use(python: Path, work: Path, environment: dict[str, str]) -> None:
    """The version, the quick start of the README and the paper's experiment with four seeds."""
    where = run([python, "-c", "import everystep; print(everystep.__file__)"], work, environment).strip()
    if not Path(where).is_relative_to(python.parent.parent):
        raise CheckError(f"everystep was imported from {where}, not from the environment it was installed into.")
    command = python.parent / "everystep"
    if (said := run([command, "--version"], work, environment).strip()) != f"everystep {VERSION}":
        raise CheckError(f"everystep --version prints '{said}'.")
    printed = run([python, "-c", quick_start()], work, environment)
    if not re.search(r"^lsvi-ae: final value .* \(safe optimum 5\.23\)", printed, re.MULTILINE):
        raise CheckError(f"the quick start printed:\n{printed}")
    run([command, "reproduce", "--seeds", "4", "--out", "reproduced"], work, environment)
    for file in ("out/lake/episodes.parquet", "reproduced/episodes.parquet", "reproduced/report.html"):
        if not (work / file).is_file():
            raise CheckError(f"{file} was not written.")


def use_wheel(place: Path) -> str:
    with stranger(place, "wheel") as (python, work, environment):
        install(python, str(ROOT / "dist" / WHEEL), work, environment)
        use(python, work, environment)
    return "The wheel, with the newest dependencies: the quick start and everystep reproduce --seeds 4 run."


def use_sdist(place: Path) -> str:
    with stranger(place, "sdist") as (python, work, environment):
        install(python, str(ROOT / "dist" / SDIST), work, environment, "-c", ROOT / "constraints.txt")
        use(python, work, environment)
    return "The sdist, with the dependencies of constraints.txt: the same."


def docs_of_sdist(place: Path) -> str:
    with stranger(place, "docs") as (python, work, environment):
        with tarfile.open(ROOT / "dist" / SDIST) as archive:
            archive.extractall(work, filter="data")
        tree = work / f"everystep-{VERSION}"
        install(python, f"{tree}[docs]", work, environment, "-c", tree / "constraints.txt")
        sphinx = [python, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-n", "-q"]
        run([*sphinx, tree / "docs", work / "html"], work, environment)
        pages = len(list((work / "html").rglob("*.html")))
    return f"The documentation is built from the unpacked sdist without a warning: {pages} pages."


def tag_of_version(tag: str) -> Callable[[Path], str]:
    def check(place: Path) -> str:
        if tag != f"v{VERSION}":
            raise CheckError(f"The tag is {tag}, and the version {VERSION}.")
        headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
        if not headings[0].startswith(f"{VERSION} ("):
            raise CheckError(f"The first section of CHANGELOG.md is '{headings[0]}', not {VERSION} with its date.")
        return f"The tag {tag} is that of the version, and the changelog begins with it."

    return check


CHECKS: tuple[Callable[[Path], str], ...] = (
    build,
    reproducible,
    metadata,
    only_what_belongs,
    sizes,
    no_places,
    use_wheel,
    use_sdist,
    docs_of_sdist,
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the sdist and the wheel, and try them as a stranger would.")
    parser.add_argument("--tag", help="the tag of the release, such as v0.2.0")
    parser.add_argument("--only-build", action="store_true", help="build and look inside, but install nothing")
    options = parser.parse_args()
    checks = CHECKS[:-3] if options.only_build else CHECKS
    if options.tag:
        checks = (tag_of_version(options.tag), *checks)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="everystep-dist-") as place:
        for check in checks:
            began = time.monotonic()
            try:
                said, result = check(Path(place)), "ok"
            except CheckError as error:
                said, result = str(error), "FAILED"
            print(f"{result:6} {time.monotonic() - began:5.1f} s  {said}", flush=True)
            failed += result != "ok"
            if check is build and result != "ok":
                break
    print(f"{failed} of {len(checks)} checks failed" if failed else f"dist/ is ready: {WHEEL}, {SDIST}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
