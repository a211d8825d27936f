"""The commands that are broken off, each as small as it can be and still write every kind of file that it has."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import typer
from torch import Tensor, nn

from selc.bench import runner
from selc.bench.runner import Machine, Places, look
from selc.cli import app
from selc.encoders import embed_file
from selc.errors import SelcError
from selc.training.checkpoints import slips
from tests.bench.miniature import cell
from tests.own_data.miniature import folder as folder_of_images

selc = typer.main.get_command(app)  # made once, not in each process
STRIDES = {"kill": 1, "torn": 3, "power": 5, "full": 5}  # tried at every so many operations
SPARSE = {"kill": 7, "torn": 13, "power": 29, "full": 29}
WAITS = 60.0  # seconds for files of the other process, which may have ended; a user's run waits ten minutes
# Several trainings that are alike, with hundreds of operations; and two processes, of which one waits for the other.
LONG = ("train selc, five splits", "train selc, a step back", "train selc, two processes", "bench")
NAMES = (
    "train selc",
    "train selc, five splits",
    "train selc, a step back",
    "train selc+, two stages",
    "train co-teaching, two networks",
    "train selc, tables on disk",
    "train on images, the cache",
    "train selc, two processes",
    "embed",
    "bench",
    "apply, a table",
    "apply, a tree of links",
    "apply, a tree of copies",
    "report",
    "review",
    "export",
)


@dataclass(frozen=True)
class Command:
    """What a user asks for: ``run`` in the folder ``root``, again and again; ``prepare`` lays there what it needs."""

    name: str
    run: Callable[[Path], None]
    prepare: Callable[[Path], None] = lambda root: None
    alone: Callable[[Path], None] | None = None  # the same in one process, for one that starts others
    voices: int = 1  # processes that may say what is wrong


class Means(nn.Module):
    """A backbone for `selc embed`: the mean of each channel, and the top left pixel."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x.mean(dim=(2, 3)), x[:, :, 0, 0]], dim=1)


def backbone(num_classes: int) -> nn.Module:
    return Means()


def training(name: str, data: str, *settings: str, epochs: int = 3) -> Command:
    """`selc train`, and `selc resume` once there is something to resume."""

    def run(root: Path) -> None:
        if (root / "run" / "config.toml").exists():
            selc(["resume", str(root / "run")])
        else:
            options = [word for setting in settings for word in ("--set", setting)]
            selc(["train", data, *options, "--epochs", str(epochs), "--device", "cpu", "--out", str(root / "run")])

    return Command(name, run)


