"""The site, reports and the playground in a browser: `make check-site`.

    python docs/check_site.py                    all of them
    python docs/check_site.py --only play        one of site, reports, play

Ten pages of docs/_build/html, the reports of three small runs, and the playground before and after a run are opened in
headless Chromium, 1280 and 390 pixels wide, light and dark. No page may scroll sideways, and axe-core may find no
problem of accessibility that it calls serious or critical. Screenshots are in out/site. The status is 1 if anything is
found.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "docs" / "_build" / "html"
AXE = ROOT / ".venv" / "node" / "node_modules" / "axe-core" / "axe.min.js"

PAGES = ("index", "start", "tutorials/cost-models", "gymnasium", "look-ahead", "comparison", "architecture", "paper")
PAGES += ("reference/settings", "reference/command-line")
SIZES = {"wide": (1280, 900), "narrow": (390, 844)}
SCHEMES = ("light", "dark")
IMPACTS = ("minor", "moderate", "serious", "critical")  # of axe-core

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
WAIT = 120_000  # milliseconds: a busy machine takes long

# What is wider than the page, or than the part of it that holds the text (which some themes let scroll): the widest
# elements, without those inside of what scrolls by itself, as tables and code do.
TOO_WIDE = """() => {
  const parts = [document.documentElement, ...document.querySelectorAll("body, main, article, .main, .content, .page")];
  const scrolls = (node) => node === document.documentElement || getComputedStyle(node).overflowX !== "visible";
  const over = parts.filter((node) => scrolls(node) && node.scrollWidth > node.clientWidth && node.clientWidth > 0);
  if (over.length === 0) return [];
  const inside = (node) => (scrolls(node) && !parts.includes(node)) || contained(node);
  const contained = (node) => node.parentElement && inside(node.parentElement);
  const right = (node) => Math.round(node.getBoundingClientRect().right);
  const name = (node) => node.tagName.toLowerCase() + [...node.classList].map((each) => "." + each).join("");
  const wide = [...document.querySelectorAll("body *")].filter((node) => !contained(node));
  wide.sort((one, other) => right(other) - right(one));
  return over.map((node) => `${name(node)} is ${node.scrollWidth} pixels in ${node.clientWidth}`)
    .concat(wide.slice(0, 3).map((node) => `${name(node)} reaches to ${right(node)}`));
}"""
LOOK = """() => axe.run(document, { resultTypes: ["violations"] }).then((found) => found.violations.map((each) => ({
  id: each.id, impact: each.impact, help: each.help, count: each.nodes.length,
  nodes: each.nodes.slice(0, 3).map((node) => node.target.join(" ") + ": " +
    (node.any.concat(node.all, node.none)[0]?.message ?? "")),
})))"""


def look(page: Page, name: str, axe: str, out: Path, impact: str) -> list[str]:
    """Take a screenshot; what is wrong with the page."""
    page.screenshot(path=out / f"{name}.png")
    page.screenshot(path=out / f"{name}-whole.png", full_page=True)
    wide = page.evaluate(TOO_WIDE)
    wrong = [f"scrolls sideways: {', '.join(wide)}"] if wide else []
    page.evaluate(axe)
    for found in page.evaluate(LOOK):
        if IMPACTS.index(found["impact"]) >= IMPACTS.index(impact):
            where = "\n        ".join(found["nodes"])
            wrong.append(f"{found['impact']}: {found['help']} ({found['id']}), {found['count']} times\n        {where}")
    return wrong


def everystep(*arguments: str, cwd: Path) -> None:
    """Run the command."""
    command = [sys.executable, "-m", "everystep.cli", *arguments]
    done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"everystep {' '.join(arguments)} failed: {done.stderr[-2000:]}")


def reports(place: Path) -> dict[str, str]:
    """The pages of a run, of one with states that are not viable, and of a training, each small."""
    run = ["--episodes", "60", "--seeds", "2"]
    everystep("run", "--problem", "frozen-lake", "--agents", "lsvi-ae,lsvi", *run, "--out", "lake", cwd=place)
    everystep("run", "--problem", "racetrack", "--agents", "lsvi-ahead,lsvi-ae", *run, "--out", "track", cwd=place)
    shutil.copytree(ROOT / "examples", place / "examples")
    everystep("train", "examples/training.toml", "--episodes", "8", "--out", "training", cwd=place)
    for name in ("lake", "track", "training"):
        everystep("report", name, cwd=place)
    return {f"report-{name}": (place / name / "report.html").as_uri() for name in ("lake", "track", "training")}


@contextlib.contextmanager
def playground() -> Iterator[str]:
    """The address of a playground that runs meanwhile."""
    command = [sys.executable, "-u", "-m", "everystep.cli", "play", "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert server.stdout is not None
    try:
        for line in server.stdout:
            if found := re.search(r"http://127\.0\.0\.1:\d+/", line):
                yield found[0]
                return
        raise SystemExit("everystep play did not print its address")
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate()


def settled(page: Page) -> None:
    """Pictures and charts are there."""
    page.wait_for_load_state("load")
    page.evaluate("document.fonts.ready.then(() => true)")
    page.wait_for_timeout(400)


def after_a_run(page: Page) -> None:
    """The playground when some episodes were run, with everything folded open."""
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    page.locator("#run").click()
    page.locator("#lanes svg").first.wait_for()
    page.locator("#charts svg").first.wait_for()
    page.locator("#pause").click()
    settled(page)


def after_a_race(page: Page) -> None:
    """The same on a racetrack."""
    page.locator("#kind-racetrack").check()
    after_a_run(page)


class Report:
    """Counts and prints what is found."""

    def __init__(self, browser: Browser, axe: str, out: Path, impact: str) -> None:
        self.browser, self.axe, self.out, self.impact = browser, axe, out, impact
        self.opened = self.failed = 0

    def check(self, name: str, address: str, ready: Callable[[Page], None] = settled) -> None:
        """Open a page at all sizes and in both schemes."""
        wrong: dict[str, list[str]] = {}
        for size, (width, height) in SIZES.items():
            for scheme in SCHEMES:
                options: Any = {"viewport": {"width": width, "height": height}, "color_scheme": scheme}
                with contextlib.closing(self.browser.new_context(**options, reduced_motion="reduce")) as context:
                    page = context.new_page()
                    page.set_default_timeout(WAIT)
                    page.goto(address)
                    ready(page)
                    shot = f"{name.replace('/', '-')}-{size}-{scheme}"
                    for each in look(page, shot, self.axe, self.out, self.impact):
                        wrong.setdefault(each, []).append(f"{size} {scheme}")
                self.opened += 1
        self.failed += bool(wrong)
        print(f"{'FAILED' if wrong else 'ok':6} {name}", flush=True)
        for what, where in wrong.items():
            print(f"    {', '.join(where)}: {what}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Open the site, reports and the playground in a browser.")
    parser.add_argument("--only", choices=("site", "reports", "play"), help="one of them")
    parser.add_argument("--pages", nargs="+", default=PAGES, help="pages of the site")
    parser.add_argument("--impact", choices=IMPACTS, default="serious", help="the least that counts (serious)")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "site", help="for screenshots (out/site)")
    parser.add_argument("--axe", type=Path, default=AXE, help="axe.min.js")
    parser.add_argument("--chromium", default=shutil.which(os.environ.get("EVERYSTEP_CHROMIUM", "chromium")))
    options = parser.parse_args()
    if options.chromium is None:
        parser.error("chromium is not on the PATH; install it, or give its path with --chromium.")
    if not options.axe.is_file():
        parser.error(f"{options.axe} is not there; `make check-site` installs axe-core, or give it with --axe.")
    options.out.mkdir(parents=True, exist_ok=True)
    wanted = (options.only,) if options.only else ("site", "reports", "play")
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as place:
        browser = driver.chromium.launch(executable_path=options.chromium, args=FLAGS)
        report = Report(browser, options.axe.read_text(encoding="utf-8"), options.out, options.impact)
        if "site" in wanted:
            for name in options.pages:
                report.check(name, (SITE / f"{name}.html").as_uri())
        if "reports" in wanted:
            for name, address in reports(Path(place)).items():
                report.check(name, address)
        if "play" in wanted:
            with playground() as address:
                report.check("play", address)
                report.check("play-lake", address, after_a_run)
                report.check("play-racetrack", address, after_a_race)
        browser.close()
    print(f"{report.opened} views, {report.failed} pages with problems; screenshots in {options.out}")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
