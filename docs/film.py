"""The player of a report as an animated picture: `python docs/film.py out/paper/report.html docs/figures/player.webp`.

Opens the report in headless Chromium and records some frames of its player. `make figures` runs it. It needs the extra
`dev` and Chromium.
"""

import argparse
import io
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

WIDTH, SHOTS, MILLISECONDS = 920, 32, 350
ONLY_THE_PLAYER = """
main > section:not(:has(#boards)), header.top, footer.end, .controls, .looked, .when, .transport button,
section > p, section > h2 { display: none !important; }
main > section { padding: 8px 14px 14px; border: 0; }
.transport { position: static; border: 0; padding: 0; }
.transport input[type=range] { order: 0 !important; }
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
    page.add_style_tag(content=ONLY_THE_PLAYER)
    last = int(page.locator("#moment").get_attribute("max") or 0)
    moments = sorted({round(i * last / (SHOTS - 1)) for i in range(SHOTS)})
    shots = []
    for moment in moments:
        page.locator("#moment").fill(str(moment))
        page.evaluate("document.activeElement.blur()")
        shots.append(Image.open(io.BytesIO(page.locator("section:has(#boards)").screenshot())).convert("RGB"))
    browser.close()

times = [MILLISECONDS] * (len(shots) - 1) + [3000]
shots[0].save(
    options.out,
    save_all=True,
    append_images=shots[1:],
    duration=times,
    loop=0,
    quality=72,
    method=6,
    minimize_size=True,
)
print(f"{options.out}: {len(shots)} moments, {Path(options.out).stat().st_size / 1e6:.2f} MB")
