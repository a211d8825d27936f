"""The review page in a real browser: judge by keyboard, undo, reload, save, apply; markup in names does nothing."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from selc.review.review_page import page as whole_page
from selc.runs import Config, RunFolder, execute
from selc.runs.decisions import Band
from tests.own_data.miniature import COLOURS, encoded, picture, write_csv
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
    assert page.is_visible("#hint")
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

    assert not page.is_visible("#hint")
    path = tmp_path / "decisions.json"
    content = saved(page, path)
    assert page.inner_text("#saved").endswith(f"Next: selc apply {digits.path} --decisions decisions.json")
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


def test_a_grid_judges_many_at_once_and_undoes_them_at_once(
    browser: Browser,
    digits: RunFolder,  # noqa: F811
    tmp_path: Path,
) -> None:
    html = tmp_path / "review.html"
    assert call("review", str(digits.path), "--top", "60", "--out", str(html)).exit_code == 0
    samples = content_of(html)["samples"]
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    seen = watched(page)
    page.goto(html.as_uri())
    page.keyboard.press("g")
    assert page.locator("#cards li").count() == 24
    assert page.inner_text("#page-place") == "page 1 / 3"
    page.click("#cards li:nth-child(1) button >> nth=0")
    page.click("#cards li:nth-child(3) button >> nth=0")
    assert page.inner_text("#chosen") == "2 chosen"
    page.keyboard.press("k")
    assert page.inner_text("#progress") == "2 of 60 judged"
    page.keyboard.press("s")  # nothing is chosen: all that are open and have another label suggested
    first = samples[:24]
    changes = [s for k, s in enumerate(first) if k not in (0, 2) and s["given"] != s["suggested"]]
    assert page.inner_text("#progress") == f"{2 + len(changes)} of 60 judged"
    page.keyboard.press("u")
    assert page.inner_text("#progress") == "2 of 60 judged"
    page.reload()
    page.keyboard.press("u")
    assert page.inner_text("#progress") == "0 of 60 judged"
    page.keyboard.press("g")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("k")
    made = {d["sample_id"]: d for d in saved(page, tmp_path / "decisions.json")["decisions"]}
    assert set(made) == {sample["id"] for sample in samples[24:48]}
    assert {d["verdict"] for d in made.values()} == {"keep"}
    page.click("#cards li:nth-child(2) .open")
    assert page.is_visible("#card")
    assert page.inner_text("#sample") in {sample["id"] for sample in samples}
    assert not seen


def test_pairs_sorting_help_and_zoom(browser: Browser, digits: RunFolder, tmp_path: Path) -> None:  # noqa: F811
    html = tmp_path / "review.html"
    assert call("review", str(digits.path), "--top", "80", "--out", str(html)).exit_code == 0
    samples = content_of(html)["samples"]
    page = browser.new_context().new_page()
    seen = watched(page)
    page.goto(html.as_uri())
    orders: dict[str, Any] = {
        "quality": lambda s: s["quality"],
        "confidence": lambda s: -s["confidence"],
        "class": lambda s: (s["given"], s["quality"]),
        "alike": lambda s: -(s["nearer"] if s["nearer"] is not None else float("-inf")),
    }
    for name, key in orders.items():
        page.select_option("#sort", name)
        wanted = [s["id"] for s in sorted(samples, key=key)][:5]
        for sample_id in wanted:
            assert page.inner_text("#sample") == sample_id
            page.keyboard.press("ArrowRight")
    page.select_option("#sort", "")
    pairs: dict[tuple[str, str], int] = {}
    for s in samples:
        if s["given"] != s["suggested"]:
            pairs[s["given"], s["suggested"]] = pairs.get((s["given"], s["suggested"]), 0) + 1
    (given, suggested), count = max(pairs.items(), key=lambda item: item[1])
    page.select_option("#pair", json.dumps([given, suggested], separators=(",", ":")))
    assert page.inner_text("#place") == f"1 / {count}"
    assert (page.inner_text("#given"), page.inner_text("#suggested")) == (given, suggested)
    page.keyboard.press("?")
    assert "how well the given label fits" in page.inner_text("#help")
    page.keyboard.press("k")  # keys judge nothing while help is open
    assert page.inner_text("#progress") == "0 of 80 judged"
    page.keyboard.press("Escape")
    page.click("#zoom")
    assert page.is_visible("#large-picture")
    page.keyboard.press("Escape")
    assert not page.is_visible("#large-picture")
    assert not seen


def test_the_precision_is_told_with_wilsons_interval_and_when_to_stop(
    browser: Browser,
    digits: RunFolder,  # noqa: F811
    tmp_path: Path,
) -> None:
    html = tmp_path / "review.html"
    assert call("review", str(digits.path), "--top", "200", "--out", str(html)).exit_code == 0
    page = browser.new_context().new_page()
    page.goto(html.as_uri())
    page.select_option("#zone", "relabel")
    for key in ["k", *"s" * 24]:
        page.keyboard.press(key)
    band = Band(0.0, 1.0, 25, 24)
    low, high = (f"{round(100 * end)} %" for end in band.interval)
    said = page.inner_text("#measured")
    assert f"Of 25 changes that you checked, 24 were right: 96 % (between {low} and {high})." in said
    assert ("It pays to stop" in said) == (band.interval[0] >= 0.8)


def test_the_original_file_is_shown_large(browser: Browser, tmp_path: Path) -> None:
    root = tmp_path / "my data"
    for name in COLOURS:
        (root / name).mkdir(parents=True)
        for number in range(4):
            (root / name / f"{number} #%.png").write_bytes(encoded(picture(name, number)))
    settings = {"data": {"name": "folder", "path": str(root), "cache": "off"}, **SMALL}
    run = execute(Config.resolve(settings), tmp_path / "run", [Quiet()])
    assert call("review", str(run.path)).exit_code == 0
    page = browser.new_context().new_page()
    seen = watched(page)
    page.goto((run.path / "review.html").as_uri())
    page.keyboard.press("v")
    page.wait_for_function("document.getElementById('large-picture').naturalWidth > 0")
    assert page.evaluate("document.getElementById('large-picture').src").startswith("file:")
    assert not seen


@pytest.mark.parametrize("key", ["", "g", "?"])
def test_axe_has_no_serious_finding_in_the_review(
    key: str,
    browser: Browser,
    digits: RunFolder,  # noqa: F811
    tmp_path: Path,
) -> None:
    from tests.test_report_browser import findings_of_axe

    html = tmp_path / "review.html"
    assert call("review", str(digits.path), "--top", "30", "--out", str(html)).exit_code == 0
    for scheme in ("light", "dark"):
        assert findings_of_axe(browser, html, scheme, key) == []


@pytest.mark.exhaustive
def test_a_hundred_thousand_samples_stay_fluid(browser: Browser, digits: RunFolder, tmp_path: Path) -> None:  # noqa: F811
    html = tmp_path / "review.html"
    assert call("review", str(digits.path), "--top", "60", "--out", str(html)).exit_code == 0
    content = content_of(html)
    many = [
        {**content["samples"][k % 60], "id": f"sample {k}", "quality": (k * 7919 % 100_000) / 100_000, "alike": []}
        for k in range(100_000)
    ]
    html.write_text(whole_page({**content, "samples": many, "total": len(many)}))
    page = browser.new_context().new_page()
    page.goto(html.as_uri())
    assert page.inner_text("#place") == "1 / 100000"
    # What is in the page does not grow with the samples: that is what keeps it fluid on any machine.
    few = page.evaluate("document.querySelectorAll('*').length")
    assert few < 600
    page.keyboard.press("g")
    assert page.locator("#cards li").count() == 24
    page.select_option("#sort", "quality")
    page.keyboard.press("k")
    assert page.inner_text("#progress") == "24 of 100000 judged"
    assert page.evaluate("document.querySelectorAll('*').length") < 1000


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


def test_all_look_alikes_of_a_row_are_in_sight_beside_it(browser: Browser, tmp_path: Path) -> None:
    names = [*(f"a_measured_number_{k}" for k in range(10)), "day", "label"]
    rows = [[*((k * 7919 % (97 + j)) / 7 for j in range(10)), f"2024-03-{k % 9 + 10}", "ab"[k % 2]] for k in range(60)]
    data = {"name": "table", "path": str(write_csv(tmp_path / "t.csv", names, rows)), "drop": ["day"]}
    run = execute(Config.resolve({"data": data, **SMALL}), tmp_path / "run", [Quiet()])
    assert call("review", str(run.path)).exit_code == 0
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.goto((run.path / "review.html").as_uri())
    boxes = "[...document.querySelectorAll('#alike .scroll')].map(box => [box.scrollWidth, box.clientWidth])"
    found = page.evaluate(boxes)
    assert len(found) == 2
    assert all(width <= seen for width, seen in found)
    assert page.locator("#alike tr:first-child th").count() == 2 * 4  # the row, and three that look like it
