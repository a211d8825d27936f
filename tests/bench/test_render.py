"""Tables hold the mean and spread of the results, the published numbers beside them, and say what was not run."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from selc.bench.grid import Number, sheet_of
from selc.bench.markup import as_html, as_latex, as_markdown, latex
from selc.bench.render import main_sheet, more_sheets, page_of, write_pages
from selc.bench.results import append_line
from selc.bench.runner import value_of
from selc.bench.sheet import Page
from selc.bench.table import SCALES, Cell, Table, load, names, parse
from selc.errors import ConfigError
from tests.bench.miniature import cell, line

ONLY = "published numbers only, no run of ours"


def sheet(cells: list[Cell], lines: list[dict[str, Any]], published: dict[str, Any] | None = None, **more: Any) -> Any:
    """Of cells made by hand, with published numbers by row for the columns."""
    known = {one["key"]: one for one in lines}
    columns = more.pop("columns", list(dict.fromkeys(one.column for one in cells)))
    content = {"name": "mini", "title": "T", "caption": "C.", "rows": list(published or {}), "columns": columns}
    table = parse({**content, "published": published or {}, "scales": {}, "settings": more.pop("settings", {})}, {})
    return sheet_of("Title", "Caption.", cells, known, value_of, beside=table, **more)


def test_mean_and_sample_deviation_are_those_of_the_seeds() -> None:
    # By hand: mean of 90, 92, 97 is 93; squares 9 + 1 + 16 = 26, over n - 1 = 2 is 13, root 3.6056.
    number = Number.of([90.0, 92.0, 97.0])
    assert number is not None
    assert number.text(2) == "93.00 ± 3.61"
    assert Number.of([50.0]) == Number(50.0, None, 1)
    assert Number.of([]) is None


def test_ours_stands_beside_the_published_number_and_the_best_of_each_is_bold() -> None:
    cells = [cell(row, seed=seed) for row in ("CE", "SELC") for seed in (0, 1)]
    lines = [line(one, value) for one, value in zip(cells, (0.95, 0.97, 0.90, 0.90), strict=True)]
    table = sheet(cells, lines, {"CE": ["86.98 ± 0.12"], "SELC": ["93.09"]})
    [[ce], [selc]] = table.entries
    assert (ce.ours, ce.best, ce.paper, ce.paper_best) == ("96.00 ± 1.41", True, "86.98 ± 0.12", False)
    assert (selc.ours, selc.best, selc.paper, selc.paper_best) == ("90.00 ± 0.00", False, "93.09", True)
    page = Page("P", "A", (table,))
    assert "| CE | **96.00 ± 1.41** / 86.98 ± 0.12 |" in as_markdown(page)
    assert r"CE & \textbf{96.00 $\pm$ 1.41} / 86.98 $\pm$ 0.12 \\" in as_latex(page)
    assert '<td><b>96.00 ± 1.41</b><td class="paper">/ 86.98 ± 0.12' in as_html(page)


def test_equal_means_are_equally_bold_whatever_their_spread() -> None:
    cells = [cell(row, seed=seed) for row in ("CE", "SELC") for seed in (0, 1)]
    lines = [line(one, value) for one, value in zip(cells, (0.8, 0.9, 0.85, 0.85), strict=True)]
    assert [entry.best for [entry] in sheet(cells, lines).entries] == [True, True]


def test_published_rows_and_columns_without_runs_stand_beside_ours_and_are_marked() -> None:
    one = cell("SELC")
    published = {"CE": ["50.00", "51.00"], "SELC": ["60.00", "-"], "SOP": ["70.00", "fail"]}
    table = sheet([one], [line(one, 0.5)], published, columns=["moons 20%", "moons 60%"])
    notes = dict(table.footnotes)
    assert [row for row, _ in table.rows] == ["CE", "SELC", "SOP"]
    assert [notes.get(mark) for _, mark in table.rows] == [ONLY, None, ONLY]
    assert [column for column, _ in table.columns] == ["moons 20%", "moons 60%"]
    text = as_markdown(Page("P", "A", (table,)))
    assert "| CE<sup>a</sup> | – / 50.00 | – / **51.00** |" not in text  # of one number none is the best
    assert "| CE<sup>a</sup> | – / 50.00 | – / 51.00 |" in text
    assert "| SELC | 50.00 / 60.00 | – |" in text
    assert "| SOP<sup>a</sup> | – / **70.00** | – / fail |" in text  # the best of all that are printed
    assert r"SOP$^{a}$ & -- / \textbf{70.00} & -- / fail \\" in as_latex(Page("P", "A", (table,)))
    assert '<td>SOP<sup>a</sup><td><span class="gone">–</span><td class="paper">/ <b>70.00</b>' in as_html(
        Page("P", "A", (table,))
    )


def test_a_printed_column_that_another_stands_for_is_not_repeated_and_each_is_after_its_neighbour() -> None:
    ours = [cell("CE", "moons 40%")]
    printed = {"CE": ["1.00", "2.00", "3.00"]}
    standing = {"moons 40%": {"of": "b"}}
    table = sheet(ours, [], printed, columns=["a", "b", "c"], settings=standing)
    assert [column for column, _ in table.columns] == ["a", "moons 40%", "c"]


def test_a_cell_that_was_not_run_says_so_with_the_reason() -> None:
    gone = cell("CE", skip="needs CIFAR-100")
    open_ = cell("SELC")
    partly = [cell("SELC", "moons 40%", seed) for seed in (0, 1)]
    table = sheet([gone, open_, *partly], [line(partly[0], 0.5)], {"CE": ["58.72", "-"]})
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


def test_a_caption_says_scale_seeds_whose_numbers_and_commit_and_the_order_stands_below() -> None:
    table = load("table1")
    cells = [c for c in table.cells("cpu") if c.column == "digits sym 40%"]
    rows = ("Cross Entropy", "GCE", "ELR", "SELC")
    done = [line(c, 0.5 + 0.1 * rows.index(c.row)) for c in cells if c.row in rows]
    sheet = main_sheet(table, "cpu", cells, {one["key"]: one for one in done})
    for part in (
        "draws from all classes",  # the convention of the noise
        "Scale cpu: two cores",
        "last epoch",
        "ours / paper's; mean ± standard deviation over 3 seeds",
        "of the published scale",
        "–: no part of this scale.",
        "Commit abc.",
    ):
        assert part in sheet.caption, part
    assert sheet.orders == (
        "digits sym 40%: 4 methods in common, tau 1.00, 6 of 6 pairs in the same order",
    )  # the paper has 81.88, 87.13, 89.15, 91.18
    page = Page("P", "A", (sheet,))
    for text in (as_markdown(page), as_html(page), as_latex(page)):
        assert "4 methods in common, tau 1.00" in text


def test_a_page_names_the_instructions_of_its_trainings_where_they_were_kept() -> None:
    table = miniature_table()
    first, second, *_ = table.cells("cpu")
    kept, before = line(first, 0.5, cpu_capability="AVX2"), line(second, 0.5)
    about = page_of([table], "cpu", {one["key"]: one for one in (kept, before)}, "text").about
    assert "; selc 0, torch 2; selc 0, torch 2, AVX2." in about


@pytest.mark.parametrize("scale", SCALES)
def test_without_results_every_published_number_is_there_and_what_is_ours_says_not_run(scale: str) -> None:
    tables = [table for table in map(load, names()) if table.kind != "suite"]
    page = page_of(tables, scale, {}, "text")
    assert "Nothing is run yet" in page.about
    sheets = [sheet for sheet in page.sheets if not sheet.small]
    assert len(sheets) == len(page.sheets) == 7  # six of the paper, and that of people
    for table, sheet in zip([table for table in tables if table.kind == "table"], sheets, strict=True):
        shown = {
            (row, table.of(column), entry.paper)
            for (row, _), entries in zip(sheet.rows, sheet.entries, strict=True)
            for (column, _), entry in zip(sheet.columns, entries, strict=True)
        }
        for row, numbers in table.numbers.items():
            assert {(row, c, text) for c, text in numbers.items() if text != "-"} <= shown, (table.name, row)
        ours = [entry for row in sheet.entries for entry in row]
        assert not any(entry.ours for entry in ours)
        assert any(entry.instead == "not run" for entry in ours)
        assert sheet.orders == ()


def test_the_labels_of_people_have_the_methods_that_we_do_not_run_marked() -> None:
    sheet = page_of([load("human")], "cpu", {}, "text").sheets[0]
    notes = dict(sheet.footnotes)
    only = [row for row, mark in sheet.rows if notes.get(mark) == ONLY]
    assert only == ["ELR+", "SOP+", "DivideMix", "ProMix / DSS+"]
    by_row = {row: entries for (row, _), entries in zip(sheet.rows, sheet.entries, strict=True)}
    assert [entry.paper for entry in by_row["DivideMix"]] == ["95.72", "95.72", "95.62", "93.10", "70.91"]
    assert "ours / published" in sheet.caption
    assert "independent re-implementation" in sheet.caption
    assert "paper's" not in sheet.caption + "".join(notes.values())


def test_noise_of_our_generator_says_so_at_the_head_of_its_column() -> None:
    for name in ("table2", "table3"):
        table = load(name)
        sheet = page_of([table], "cpu", {}, "text").sheets[0]
        notes = dict(sheet.footnotes)
        drawn = {c for c, marks in sheet.columns if "noise drawn by our generator" in map(notes.get, marks.split(","))}
        made = {c.column for c in table.cells("cpu") if c.settings.get("noise", {}).get("name") in ("seal", "pmd")}
        assert drawn == made != set()


@pytest.mark.exhaustive
def test_latex_of_all_tables_has_balanced_groups_rows_of_one_length_and_no_bare_letters() -> None:
    tables = [load(name) for name in names()]
    lines = [line(c, 0.5) for table in tables for c in table.cells("cpu") if c.seed == 0 and not c.skip]
    tex = as_latex(page_of(tables, "cpu", {one["key"]: one for one in lines}, "text"))
    body = "\n".join(text for text in tex.splitlines() if not text.startswith("%"))
    plain = re.sub(r"\\[\\{}%&$#_]", "", body)  # what is escaped does not count
    assert plain.count("{") == plain.count("}")
    assert plain.count("$") % 2 == 0
    assert not re.search("[#_~]", plain)
    assert plain.isascii(), {letter for letter in plain if not letter.isascii()}
    begun, ended = (re.findall(rf"\\{word}{{(\w+\*?)}}", body) for word in ("begin", "end"))
    assert sorted(begun) == sorted(ended)
    for table in re.findall(r"\\begin{tabular}{(lc+)}(.*?)\\end{tabular}", body, re.DOTALL):
        rows = [row for row in table[1].splitlines() if row.endswith(r"\\")]
        assert {len(re.findall(r"(?<!\\)&", row)) + 1 for row in rows} == {len(table[0])}


def test_labels_before_stand_above_those_after_and_places_without_any_are_left_out() -> None:
    table = miniature_table()
    cells = table.cells("cpu")
    done = [line(c, 0.5, right_before=0.6 + 0.2 * c.seed, right_after=0.9) for c in cells if c.row == "CE"]
    [right, _] = more_sheets(table, "cpu", cells, {one["key"]: one for one in done})
    assert [row for row, _ in right.rows] == ["given labels (before)", "CE"]
    assert [[entry.ours for entry in row] for row in right.entries] == [["70.0 ± 14.1"], ["90.0 ± 0.0"]]


def test_pictures_are_in_the_page(tmp_path: Path) -> None:
    figure = replace(miniature_table(), kind="figure")
    (tmp_path / "mini-part-cpu.png").write_bytes(b"png")
    page = page_of([figure], "cpu", {}, "text", tmp_path)
    assert "data:image/png;base64,cG5n" in as_html(page)
    assert "(mini-part-cpu.png)" in as_markdown(page)
    assert r"\includegraphics[width=\textwidth]{mini-part-cpu}" in as_latex(page)
    assert page_of([figure], "cpu", {}, "code", tmp_path).pictures == ()  # those would be of another variant


def test_two_pictures_of_a_figure_have_one_caption(tmp_path: Path) -> None:
    for part in ("a", "b"):
        (tmp_path / f"mini-{part}-cpu.png").write_bytes(b"png")
    page = page_of([replace(miniature_table(), kind="figure")], "cpu", {}, "text", tmp_path)
    for text in (as_markdown(page), as_html(page), as_latex(page)):
        assert text.count("Two moons.") == 1


def test_a_file_of_results_that_is_not_there_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must be a file that `selc bench` has written; got .*none.jsonl"):
        write_pages([miniature_table()], "cpu", tmp_path / "none.jsonl", tmp_path)