def in_two(run: Callable[[], None]) -> None:
    """Run in two processes that train together, with what torchrun would tell them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    other = os.fork()
    rank = 0 if other else 1
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.environ |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    slips.PATIENCE = WAITS
    code: object = 1
    try:
        run()
    except SystemExit as end:
        code = end.code
    finally:
        if rank:
            os._exit(code if isinstance(code, int) else int(code is not None))
        os.waitpid(other, 0)
    raise SystemExit(code)


def bench(root: Path) -> None:
    runner._context = lambda: multiprocessing.get_context("fork")  # so that operations count in the cells, too
    places = Places(root / "results.jsonl", root / "runs")
    cells = [cell("CE"), cell("SELC", epochs=3)]
    try:
        failed = [reason for _, reason in runner.run(look(cells, places), Machine(workers=1), places).failed]
    except SelcError as error:
        failed = [str(error)]
    for reason in failed:
        print(f"error: {reason}")
    if failed:
        raise SystemExit(2)


def commands(inputs: Path) -> Iterator[Command]:
    """All of them; ``inputs`` is an empty folder for what they read."""
    noise = ("noise.name=symmetric", "noise.rate=0.3")
    small = (*noise, "net.name=mlp", "net.hidden=[8]")
    yield training("train selc", "moons", *small, "method.name=selc", "method.start=1", epochs=4)
    back = ("method.name=selc", "noise.name=symmetric", "noise.rate=0.4", "net.name=mlp", "net.hidden=[64]")
    watched = ("train.lr=0.05", "train.batch_size=64", "train.val_fraction=0.2")  # it stops after half of the epochs
    yield training("train selc, five splits", "moons", *small, "method.name=selc", epochs=2)
    yield training("train selc, a step back", "digits", *back, *watched, epochs=8)
    yield training("train selc+, two stages", "moons", *small, "method.name=selc+", "method.start=1", epochs=3)
    given = ("method.forget_rate=0.3",)  # estimated it would cost five splits more
    yield training("train co-teaching, two networks", "moons", *small, "method.name=co-teaching", *given)
    disk = ("method.name=selc", "method.start=1", "train.store=disk")
    yield training("train selc, tables on disk", "moons", *small, *disk)
    images = folder_of_images(inputs / "images", each=4)
    net = ("net.name=mlp", "net.hidden=[8]", "method.name=ce", "data.augment=none")
    yield training("train on images, the cache", str(images), *net, epochs=2)

    one = training("train selc, two processes", "moons", *small, "method.name=selc", "method.start=1", epochs=2)
    yield Command(one.name, lambda root: in_two(lambda: one.run(root)), alone=one.run, voices=2)

    def embed(root: Path) -> None:
        embed_file.CHUNK = 5
        options = ["--backbone", f"import:{__name__}:backbone", "--size", "32", "--device", "cpu"]
        selc(["embed", str(images), *options, "--out", str(root / "features.npz")])

    yield Command("embed", embed)
    yield Command("bench", bench, voices=2)

    def made(name: str, data: str, *settings: str) -> Path:
        """A finished run to work on."""
        if not (inputs / name).exists():
            os.environ["SELC_CACHE"] = str(inputs / "cache")
            with suppress(SystemExit), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                training("", data, *settings, epochs=2).run(inputs)
            (inputs / "run").rename(inputs / name)
        return inputs / name

    def apply(run: str, out: Path, *options: str) -> None:
        """What is there is whole, and is not written again: the command would refuse to."""
        whole = (out if out.suffix else out / "cleaned.csv").exists() and not (out / ".unfinished.json").exists()
        if not whole:
            selc(["apply", str(inputs / run), "--out", str(out), *options])

    def table(root: Path) -> None:
        apply("points", root / "cleaned.csv")

    def tree(*options: str) -> Callable[[Path], None]:
        return lambda root: apply("pictures", root / "cleaned", *options)

    def points(root: Path) -> None:
        made("points", "moons", *small, "method.name=selc", "method.start=1")

    def pictures(root: Path) -> None:
        made("pictures", str(images), *net)

    def copied(root: Path) -> None:
        points(root)
        shutil.copytree(inputs / "points", root / "run")

    yield Command("apply, a table", table, points)
    yield Command("apply, a tree of links", tree(), pictures)
    yield Command("apply, a tree of copies", tree("--copy"), pictures)
    yield Command("report", lambda root: selc(["report", str(root / "run"), "--samples", "2"]), copied)
    yield Command("review", lambda root: selc(["review", str(root / "run"), "--top", "3"]), copied)

    def export(root: Path) -> None:
        """As with `apply`."""
        if not (root / "tasks.json").exists() or (root / ".unfinished.json").exists():
            out = str(root / "tasks.json")
            selc(["export", str(inputs / "pictures"), "--to", "label-studio", "--top", "3", "--out", out])

    yield Command("export", export, pictures)


# Times and what follows from them, and how much memory was free.
TIMES = ("seconds", "samples_per_second", "seconds_this_session", "seconds_training", "peak_mb", "check", "why")


def results(root: Path) -> dict[str, Any]:
    """Every file below a folder: its bytes, or what it says less the times it took."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_dir():
            found[name + "/"] = None
        elif path.suffix == ".json":
            found[name] = _without_times(json.loads(path.read_bytes()))
        elif path.suffix == ".jsonl":
            found[name] = [_without_times(json.loads(line)) for line in path.read_bytes().splitlines()]
        else:
            found[name] = path.read_bytes()
    return found


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(part) for key, part in value.items() if key not in TIMES}
    return [_without_times(part) for part in value] if isinstance(value, list) else value


def strides_of(name: str) -> dict[str, int]:
    return SPARSE if name in LONG else STRIDES
