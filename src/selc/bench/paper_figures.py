"""The figures of the paper, drawn from the run folders of their cells by the functions of `selc report`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from selc.bench.runner import Places
from selc.bench.table import Cell, Table
from selc.errors import InputError
from selc.report.draw_losses import loss_histograms
from selc.report.draw_matrix import confusion
from selc.report.draw_memory import memorisation
from selc.report.draw_turning import accuracies_by_run, correction, metrics_by_run, sensitivity
from selc.report.style import save
from selc.runs import RunFolder
from selc.turning.paper import separations

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Runs = Mapping[tuple[str, str], RunFolder]  # by row and column; the first seed
ENDINGS = ("png", "pdf")


def draw(table: Table, scale: str, runs: Path, out: Path, variant: str = "text") -> tuple[list[Path], list[str]]:
    """Draw what the folders allow; return the files, and a sentence for each picture that cannot be drawn."""
    there = finished(table.cells(scale, variant), runs)
    written: list[Path] = []
    missing = []
    for name, picture in PICTURES[table.name].items():
        try:
            figure = picture(there)
        except (InputError, KeyError) as error:
            reason = f"the run of {error.args[0]} is not there" if isinstance(error, KeyError) else error
            missing.append(f"no {table.name}{name}: {reason}. Run `selc bench {table.name} --scale {scale}`.")
            continue
        for ending in ENDINGS:
            path = out / f"{table.name}{name}-{scale}{'' if variant == 'text' else '-' + variant}.{ending}"
            save(figure, path)
            written.append(path)
    return written, missing


def finished(cells: list[Cell], runs: Path) -> dict[tuple[str, str], RunFolder]:
    """The run folders that are there."""
    places = Places(runs, runs, keep=True)
    result: dict[tuple[str, str], RunFolder] = {}
    for cell in sorted((cell for cell in cells if not cell.skip), key=lambda cell: cell.seed):
        folder = RunFolder(places.folder(cell.key()))
        if folder.finished:
            result.setdefault((cell.row, cell.column), folder)
    return result


def _of_row(runs: Runs, row: str) -> dict[str, RunFolder]:
    """The runs of a row by the noise, such as "20 %"."""
    found = {column.split()[-1].replace("%", " %"): run for (name, column), run in runs.items() if name == row}
    if not found:
        raise KeyError(row)
    return found


def _one(runs: Runs, row: str, part: str = "") -> RunFolder:
    """The run of a row whose column contains ``part``."""
    for (name, column), run in runs.items():
        if name == row and part in column:
            return run
    raise KeyError(f"{row}, {part}" if part else row)


def _accuracy(runs: Runs) -> Figure:
    return accuracies_by_run({f"{rate} noise": run for rate, run in _of_row(runs, "Cross Entropy").items()})


def _memorised(runs: Runs) -> Figure:
    return memorisation({"CE": _one(runs, "Cross Entropy", "60%"), "SELC": _one(runs, "SELC", "60%")})


def _losses(runs: Runs) -> Figure:
    run = _one(runs, "Cross Entropy")
    return loss_histograms(run, shown_epochs(separations(run.records().losses, "M1")))


def shown_epochs(distances: list[float]) -> list[int]:
    """The first epoch, the one where the two parts of the losses are farthest apart, halfway to the end, the last."""
    last, peak = len(distances) - 1, int(torch.tensor(distances).argmax())
    return sorted({0, peak, (peak + last) // 2, last})


def _three_metrics(runs: Runs) -> Figure:
    return metrics_by_run({f"{rate} noise": run for rate, run in _of_row(runs, "Cross Entropy").items()})


def _options(runs: Runs) -> Figure:
    rows = ("Option I", "Option II")
    lines = {f"{row}, {rate} noise": run for row in rows for rate, run in _of_row(runs, row).items()}
    return correction(lines)


def _alphas(runs: Runs) -> Figure:
    rows = dict.fromkeys(row for row, _ in runs if row.startswith("alpha"))
    if not rows:
        raise KeyError("alpha")
    return sensitivity({row: _one(runs, row) for row in rows})


def _matrices(runs: Runs) -> Figure:
    return confusion(_one(runs, "SELC"))


PICTURES: dict[str, dict[str, Callable[[Runs], Figure]]] = {
    "figure1": {"-accuracy": _accuracy, "-memorisation": _memorised},
    "figure2": {"": _losses},
    "figure3": {"": _three_metrics},
    "figure4": {"-options": _options, "-alpha": _alphas},
    "figure5": {"": _matrices},
}
