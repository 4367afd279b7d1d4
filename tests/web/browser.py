"""Debian's Chromium, headless, for the tests of pages; without it they are skipped with the reason."""

import contextlib
import os
from pathlib import Path

import pytest

CHROMIUM = Path(os.environ.get("EVERYSTEP_CHROMIUM", "/usr/bin/chromium"))
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
FLAGS += ["--disable-sync", "--no-first-run"]


@contextlib.contextmanager
def chromium():
    if not CHROMIUM.is_file():
        pytest.skip(f"no browser: {CHROMIUM} is missing (apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="no browser: playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield browser
        browser.close()
