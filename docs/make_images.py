"""The pictures of the report and of the review page in docs/images, at three widths, light and dark.

    python examples/tutorial_data.py pictures work
    cd work && bash ../examples/tutorial_folder_1.sh && cd ..
    python docs/make_images.py work/round-1

The training takes about a minute; the pictures need playwright and chromium. README.md and docs/tutorial-folder.md show
report.png and review.png; the others (such as review-grid-390-dark.png) are for looking at every screen after a change.
"""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

IMAGES = Path(__file__).parent / "images"
LARGEST = 250_000  # bytes
WIDTHS = {390: 844, 1280: 900, 2560: 1300}  # with the height of such a screen
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def shoot(run: Path) -> None:
    """Every page at every width, and the two that the documentation shows."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme in SCHEMES:
            for width, height in WIDTHS.items():
                for name, page in screens(browser, run, width, height, scheme):
                    save(page.screenshot(), IMAGES / f"{name}-{width}-{scheme}.png")
        page = browser.new_page(viewport={"width": 760, "height": 900})
        page.goto((run / "report.html").resolve().as_uri())
        top = page.screenshot()
        page.evaluate("document.getElementById('trust').scrollIntoView()")
        save(beside(top, page.screenshot()), IMAGES / "report.png")
        page.set_viewport_size({"width": 1280, "height": 760})
        judged(page, run)
        save(page.screenshot(), IMAGES / "review.png")
        browser.close()


def screens(
    browser: Browser, run: Path, width: int, height: int, scheme: Literal["light", "dark"]
) -> Iterator[tuple[str, Page]]:
    """The screens of one size, by name, one after the other."""
    page = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme).new_page()
    page.goto((run / "report.html").resolve().as_uri())
    yield "report", page
    page.evaluate("document.getElementById('matrix').scrollIntoView()")
    yield "report-classes", page
    judged(page, run)
    yield "review", page
    page.keyboard.press("g")
    yield "review-grid", page
    page.keyboard.press("?")
    yield "review-help", page


def judged(page: Page, run: Path) -> None:
    """The review page after some verdicts."""
    page.goto((run / "review.html").resolve().as_uri())
    for key in "ssksssssssss":
        page.keyboard.press(key)


def beside(*shots: bytes) -> bytes:
    """Pictures in a row."""
    images = [Image.open(io.BytesIO(shot)).convert("RGB") for shot in shots]
    gap = 16
    whole = Image.new("RGB", (sum(i.width + gap for i in images) - gap, images[0].height), (200, 200, 200))
    place = 0
    for image in images:
        whole.paste(image, (place, 0))
        place += image.width + gap
    buffer = io.BytesIO()
    whole.save(buffer, "PNG")
    return buffer.getvalue()


def save(shot: bytes, path: Path) -> None:
    """Few colours: a page has few, and the file is a third of the size."""
    image = Image.open(io.BytesIO(shot)).convert("RGB")
    image.quantize(96, dither=Image.Dither.NONE).save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path.name}: {image.width} x {image.height}, {size / 1000:.0f} kB")
    if size > LARGEST:
        raise SystemExit(f"{path} must be below {LARGEST // 1000} kB; got {size / 1000:.0f}.")


if __name__ == "__main__":
    shoot(Path(sys.argv[1]))
