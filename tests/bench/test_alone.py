"""A cell is a configuration that `selc train` runs alone: from a file, in a folder of its own, to the end."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from selc.bench.table import Cell, laid_over, load, names
from selc.cli import app
from selc.runs import Config, RunFolder
from tests.bench.miniature import shrunk
from tests.tiers import but_for

SMALL = {"digits", "cifar10", "cifar10-features"}  # data whose networks at the scale `cpu` train in a second


def tiny(cell: Cell) -> Cell:
    """One epoch of a few images. Networks for photographs, which another test builds, give way to a small one."""
    settings = laid_over(shrunk(cell.settings), {"train": {"epochs": 1, "milestones": [], "samples_per_epoch": 0}})
    if settings["data"]["name"] not in SMALL:
        settings["net"] = {"name": "mlp", "hidden": [8]}
    return Cell("alone", "cpu", cell.row, cell.column, cell.seed, settings)


# The cells of figures are trainings like those of the tables, with other settings.
FIGURES = [name for name in names() if name.startswith("figure")]


@pytest.mark.parametrize("name", but_for(names()[1:], names()))
def test_selc_train_runs_a_cell_of_each_table_from_a_file(name: str, miniatures: Path, tmp_path: Path) -> None:
    cells = load(name).cells("cpu")
    cell = tiny(next((cell for cell in cells if not cell.skip), cells[0]))
    file, folder = tmp_path / "cell.toml", tmp_path / "run"
    cell.config().save(file)
    data = cell.settings["data"]["name"]
    result = CliRunner().invoke(app, ["train", data, "--config", str(file), "--out", str(folder)])
    assert result.exit_code == 0, result.output
    run = RunFolder.open(folder)
    assert run.finished
    assert cells[0].test in run.summary["accuracy"]
    ran = Config.load(folder / "config.toml").model_dump(mode="json")
    assert Cell("ran", "cpu", cell.row, cell.column, cell.seed, ran).key() == cell.key()
