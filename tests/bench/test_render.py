"""Tables hold the mean and spread of the results, the published numbers beside them, and say what was not run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from selc.bench.formats import as_html, as_latex, as_markdown, latex
from selc.bench.render import Number, page_of, sheet_of, write_pages
from selc.bench.results import append_line
from selc.bench.runner import value_of
from selc.bench.sheet import Page
from selc.bench.table import Cell, Table, parse
from selc.errors import ConfigError
from tests.bench.miniature import cell, line


def sheet(cells: list[Cell], lines: list[dict[str, Any]], **options: Any) -> Any:
    return sheet_of("Title", "Caption.", cells, {one["key"]: one for one in lines}, value_of, published=True, **options)


def test_mean_and_sample_deviation_are_those_of_the_seeds() -> None:
    # By hand: mean of 90, 92, 97 is 93; squares 9 + 1 + 16 = 26, over n - 1 = 2 is 13, root 3.6056.
    number = Number.of([90.0, 92.0, 97.0])
    assert number is not None
    assert number.text(2) == "93.00 ± 3.61"
    assert Number.of([50.0]) == Number(50.0, None, 1)
    assert Number.of([]) is None


def test_ours_stands_beside_the_published_number_and_the_best_of_each_is_bold() -> None:
    cells = [
        cell("CE", seed=0, published=86.98, published_spread=0.12),
        cell("CE", seed=1, published=86.98, published_spread=0.12),
        cell("SELC", seed=0, published=93.09),
        cell("SELC", seed=1, published=93.09),
    ]
    lines = [line(one, value) for one, value in zip(cells, (0.95, 0.97, 0.90, 0.90), strict=True)]
    table = sheet(cells, lines)
    [[ce], [selc]] = table.entries
    assert (ce.ours, ce.best, ce.paper, ce.paper_best) == ("96.00 ± 1.41", True, "86.98 ± 0.12", False)
    assert (selc.ours, selc.best, selc.paper, selc.paper_best) == ("90.00 ± 0.00", False, "93.09", True)
    page = Page("P", "A", (table,))
    assert "| CE | **96.00 ± 1.41** / 86.98 ± 0.12 |" in as_markdown(page)
    assert r"CE & \textbf{96.00 $\pm$ 1.41} / 86.98 $\pm$ 0.12 \\" in as_latex(page)
    assert "<b>96.00 ± 1.41</b>" in as_html(page)


def test_a_cell_that_was_not_run_says_so_with_the_reason() -> None:
    gone = cell("CE", skip="needs CIFAR-100", published=58.72)
    open_ = cell("SELC")
    partly = [cell("SELC", "moons 40%", seed) for seed in (0, 1)]
    table = sheet([gone, open_, *partly], [line(partly[0], 0.5)])
    (ce, none), (selc, half) = table.entries
    notes = dict(table.footnotes)
    assert (ce.ours, ce.instead, ce.paper) == ("", "not run", "58.72")
    assert [notes[mark] for mark in ce.marks] == ["needs CIFAR-100"]
    assert [notes[mark] for mark in selc.marks] == ["not run yet"]
    assert half.ours == "50.00"
    assert [notes[mark] for mark in half.marks] == ["1 of 2 seeds"]
    text = as_markdown(Page("P", "A", (table,)))
    assert "| CE | not run<sup>a</sup> / 58.72 | – |" in text
    assert "<sup>a</sup> needs CIFAR-100." in text
    assert none.ours == none.instead == ""


def test_a_note_of_a_whole_column_stands_at_its_head() -> None:
    cells = [cell("CE", note="noise drawn by our generator"), cell("SELC", note="noise drawn by our generator")]
    table = sheet(cells, [line(one, 0.5) for one in cells])
    assert table.columns == (("moons 20%", "a"),)
    assert table.footnotes == (("a", "noise drawn by our generator"),)
    assert all(entry.marks == () for row in table.entries for entry in row)


def test_a_line_of_another_configuration_is_not_taken() -> None:
    old = cell(epochs=3)
    [[entry]] = sheet([cell()], [line(old, 0.99)]).entries
    assert entry.ours == ""


def test_the_epoch_that_the_protocol_picks_is_the_number_and_the_named_set_is_read() -> None:
    sets = {"webvision": {"top1": 0.7, "top5": 0.9}, "ilsvrc12": {"top1": 0.6, "top5": 0.8}}
    one = replace(cell(), test="ilsvrc12", measure="top5")
    assert value_of(one, {"accuracy": sets, "best_accuracy": {"ilsvrc12": {"top5": 0.99}}}) == 0.8


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("50% & more", r"50\% \& more"),
        ("a_b {c} #1 $2", r"a\_b \{c\} \#1 \$2"),
        ("x^2 ~ y\\z", r"x\textasciicircum{}2 \textasciitilde{} y\textbackslash{}z"),
        ("1.0 ± 0.1", r"1.0 $\pm$ 0.1"),
    ],
)
def test_latex_prints_every_letter_as_it_is(text: str, expected: str) -> None:
    assert latex(text) == expected


def miniature_table() -> Table:
    content = {
        "name": "mini",
        "title": "A <small> table",
        "caption": "Two moons.",
        "rows": ["CE", "SELC"],
        "columns": ["moons 20%"],
        "published": {"CE": ["70.00 ± 1.00"], "SELC": ["80.00"]},
        "settings": {
            "moons 20%": {"noise": {"name": "symmetric", "rate": 0.2}},
            "ours 20%": {"of": "moons 20%", "noise": {"name": "symmetric", "rate": 0.2}},
        },
        "scales": {
            "cpu": {
                "what": "seconds",
                "settings": {"data": {"name": "moons"}, "train": {"epochs": 1, "threads": 1}},
                "blocks": [{"seeds": [0, 1], "columns": ["ours 20%"]}],
            }
        },
    }
    return parse(content, {"CE": {"name": "ce"}, "SELC": {"name": "selc", "start": 1}})


def test_a_page_is_written_in_three_forms_and_needs_no_other_file(tmp_path: Path) -> None:
    table, results = miniature_table(), tmp_path / "bench.jsonl"
    cells = table.cells("cpu")
    for one, value in zip(cells, (0.6, 0.62, 0.75, 0.75), strict=True):
        append_line(results, line(one, value, seconds=10.0 if one.row == "CE" else 15.0, right_after=0.9))
    (tmp_path / "bench-cpu.txt").write_text("What it <shows>.\n")
    written = write_pages([table], "cpu", results, tmp_path)
    assert [path.name for path in written] == ["tables-cpu.md", "tables-cpu.html", "tables-cpu.tex"]
    markdown, page, tex = (path.read_text() for path in written)
    assert "| CE | 61.00 ± 1.41 / 70.00 ± 1.00 |" in markdown
    assert "the paper's numbers are for moons 20%" in markdown  # the column is on other data than the paper's
    assert "Scale cpu: seconds." in markdown
    assert "over 2 seeds" in markdown
    assert "4 trainings" in markdown
    assert "| SELC | 1.5 ± 0.0 |" in markdown  # time relative to CE
    assert "What it <shows>." in markdown
    assert "What it &lt;shows&gt;." in page
    assert "A &lt;small&gt; table" in page
    assert "http" not in page
    assert "src=" not in page
    assert r"\begin{tabular}{lc}" in tex
    assert tex.count("{") == tex.count("}")


def test_pictures_are_in_the_page(tmp_path: Path) -> None:
    figure = replace(miniature_table(), kind="figure")
    (tmp_path / "mini-part-cpu.png").write_bytes(b"png")
    page = page_of([figure], "cpu", {}, "text", tmp_path)
    assert "data:image/png;base64,cG5n" in as_html(page)
    assert "(mini-part-cpu.png)" in as_markdown(page)


def test_no_results_get_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must hold results to render"):
        write_pages([miniature_table()], "cpu", tmp_path / "none.jsonl", tmp_path)
