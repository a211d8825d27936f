"""Texts in a real browser: on a phone the report shows them without a push sideways, and no button lies on one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from selc.report.page import write_report
from selc.review import write_review
from selc.runs import Config, RunFolder, execute
from tests.own_data.reviews import write_reviews
from tests.test_report_browser import Quiet, findings_of_axe
from tests.test_review_browser import browser  # noqa: F401 (a fixture)

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    place = tmp_path_factory.mktemp("texts")
    data = {"name": "table", "path": str(write_reviews(place / "reviews.csv"))}
    settings = {"data": data, "method": {"name": "ce"}, "train": {"epochs": 5, "lr": 0.05, "batch_size": 8}}
    return execute(Config.resolve(settings), place / "run", [Quiet()])


def test_on_a_phone_the_report_shows_texts_within_the_screen(run: RunFolder, browser: Browser) -> None:  # noqa: F811
    path, shown = write_report(run)
    page = browser.new_context(viewport={"width": 390, "height": 844}).new_page()
    page.goto(path.as_uri())
    ends = page.evaluate("[...document.querySelectorAll('td.text')].map(text => text.getBoundingClientRect().right)")
    assert len(ends) == len(shown.cards) * len(shown.texts) > 0
    assert max(ends) <= 390
    assert findings_of_axe(browser, path, "light", width=390) == []


def test_the_report_gives_texts_the_room_that_is_there(run: RunFolder, browser: Browser) -> None:  # noqa: F811
    path, _ = write_report(run)
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.goto(path.as_uri())
    widths = "[...document.querySelectorAll('td.text')].map(text => text.getBoundingClientRect().width)"
    assert max(page.evaluate(widths)) > 20 * 16  # more than a name may have


def test_in_the_grid_no_button_lies_on_a_text(run: RunFolder, browser: Browser) -> None:  # noqa: F811
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.goto(write_review(run, count=24).path.as_uri())
    page.keyboard.press("g")
    apart = page.evaluate(
        """[...document.querySelectorAll('#cards li')].map(card => {
            const [text, button] = ['.text', '.open'].map(name => card.querySelector(name).getBoundingClientRect());
            return text.bottom <= button.top || text.right <= button.left;
        })"""
    )
    assert len(apart) == 24
    assert all(apart)
