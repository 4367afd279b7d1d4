"""Chromium, headless, for the tests of pages; without it they are skipped with the reason.

It is the first `chromium` on the PATH, or the file that EVERYSTEP_CHROMIUM names.
"""

import contextlib
import os
import shutil

import pytest

CHROMIUM = os.environ.get("EVERYSTEP_CHROMIUM", "chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
FLAGS += ["--disable-sync", "--no-first-run"]


@contextlib.contextmanager
def chromium():
    program = shutil.which(CHROMIUM)
    if program is None:
        pytest.skip(f"no browser: there is no program {CHROMIUM} (apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="no browser: playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()
