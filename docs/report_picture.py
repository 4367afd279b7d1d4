"""The report of a training as a picture: `python docs/report_picture.py out/cartpole/report.html picture.png`.

Opens the report in headless Chromium and photographs its curves, cost model and episodes. The picture in docs/report.md
is of `everystep train examples/training.toml --seeds 3`. It needs the extra `dev` and Chromium.
"""

import argparse
import io
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

WIDTH, COLOURS = 1180, 240
ONLY_SOME = """
main > section:has(#setup-head), main > section:has(#doing-head), footer.end, .controls { display: none !important; }
main > section { padding-block: 10px 14px; }
h3.below:has(+ p):not(:has(+ p + ol)), h3.below:has(+ p):not(:has(+ p + ol)) + p { display: none; }
.charts .card:nth-child(n + 3) { display: none; }
"""

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("report")
parser.add_argument("out")
parser.add_argument("--chromium", default=shutil.which("chromium"), metavar="PATH")
options = parser.parse_args()
if options.chromium is None:
    parser.error("chromium is not on the PATH; install it, or give its path with --chromium.")

with sync_playwright() as driver:
    browser = driver.chromium.launch(executable_path=options.chromium, args=["--no-sandbox", "--disable-gpu"])
    page = browser.new_page(viewport={"width": WIDTH, "height": 800}, color_scheme="light")
    page.set_default_timeout(300_000)  # a busy machine takes minutes
    page.goto(Path(options.report).resolve().as_uri())
    page.add_style_tag(content=ONLY_SOME)
    page.wait_for_timeout(3000)
    shot = Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB")
    browser.close()

shot.quantize(COLOURS, dither=Image.Dither.NONE).save(options.out, optimize=True)
print(f"{options.out}: {shot.width} x {shot.height}, {Path(options.out).stat().st_size / 1e3:.0f} kB")
