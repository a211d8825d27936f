"""The figures of the paper are drawn from the folders of their cells, by the functions of `selc report`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image

from selc.bench.cell import Quiet
from selc.bench.paper_figures import PICTURES, draw, finished, shown_epochs
from selc.bench.table import SCALES, Table, load, names, parse
from selc.report.draw_turning import accuracies_by_run, accuracy_of, metrics_by_run, training_accuracy
from selc.runs import Config, RunFolder, execute


def table_of(name: str, rows: dict[str, dict[str, object]], columns: tuple[str, ...]) -> Table:
    return parse(
        {
            "kind": "figure",
            "name": name,
            "title": "T",
            "caption": "C",
            "rows": list(rows),
            "columns": list(columns),
            "settings": {c: {"noise": {"name": "symmetric", "rate": int(c.split()[-1][:-1]) / 100}} for c in columns},
            "scales": {
                "cpu": {
                    "what": "seconds",
                    "settings": {
                        "data": {"name": "moons"},
                        "net": {"name": "mlp", "hidden": [8]},
                        "train": {"epochs": 3, "threads": 1},
                    },
                    "blocks": [{}],
                }
            },
        },
        rows,
    )


CE: dict[str, object] = {"name": "ce"}
SELC: dict[str, object] = {"name": "selc", "start": 1, "alpha": 0.5}
TABLES = {
    "figure1": table_of("figure1", {"Cross Entropy": CE, "SELC": SELC}, ("sym 20%", "sym 60%")),
    "figure2": table_of("figure2", {"Cross Entropy": CE}, ("sym 60%",)),
    "figure3": table_of("figure3", {"Cross Entropy": CE}, ("sym 20%", "sym 60%")),
    "figure4": table_of(
        "figure4",
        {
            "Option I": {**SELC, "option": "I"},
            "Option II": SELC,
            "alpha 0.85": {**SELC, "alpha": 0.85},
            "alpha 0.9": {**SELC, "alpha": 0.9},
        },
        ("sym 40%",),
    ),
    "figure5": table_of("figure5", {"SELC": SELC}, ("sym 40%",)),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures")
    for table in TABLES.values():
        for cell in table.cells("cpu"):
            if not (folder / cell.key()).exists():
                execute(cell.config(), folder / cell.key(), [Quiet()])
    return folder


def test_every_figure_of_the_paper_has_its_pictures() -> None:
    assert sorted(PICTURES) == [name for name in names() if load(name).kind == "figure"]


@pytest.mark.parametrize("name", sorted(TABLES))
@pytest.mark.exhaustive
def test_a_figure_is_drawn_at_paper_width_from_the_runs(name: str, runs: Path, tmp_path: Path) -> None:
    written, missing = draw(TABLES[name], "cpu", runs, tmp_path)
    assert missing == []
    assert len(written) == 2 * len(PICTURES[name])
    for path in written:
        assert path.name.startswith(name)
        if path.suffix == ".png":
            with Image.open(path) as image:
                assert image.width == 1400  # 7 inches at 200 dots


def test_a_missing_run_is_told_with_the_command(tmp_path: Path) -> None:
    written, missing = draw(TABLES["figure1"], "cpu", tmp_path / "none", tmp_path)
    assert written == []
    assert len(missing) == 2
    assert all("Run `selc bench figure1 --scale cpu`" in sentence for sentence in missing)


@pytest.mark.exhaustive
def test_every_real_figure_finds_its_rows_and_columns(runs: Path) -> None:
    """With any run in the place of each cell, no picture misses one: the names in the data fit the code."""
    some = RunFolder(runs / TABLES["figure5"].cells("cpu")[0].key())
    for name, pictures in PICTURES.items():
        scales = {tuple(dict.fromkeys((c.row, c.column) for c in load(name).cells(scale))) for scale in SCALES}
        for places in scales:  # those of several scales are mostly the same
            for picture in pictures.values():
                assert picture(dict.fromkeys(places, some)).axes


def test_training_accuracy_counts_what_was_seen() -> None:
    predictions = torch.tensor([[0, 1, -1, 1], [0, 0, 1, 1]])
    assert training_accuracy(predictions, torch.tensor([0, 1, 1, 0])).tolist() == pytest.approx([2 / 3, 0.5])


def test_accuracy_and_metrics_have_a_line_for_each_run(runs: Path) -> None:
    there = {column: run for (_, column), run in finished(TABLES["figure3"].cells("cpu"), runs).items()}
    left, right = accuracies_by_run(there).axes
    assert [line.get_label() for line in left.lines] == ["sym 20%", "sym 60%"]
    one = there["sym 20%"]
    predicted = one.records().predictions[-1]
    assert float(torch.as_tensor(left.lines[0].get_ydata())[-1]) == pytest.approx(
        float((predicted == one.given).double().mean())
    )
    last = one.summary["accuracy"]["test"]["top1"]
    assert float(torch.as_tensor(right.lines[0].get_ydata())[-1]) == pytest.approx(last)
    for axes in metrics_by_run(there).axes:
        assert sum(line.get_label() in there for line in axes.lines) == 2
        assert float(torch.as_tensor(axes.lines[0].get_ydata()).max()) == pytest.approx(1.0)


def test_accuracy_after_a_pilot_is_that_of_the_second_training(tmp_path: Path) -> None:
    settings = {
        "data": "moons",
        "noise": {"name": "symmetric", "rate": 0.4},
        "method": {"name": "selc", "start": "pilot", "margin": 1, "alpha": 0.5},
        "net": {"name": "mlp", "hidden": [8]},
        "train": {"epochs": 4, "threads": 1},
    }
    run = execute(Config.resolve(settings), tmp_path / "pilot", [Quiet()])
    second = [entry["test"]["top1"] for entry in run.history() if entry["stage"] == 1]
    assert len(second) == 4
    assert accuracy_of(run) == second


def test_the_epochs_of_the_histograms_hold_the_farthest_one() -> None:
    assert shown_epochs([0.1, 0.2, 0.6, 0.5, 0.4, 0.3, 0.2]) == [0, 2, 4, 6]
    assert shown_epochs([0.5]) == [0]
