"""How soon `everystep play` answers, and how smoothly it shows three agents learning on the paper's lake.

    python benchmarks/play.py [--chromium PATH] [--rate 500] [--seconds 5]

Measured in the browser itself (Chromium, headless, without a GPU): the server, its engine and the browser share the
machine. Frames are those that the page has drawn, episodes those that it has received.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

from playwright.sync_api import Page, sync_playwright

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SPEEDS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000]  # as the page offers them


def begun() -> tuple[subprocess.Popen[str], str]:
    """The command, and the address it printed."""
    command = [sys.executable, "-c", "import sys; from everystep.cli import main; sys.exit(main())"]
    play = subprocess.Popen([*command, "play", "--no-browser"], stdout=subprocess.PIPE, text=True)
    assert play.stdout is not None
    found = re.search(r"http://\S+", play.stdout.readline())
    assert found, "the server did not start"
    return play, found[0]


def measured(page: Page, seconds: float) -> dict[str, Any]:
    """Episodes and frames of some seconds in the middle of a run."""
    now = "({frames: everystep.frames(), at: performance.now(), episodes: everystep.numbers()['lsvi-ae'].value.length})"
    page.wait_for_timeout(1000)
    before = page.evaluate(now)
    page.wait_for_timeout(1000 * seconds)
    after = page.evaluate(now)
    spent = (after["at"] - before["at"]) / 1000
    return {name: (after[name] - before[name]) / spent for name in ("episodes", "frames")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chromium", default=shutil.which("chromium"), metavar="PATH")
    parser.add_argument("--rate", type=int, default=500, choices=SPEEDS, help="episodes a second to ask for")
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args()
    if options.chromium is None:
        parser.error("chromium is not on the PATH; install it, or give its path with --chromium.")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=options.chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        began = time.perf_counter()
        play, address = begun()
        listening = time.perf_counter() - began
        page.goto(address, wait_until="commit")
        page.wait_for_selector("#verdict:not(:empty)")
        answered = time.perf_counter() - began
        page.fill("input[name=episodes]", "10000")
        page.evaluate(f"document.getElementById('speed').value = {SPEEDS.index(options.rate)}")
        page.dispatch_event("#speed", "input")
        pressed = time.perf_counter()
        page.click("#run")
        page.wait_for_selector("body[data-phase=playing]", timeout=120_000)
        compiled = time.perf_counter() - pressed
        first = measured(page, options.seconds)
        page.click("#restart")
        page.wait_for_selector("body[data-phase=playing]")
        again = measured(page, options.seconds)
        browser.close()
        play.send_signal(signal.SIGINT)
        play.wait()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{listening:5.1f} s  from the command to its address")
    print(f"{answered:5.1f} s  from the command to a page that has asked the server of its map and shows the answer")
    print(f"{compiled:5.1f} s  from run to the first frame (compiling three agents), once a size")
    for name, speed in (("first run", first), ("restarted", again)):
        print(
            f"{speed['episodes']:5.0f}    episodes a second of each of three agents, "
            f"{speed['frames']:.1f} frames a second ({name})"
        )


if __name__ == "__main__":
    main()
