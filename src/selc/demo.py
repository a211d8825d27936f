"""The demo: CE, SELC and SELC+ side by side on scans of digits, 40 % of whose labels were replaced."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from selc._io.files import write_json
from selc.errors import RunFolderError
from selc.runs import Config, RunFolder, execute
from selc.screen import Screen
from selc.training.metrics import headline

MARK = "demo.json"  # only a folder that holds it is ever replaced
INTRODUCTION = """
Scans of handwritten digits; [bold]40 % of the training labels were replaced[/].
Plain cross entropy (CE) memorises the wrong ones.
SELC finds and corrects them while it trains; SELC+ trains once more on those.
"""
PROTOCOL = """
"Labels right after" are those of corrected_labels.csv: SELC changes the labels
that it is sure are wrong; for CE, which corrects none, they are the network's
own predictions. No method saw a true label or the noise rate. Seed {seed}, {epochs}
epochs, last epoch, MLP 512-512, SGD lr 0.002; new labels were drawn over all
classes, so {rate:.1%} really are wrong.

Look at:"""
METHODS = {"CE": "ce", "SELC": "selc", "SELC+": "selc+"}


def show(out: Path, *, seed: int = 0, epochs: int = 60, overwrite: bool = False) -> dict[str, dict[str, Any]]:
    """Train the three, print a table and write the figures; return the summaries by name."""
    console = Console()
    _make_room(out, overwrite)
    console.print(INTRODUCTION)
    runs: dict[str, RunFolder] = {}
    for name, method in METHODS.items():
        settings = {
            "data": "digits",
            "noise": {"name": "symmetric", "rate": 0.4},
            "method": {"name": method},
            "train": {"seed": seed, "epochs": epochs},
        }
        with Screen(label=name) as screen:
            runs[name] = execute(Config.resolve(settings), out / method, [screen])
    summaries = {name: run.summary for name, run in runs.items()}
    write_json(out / MARK, summaries)
    console.print(_table(summaries))
    rate = json.loads((out / "ce" / "noise.json").read_text())["rate"]
    console.print(PROTOCOL.format(seed=seed, epochs=epochs, rate=rate), highlight=False)
    for path in draw(runs, out / "figures"):
        console.print(f"  {path}", highlight=False)
    return summaries


def draw(runs: dict[str, RunFolder], folder: Path) -> list[Path]:
    """The figures of the demo: what was memorised, which labels were repaired, how the losses part."""
    from selc.report import confusion, loss_histograms, memorisation, save

    figures = {
        "memorisation.png": memorisation({name: runs[name] for name in ("CE", "SELC")}),
        "confusion.png": confusion(runs["SELC"]),
        "losses.png": loss_histograms(runs["CE"]),
    }
    for name, figure in figures.items():
        save(figure, folder / name)
    return [folder / name for name in figures]


def _table(summaries: dict[str, dict[str, Any]]) -> Table:
    table = Table(title="Digits, 40 % symmetric noise", title_justify="left")
    table.add_column("method", style="bold")
    for column in ("test accuracy\n(last epoch)", "labels right\nbefore", "labels right\nafter", "training\ntime"):
        table.add_column(column, justify="right")
    for name, s in summaries.items():
        table.add_row(
            name,
            f"{headline(s['accuracy']['test']):.1%}",
            f"{s['right_before']:.1%}",
            f"{s['right_after']:.1%}",
            f"{s['seconds_training']:.1f} s",
        )
    return table


def _make_room(out: Path, overwrite: bool) -> None:
    if not out.exists() or not any(out.iterdir()):
        return
    if not (out / MARK).exists() and not (out / "ce" / "config.toml").exists():
        raise RunFolderError(f"--out must be a new folder or an earlier demo; got {out}. Choose another folder.")
    if not overwrite:
        raise RunFolderError(f"--out holds an earlier demo; got {out}. Add --overwrite, or choose another folder.")
    shutil.rmtree(out)
