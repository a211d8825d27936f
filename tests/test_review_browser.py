"""The review page in a real browser: judge by keyboard, undo, reload, save, apply; markup in names does nothing."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from selc.runs import Config, RunFolder, execute
from tests.own_data.miniature import COLOURS, encoded, picture
from tests.test_review import SCRIPT, SMALL, Quiet, call, content_of, digits  # noqa: F401 (a fixture)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page

pytestmark = pytest.mark.browser
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no chromium")
    with sync_api.sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-background-networking", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


def watched(page: Page) -> list[str]:
    """Everything that a page complains about, or asks the network for."""
    seen: list[str] = []

    def refuse(dialog: Dialog) -> None:
        seen.append(dialog.message)
        dialog.dismiss()

    page.on("pageerror", lambda error: seen.append(str(error)))
    page.on("console", lambda message: seen.append(message.text) if message.type in ("error", "warning") else None)
    page.on("dialog", refuse)
    page.on("request", lambda r: seen.append(r.url) if not r.url.startswith(("file:", "data:", "blob:")) else None)
    return seen


def saved(page: Page, path: Path) -> Any:
    with page.expect_download() as download:
        page.click("#save")
    assert download.value.suggested_filename == "decisions.json"
    download.value.save_as(path)
    return json.loads(path.read_text())


def test_twenty_are_judged_by_keyboard_undone_kept_over_a_reload_saved_and_applied(
    browser: Browser,
    digits: RunFolder,  # noqa: F811
    tmp_path: Path,
) -> None:
    html = tmp_path / "review.html"
    assert call("review", str(digits.path), "--top", "30", "--out", str(html)).exit_code == 0
    samples = content_of(html)["samples"]
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    seen = watched(page)
    page.goto(html.as_uri())
    expected: dict[str, tuple[str, str | None]] = {}
    for place, sample in enumerate(samples[:20]):
        assert page.inner_text("#sample") == sample["id"]
        assert page.inner_text("#given") == sample["given"]
        assert page.inner_text("#suggested") == sample["suggested"]
        assert page.evaluate("document.getElementById('picture').naturalWidth") == 8
        same = sample["given"] == sample["suggested"]
        other = next(name for name in "0123456789" if name not in (sample["given"], sample["suggested"]))
        key, verdict, label = [
            ("k", "keep", sample["given"]),
            ("s", "suggested", sample["suggested"]),
            ("Enter", "suggested", sample["suggested"]),
            (other, "other", other),
            ("d", "drop", None),
            ("Space", "skip", None),
        ][place % 6]
        if same and verdict == "suggested":
            key, verdict, label = "k", "keep", sample["given"]
        page.keyboard.press(key)
        expected[sample["id"]] = (verdict, label)
    assert page.inner_text("#progress") == "20 of 30 judged"

    page.keyboard.press("u")
    page.keyboard.press("u")
    assert page.inner_text("#progress") == "18 of 30 judged"
    assert page.inner_text("#sample") == samples[18]["id"]
    page.reload()
    assert page.inner_text("#progress") == "18 of 30 judged"
    assert page.inner_text("#sample") == samples[18]["id"]
    page.keyboard.press("u")  # what was done before a reload can be taken back, too
    assert page.inner_text("#sample") == samples[17]["id"]
    for sample in samples[17:20]:
        page.keyboard.press("d")
        expected[sample["id"]] = ("drop", None)
    assert page.inner_text("#progress") == "20 of 30 judged"

    path = tmp_path / "decisions.json"
    content = saved(page, path)
    assert {d["sample_id"]: (d["verdict"], d["label"]) for d in content["decisions"]} == expected
    assert [d["sample_id"] for d in content["decisions"]] == [sample["id"] for sample in samples[:20]]
    assert not seen

    result = call("apply", str(digits.path), "--decisions", str(path), "--out", str(tmp_path / "cleaned"))
    assert result.exit_code == 0, result.output
    with open(tmp_path / "cleaned" / "cleaned.csv", newline="") as file:
        cleaned = {row["sample_id"]: row for row in csv.DictReader(file)}
    with open(digits.path / "label_issues.csv", newline="") as file:
        issues = {row["sample_id"]: row for row in csv.DictReader(file)}
    for sample_id, row in cleaned.items():
        verdict, label = expected.get(sample_id, ("skip", None))
        if verdict == "skip":
            sure = issues[sample_id]["action"] == "relabel"
            label = issues[sample_id]["suggested_label" if sure else "given_label"]
            assert (row["label"], row["source"]) == (label, "relabelled" if sure else "given")
        elif verdict == "drop":
            assert (row["label"], row["source"]) == ("", "dropped")
        else:
            assert (row["label"], row["source"]) == (label, "human")

    # In another browser the file brings the work back.
    fresh = browser.new_context().new_page()
    fresh.goto(html.as_uri())
    assert fresh.inner_text("#progress") == "0 of 30 judged"
    fresh.set_input_files("#open", path)
    fresh.wait_for_function("document.getElementById('progress').textContent.startsWith('20 of 30')")
    assert fresh.inner_text("#sample") == samples[20]["id"]


def test_filters_mouse_and_search_do_what_they_say(
    browser: Browser,
    digits: RunFolder,  # noqa: F811
    tmp_path: Path,
) -> None:
    html = tmp_path / "review.html"
    assert call("review", str(digits.path), "--top", "60", "--out", str(html)).exit_code == 0
    samples = content_of(html)["samples"]
    page = browser.new_context().new_page()
    seen = watched(page)
    page.goto(html.as_uri())
    page.select_option("#zone", "review")
    wanted = [s for s in samples if s["zone"] == "review"]
    assert page.inner_text("#place") == f"1 / {len(wanted)}"
    assert page.inner_text("#sample") == wanted[0]["id"]
    page.select_option("#class", label="3")
    both = [s for s in wanted if "3" in (s["given"], s["suggested"])]
    assert page.inner_text("#place") == f"1 / {len(both)}" if both else page.is_visible("#empty")
    page.select_option("#zone", "")
    page.select_option("#class", "")
    first = page.inner_text("#sample")
    page.click("#drop")
    second = page.inner_text("#sample")
    assert second != first
    page.keyboard.press("o")
    page.keyboard.type("7")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight")
    page.click("#choices button >> nth=0")
    page.select_option("#state", "done")
    assert page.inner_text("#place").endswith("/ 3")
    made = {d["sample_id"]: d for d in saved(page, tmp_path / "decisions.json")["decisions"]}
    assert (made[first]["verdict"], made[second]["label"]) == ("drop", "7")
    assert [d["label"] for d in made.values() if d["sample_id"] not in (first, second)] == ["0"]
    assert not seen


def test_names_of_files_and_classes_made_of_script_do_nothing(browser: Browser, tmp_path: Path) -> None:
    root = tmp_path / "data"
    for number, name in enumerate(COLOURS):
        # A slash cannot be in the name of a folder; the closing tag is tried in the table of test_review.
        place = root / f"<img src=x onerror=alert({number})>{name}"
        place.mkdir(parents=True)
        for copy in range(5):
            (place / f"\"><svg onload=alert({copy})>'{{{{js}}}}.png").write_bytes(encoded(picture(name, copy)))
            (place / f"<script>window.hacked=1;alert({copy}).png").write_bytes(encoded(picture(name, copy + 9)))
    settings = {
        "data": {"name": "folder", "path": str(root), "cache": "off"},
        **SMALL,
    }
    run = execute(Config.resolve(settings), tmp_path / SCRIPT.replace("/", "_"), [Quiet()])
    html = tmp_path / "review.html"
    assert call("review", str(run.path), "--out", str(html)).exit_code == 0
    page = browser.new_context().new_page()
    seen = watched(page)
    page.goto(html.as_uri())
    for _ in run.ids:
        assert page.inner_text("#sample") in run.ids
        page.keyboard.press("k")
    page.keyboard.press("o")
    page.keyboard.type("<img")
    assert page.locator("#choices button").count() == 3
    assert page.evaluate("window.hacked") is None
    assert page.locator("svg, body script:not([id]) ~ script, img[src=x]").count() == 0
    decisions = saved(page, tmp_path / "decisions.json")["decisions"]
    assert {d["sample_id"]: d["label"] for d in decisions} == {i: i.split("/")[0] for i in run.ids}
    assert not seen
    path = str(tmp_path / "decisions.json")
    result = call("apply", str(run.path), "--decisions", path, "--out", str(tmp_path / "cleaned"))
    assert result.exit_code == 0, result.output
    tree = tmp_path / "cleaned" / "tree"
    assert {str(p.relative_to(tree)) for p in tree.rglob("*.png")} == set(run.ids)


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_wider_than_the_window(
    browser: Browser,
    digits: RunFolder,  # noqa: F811
    width: int,
    tmp_path: Path,
) -> None:
    html = tmp_path / "review.html"
    assert call("review", str(digits.path), "--top", "10", "--out", str(html)).exit_code == 0
    page = browser.new_context(viewport={"width": width, "height": 740}).new_page()
    page.goto(html.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # The buttons of a verdict are in sight without scrolling.
    assert page.evaluate("document.getElementById('skip').getBoundingClientRect().bottom") <= 740
