"""`selc bench`: what is asked for is run, and a mistake is one sentence and exit code 2."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from selc.bench import table as tables
from selc.cli import app
from selc.cli.bench import _cells
from tests.bench.test_render import miniature_table


@pytest.fixture(autouse=True)
def _miniature(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One small table instead of the paper's; everything is written to a folder of the test."""
    mini = miniature_table()
    monkeypatch.setattr(tables, "names", lambda: ["mini", "table1"])
    monkeypatch.setattr(tables, "load", lambda name: mini)
    monkeypatch.chdir(tmp_path)


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", *arguments])


@pytest.mark.exhaustive
def test_a_table_is_run_once_and_rendered(tmp_path: Path) -> None:
    planned = bench("mini", "--dry-run")
    assert planned.exit_code == 0
    assert "4 trainings, 0 done, 4 to go" in planned.output
    assert not (tmp_path / "benchmarks").exists()
    assert bench("mini", "--workers", "1", "--seeds", "1", "--methods", "CE").exit_code == 0
    results = tmp_path / "benchmarks" / "results" / "bench.jsonl"
    [line] = [json.loads(text) for text in results.read_text().splitlines()]
    assert (line["row"], line["seed"]) == ("CE", 1)
    assert "4 trainings, 1 done, 3 to go" in bench("mini", "--dry-run").output
    rendered = bench("render")
    assert rendered.exit_code == 0
    text = (results.parent / "tables-cpu.md").read_text()
    assert f"{100 * line['accuracy']['test']['top1']:.2f}" in text
    assert "not run" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["tabel1"], "Did you mean 'table1'?"),
        (["mini", "--scale", "cpuu"], "Did you mean 'cpu'?"),
        (["mini", "--variant", "text2"], "Did you mean 'text'?"),
        (["mini", "--methods", "ELR"], "--methods must name rows of the table (CE, SELC); got 'ELR'"),
        (["mini", "--methods", "SLC"], "got 'SLC'. Did you mean 'SELC'?"),
        (["mini", "--columns", "animals"], "--columns must name columns of the table (ours 20%); got 'animals'"),
        (["mini", "--seeds", "one"], "--seeds must be whole numbers with commas"),
        (["mini", "--gpus", "0", "--workers", "2"], "must not come together"),
        (["mini", "--seeds", "7"], "--seeds must name seeds of the table (0, 1); got 7"),
        (["mini", "table1", "--methods", "ELR"], "--methods must name rows of the table (CE, SELC); got 'ELR'"),
        (["all", "--columns", "animals"], "--columns must name columns of the table (ours 20%); got 'animals'"),
        (["mini", "table1", "--seeds", "7"], "--seeds must name seeds of the table (0, 1); got 7"),
        (["render", "--methods", "CE"], "--methods is for trainings, and `render` writes every result"),
        (["render", "mini", "--seeds", "0"], "--seeds is for trainings"),
        (["render", "--dry-run"], "--dry-run is for trainings"),
        (["render", "--results", "none.jsonl"], "must be a file that `selc bench` has written; got none.jsonl"),
    ],
)
def test_a_mistake_gets_a_sentence(arguments: list[str], sentence: str) -> None:
    result = bench(*arguments)
    assert result.exit_code == 2
    assert sentence in result.output
    assert "Traceback" not in result.output


def test_of_several_tables_one_may_lack_a_row_and_still_gives_those_that_it_has() -> None:
    whole, part = miniature_table(), miniature_table()
    part.scales["cpu"].blocks[0]["rows"] = ["CE"]
    found = _cells([[whole], [part]], "cpu", "text", "CE,SELC", None, "0")
    assert [[cell.row for cell in cells] for cells in found] == [["CE", "SELC"], ["CE"]]


def test_the_help_says_one_default_of_the_workers() -> None:
    text = " ".join(bench("--help").output.split())
    assert "(default: the cores)" in text
    assert "[default: 0]" not in text


def test_without_results_the_published_numbers_are_rendered(tmp_path: Path) -> None:
    assert bench("render").exit_code == 0
    text = (tmp_path / "benchmarks" / "results" / "tables-cpu.md").read_text()
    assert "| SELC | not run<sup>b</sup> / **80.00** |" in text


def test_a_cell_that_fails_makes_exit_code_1_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    mini = miniature_table()
    mini.methods["CE"] = {"name": "ce"}
    mini.scales["cpu"].settings["train"]["lr"] = 1e30  # the loss is not finite
    monkeypatch.setattr(tables, "load", lambda name: mini)
    result = bench("mini", "--workers", "1", "--seeds", "0", "--methods", "CE")
    assert result.exit_code == 1
    assert "failed: mini CE, ours 20%, seed 0: the training loss must stay finite" in result.output


def test_the_hours_in_the_documentation_are_those_of_the_dry_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from selc.bench.estimate import estimates

    monkeypatch.undo()
    text = (Path(__file__).parents[2] / "docs" / "reproduction.md").read_text()
    rows = re.findall(r"\| `selc bench (\w+) --scale paper --gpus 0` \| (\d+) \| (\d+) \|", text)
    assert [row[0] for row in rows] == [name for name in tables.names() if "paper" in tables.load(name).scales]
    for name, trainings, hours in rows:
        cells = tables.load(name).cells("paper")
        seeds = len({cell.seed for cell in cells})  # the same for every row and column
        first = {cell.key(): cell for cell in cells if cell.seed == 0}
        assert len(first) * seeds == int(trainings), name
        total = seeds * sum(one.seconds for one in estimates(first.values(), [], "gpu").values()) / 3600
        assert total == pytest.approx(float(hours), rel=0.1, abs=0.5), name
