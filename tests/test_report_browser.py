"""The report in a real browser, on a screen of 400 pixels: nothing is cut off without a sign, no name falls apart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from selc.callbacks import Callback
from selc.report.page import write_report
from selc.runs import Config, RunFolder, execute
from tests.own_data.miniature import encoded, picture
from tests.test_review_browser import browser, watched  # noqa: F401 (a fixture)

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser
CLASSES = {"triangle": "red", "hexagon": "blue", "x" * 70: "green"}


class Quiet(Callback):
    def on_notice(self, text: str) -> bool:
        """Small data make for warnings that are not the matter here."""
        return True


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("report")
    for name, colour in CLASSES.items():
        (root / "photos" / name).mkdir(parents=True)
        for number in range(8):
            (root / "photos" / name / f"{number}.png").write_bytes(encoded(picture(colour, number)))
    data = {"name": "folder", "path": str(root / "photos"), "cache": "off", "augment": "none"}
    settings = {"data": data, "net": {"name": "mlp", "hidden": [8]}, "train": {"epochs": 4}}
    run = execute(Config.resolve(settings), root / "run", [Quiet()])
    return write_report(RunFolder.open(run.path))[0]


AXE = Path(__file__).parents[1] / ".venv" / "axe" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_has_no_serious_finding_in_the_report(scheme: Any, browser: Browser, report: Path) -> None:  # noqa: F811
    assert findings_of_axe(browser, report, scheme) == []


def findings_of_axe(browser: Browser, page_of: Path, scheme: Any, key: str = "", width: int = 1280) -> list[str]:  # noqa: F811
    """What axe-core calls serious or critical, with everything unfolded."""
    if not AXE.is_file():
        pytest.skip("axe-core is not there: npm install --prefix .venv/axe axe-core")
    context = browser.new_context(color_scheme=scheme, bypass_csp=True, viewport={"width": width, "height": 900})
    page = context.new_page()
    page.goto(page_of.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true })")
    if key:
        page.keyboard.press(key)
    page.add_script_tag(path=AXE)
    found = page.evaluate("axe.run().then(result => result.violations)")
    return [f"{v['id']}: {v['nodes'][0]['html']}" for v in found if v["impact"] in ("serious", "critical")]


@pytest.mark.parametrize("width", [400, 1100])
def test_what_is_wider_than_its_box_scrolls_there_and_shows_it(width: int, browser: Browser, report: Path) -> None:  # noqa: F811
    page = browser.new_context(viewport={"width": width, "height": 800}).new_page()
    seen = watched(page)
    page.goto(report.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true })")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    boxes = page.evaluate(
        """[...document.querySelectorAll('.scroll')].map(box => ({
            figure: box.parentElement.classList.contains('plot'),
            wide: box.scrollWidth > box.clientWidth,
            scrolls: getComputedStyle(box).overflowX == 'auto',
            shadows: getComputedStyle(box).backgroundImage.split('linear-gradient').length - 1,
            hint: !!box.parentElement.querySelector(':scope > .push')?.offsetHeight,
        }))"""
    )
    figures = [box for box in boxes if box["figure"]]
    tables = [box for box in boxes if not box["figure"]]
    assert len(figures) >= 3
    assert len(tables) > 3
    assert all(box["scrolls"] for box in boxes)
    assert all(box["hint"] == box["wide"] == (width == 400) for box in figures)
    assert all(box["shadows"] == 4 for box in tables)
    assert any(box["wide"] for box in tables) or width > 400
    assert seen == []


def test_on_paper_nothing_is_wider_than_the_sheet_and_nothing_is_folded_away(browser: Browser, report: Path) -> None:  # noqa: F811
    page = browser.new_context(viewport={"width": 718, "height": 1000}, color_scheme="dark").new_page()  # A4, 1 cm off
    page.goto(report.as_uri())
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 718
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    hidden = "[...document.querySelectorAll('details > :not(summary)')].filter(part => !part.getClientRects().length)"
    assert page.evaluate(f"{hidden}.length") == 0
    assert page.evaluate("!document.querySelector('nav')?.getClientRects().length")


def test_names_of_rows_stay_in_one_piece_and_the_longest_are_broken(browser: Browser, report: Path) -> None:  # noqa: F811
    page = browser.new_context(viewport={"width": 400, "height": 800}).new_page()
    page.goto(report.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true })")
    lines = page.evaluate(
        """[...document.querySelectorAll('th[scope=row] bdi')].map(name => {
            const range = document.createRange(); range.selectNodeContents(name);
            return [name.textContent, new Set([...range.getClientRects()].map(line => Math.round(line.top))).size,
                    name.offsetWidth];
        })"""
    )
    short = [line for line in lines if line[0] in ("triangle", "hexagon")]
    assert short
    assert {count for _, count, _ in short} == {1}
    long = [line for line in lines if line[0].startswith("xxx")]
    assert long
    assert all(count > 1 and width <= 16 * 16 for _, count, width in long)
