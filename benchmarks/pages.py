"""How large the pages are, how fast they open and how fluid they stay, in Chromium without a window.

Runs of random images and of random features are trained for two epochs (what they find does not matter here). Measured
are the report of 50,000 samples and the review page of 100,000, each opened five times.

    python benchmarks/pages.py

Needs playwright and chromium. On a machine that others use, times are too long, never too short.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from machine import machine
from selc._io.files import write_text
from selc.report.page import write_report
from selc.review import write_review
from selc.runs import Config, RunFolder, execute
from selc.runs.folder import environment

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

RESULTS = Path(__file__).parent / "results"
OPENED, STEPS, CLASSES = 5, 40, 10
FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-gpu", "--disable-dev-shm-usage"]
# How long each of some steps takes from its beginning until the browser has drawn it: milliseconds.
FRAMES = """async ([kind, steps]) => {
    const taken = [];
    for (let k = 0; k < steps; k += 1) {
        const began = performance.now();
        if (kind === 'scroll') scrollBy(0, innerHeight / 4);
        else document.dispatchEvent(new KeyboardEvent('keydown', {key: kind, bubbles: true}));
        await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
        taken.push(performance.now() - began);
    }
    return taken;
}"""


def run_of(kind: str, rows: int, folder: Path) -> RunFolder:
    """A short training on features, or on images of 28 x 28 pixels, a fifth of whose labels are wrong."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, rows)
    shape = (64,) if kind == "features" else (28, 28)
    centres = rng.normal(size=(CLASSES, *shape))
    x = centres[labels] + rng.normal(size=(rows, *shape)) * 2
    if kind == "images":
        x = (x * 20 + 128).clip(0, 255)
    wrong = rng.random(rows) < 0.2
    labels[wrong] = rng.integers(0, CLASSES, int(wrong.sum()))
    np.savez(folder / f"{kind}-{rows}.npz", x=x.astype(np.float32 if kind == "features" else np.uint8), y=labels)
    settings = {
        "data": {"name": "npz", "path": str(folder / f"{kind}-{rows}.npz")},
        "net": {"name": "mlp", "hidden": [32]},
        "method": {"name": "selc", "start": 1, "alpha": 0.4},
        "train": {"epochs": 2, "batch_size": 512, "device": "cpu", "threads": 1},
    }
    return RunFolder.open(execute(Config.resolve(settings), folder / f"run-{kind}-{rows}").path)


def opened(browser: Browser, path: Path, kinds: dict[str, str]) -> dict[str, Any]:
    """What the browser says of a page: the median of several openings, and how long it takes to move about in it."""
    times = []
    for _ in range(OPENED):
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(path.as_uri())
        page.wait_for_function("performance.getEntriesByType('navigation')[0].loadEventEnd > 0")
        times.append(page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd"))
        page.close()
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(path.as_uri())
    moves = {name: moved(page, kind) for name, kind in kinds.items()}
    heap, nodes = page.evaluate("[performance.memory.usedJSHeapSize, document.querySelectorAll('*').length]")
    page.close()
    return {
        "megabytes": round(path.stat().st_size / 1e6, 2),
        "open_ms": round(statistics.median(times)),
        "heap_mb": round(heap / 1e6, 1),
        "elements": nodes,
        **moves,
    }


def moved(page: Page, kind: str) -> dict[str, float]:
    if kind.startswith("grid "):
        page.keyboard.press("g")
    taken = page.evaluate(FRAMES, [kind.removeprefix("grid "), STEPS])
    return {"median": round(statistics.median(taken), 1), "p95": round(statistics.quantiles(taken, n=20)[-1], 1)}


def table(lines: list[dict[str, Any]]) -> str:
    about = lines[0]
    head = [
        "# Pages",
        "",
        f"Written by `benchmarks/pages.py` at commit {about['commit']} with Chromium {about['chromium']} without a "
        f"window or a graphics card, {machine(about)}. Opening: until the load event, the median of {OPENED}. A step "
        "is drawn when the browser has shown its frame (16.7 ms at 60 a second): the median and the 95 % quantile of "
        f"{STEPS}. Other programs ran beside it, so times are upper bounds.",
        "",
        "| page | samples | MB | opens in, ms | heap of scripts, MB | elements | a step, ms |",
        "|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        steps = "; ".join(f"{name} {of['median']} ({of['p95']})" for name, of in line["steps"].items())
        head.append(
            f"| {line['page']} | {line['samples']:,} | {line['megabytes']} | {line['open_ms']} | {line['heap_mb']} "
            f"| {line['elements']:,} | {steps} |"
        )
    return "\n".join(head) + "\n"


def measure(browser: Browser, folder: Path, reported: int, reviewed: int) -> list[dict[str, Any]]:
    lines = []
    for kind in ("features", "images"):
        page, _ = write_report(run_of(kind, reported, folder))
        lines.append(line_of(browser, page, f"report, {kind}", reported, {"scroll": "scroll"}))
    for kind in ("features", "images"):
        run = run_of(kind, reviewed, folder)
        made = write_review(run, count=reviewed)
        moves = {"next": "ArrowRight", "verdict": "k", "24 more": "grid ArrowRight"}
        lines.append(line_of(browser, made.path, f"review, {kind}", reviewed, moves))
    return lines


def line_of(browser: Browser, path: Path, name: str, samples: int, moves: dict[str, str]) -> dict[str, Any]:
    found = opened(browser, path, moves)
    steps = {name: found.pop(name) for name in moves}
    line = {"page": name, "samples": samples, **found, "steps": steps, "chromium": browser.version, **environment()}
    print(json.dumps(line), flush=True)
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--report", type=int, default=50_000, help="samples of the report")
    parser.add_argument("--review", type=int, default=100_000, help="samples of the review page")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    arguments = parser.parse_args()
    from playwright.sync_api import sync_playwright

    torch.set_num_threads(1)
    with TemporaryDirectory() as place, sync_playwright() as playwright:
        flags = [*FLAGS, "--enable-precise-memory-info"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        lines = measure(browser, Path(place), arguments.report, arguments.review)
        browser.close()
    write_text(arguments.out / "pages.md", table(lines))


if __name__ == "__main__":
    main()
