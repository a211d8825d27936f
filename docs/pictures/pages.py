"""The pictures of the report and of the review page in README.md and docs/tutorial-folder.md.

    python examples/tutorial_data.py pictures work
    cd work && bash ../examples/tutorial_folder_1.sh && cd ..
    python docs/pictures/pages.py work/round-1

The training takes about a minute; the pictures need playwright and chromium.
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parents[1] / "images"
LARGEST = 200_000  # bytes


def shoot(run: Path) -> None:
    """The beginning of the report and its gallery beside each other, and the review page after some verdicts."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 760, "height": 900})
        page.goto((run / "report.html").resolve().as_uri())
        top = page.screenshot()
        page.evaluate("document.getElementById('gallery').scrollIntoView()")
        gallery = page.screenshot()
        page.set_viewport_size({"width": 1100, "height": 760})
        page.goto((run / "review.html").resolve().as_uri())
        for key in "ssks":
            page.keyboard.press(key)
        review = page.screenshot()
        browser.close()
    save(beside(top, gallery), IMAGES / "report.png")
    save(Image.open(io.BytesIO(review)), IMAGES / "review.png")


def beside(*shots: bytes) -> Image.Image:
    images = [Image.open(io.BytesIO(shot)).convert("RGB") for shot in shots]
    gap = 16
    whole = Image.new("RGB", (sum(i.width + gap for i in images) - gap, images[0].height), (200, 200, 200))
    place = 0
    for image in images:
        whole.paste(image, (place, 0))
        place += image.width + gap
    return whole


def save(image: Image.Image, path: Path) -> None:
    """Few colours: a page has few, and the file is a third of the size."""
    image.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path.name}: {image.width} x {image.height}, {size / 1000:.0f} kB")
    if size > LARGEST:
        raise SystemExit(f"{path} must be below {LARGEST // 1000} kB; got {size / 1000:.0f}.")


shoot(Path(sys.argv[1]))
