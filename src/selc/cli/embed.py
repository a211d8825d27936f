"""`selc embed`: images into features, once."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from types import TracebackType
from typing import Annotated, Any

import typer

from selc.cli.common import DataRoot, DataRootBefore, assign, data_of, speaking

QUIET_SECONDS = 5.0  # without a terminal, lines come at most this often


def embed(
    data: Annotated[
        str, typer.Argument(help="Your images, in any form that `selc train` takes, or a dataset by name.")
    ],
    root: DataRoot = None,
    root_before: DataRootBefore = None,
    test: Annotated[str | None, typer.Option(help="Your test set, of the same form as the data.")] = None,
    val: Annotated[str | None, typer.Option(help="Your validation set, of the same form as the data.")] = None,
    label_column: Annotated[str | None, typer.Option(help="Column of a table that holds the labels.")] = None,
    id_column: Annotated[str | None, typer.Option(help="Column of a table that names the samples.")] = None,
    unlabelled: Annotated[
        bool, typer.Option("--unlabelled", help="All images below the folder; sub-folders are no classes.")
    ] = False,
    skip_bad: Annotated[
        bool | None, typer.Option("--skip-bad", help="Go on without samples that cannot be read.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File to write. (default: DATA-features.npz)")] = None,
    backbone: Annotated[
        str | None,
        typer.Option(
            "--encoder",
            "--backbone",
            help="See `selc list encoders`, a directory in Hugging Face's format, a pretrained network, or "
            "import:package.module:attribute. (default: the best that is installed)",
        ),
    ] = None,
    weights: Annotated[str | None, typer.Option(help="Of the backbone: FILE.safetensors, torchvision or timm.")] = None,
    size: Annotated[
        int | None, typer.Option(help="Pixels at which images are shown. (default: 128 up to that size, else 224)")
    ] = None,
    dims: Annotated[
        int | None, typer.Option(help="Keep this many whitened principal components. (default: all features)")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Images at a time. (default: 16, on a GPU 256)")] = None,
    float32: Annotated[bool, typer.Option("--float32", help="Store 32 bits instead of 16.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any other setting: data.root=FOLDER")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace the file, or half of one, that is there.")] = False,
) -> None:
    """Turn images into features of a pretrained backbone, once; `selc train FILE.npz` then takes seconds per epoch."""
    with speaking():
        from selc.data.sources.unlabelled import holds_no_folders
        from selc.data.sources.unlabelled import unlabelled as unlabelled_images
        from selc.encoders import ENCODERS, best, choice_of
        from selc.encoders.embed import check_target
        from selc.encoders.embed import embed as embed_bundle
        from selc.encoders.embed_file import finished
        from selc.runs import Config
        from selc.runs.job import load
        from selc.screen import reading, show_notes

        own = {
            "root": root or root_before,
            "test": test,
            "val": val,
            "label_column": label_column,
            "id_column": id_column,
        }
        plain = unlabelled or holds_no_folders(data)
        settings: dict[str, Any] = {} if plain else {"data": data_of(data, {}, {**own, "skip_bad": skip_bad})}
        for assignment in set_ or []:
            assign(settings, assignment)
        config = None if plain else Config.resolve({"data": settings["data"]})
        path = out or Path(f"{Path(data).stem}-features.npz")
        if not overwrite and finished(path):
            print(f"{path} is finished already; nothing to do.")
            return
        check_target(path, overwrite)  # what is wrong is said before the data are read
        chosen = choice_of(backbone or best() or "efficientnet-lite0")
        name = chosen.pop("name")
        ENCODERS[name]
        with reading():
            bundle = unlabelled_images(path=data, skip_bad=bool(skip_bad)) if config is None else load(config)
        show_notes(bundle.notes)
        began = time.perf_counter()
        with interruptible(), Bar() as bar:
            made = embed_bundle(
                bundle,
                path,
                backbone=name,
                options=chosen | settings.get("net", {}) | ({} if weights is None else {"weights": weights}),
                size=size,
                dims=dims,
                number="float32" if float32 else "float16",
                batch=batch,
                device=device,
                source=data,
                data=None if config is None else config.data.model_dump(mode="json"),
                overwrite=overwrite,
                progress=bar.show,
            )
        seconds = time.perf_counter() - began
        print(f"{made.rows:,} images, {made.dims} features each, {seconds:.0f} s -> {path}")
        place = quote(str(path))
        print(f"train on them: selc train {place}" if bundle.classes else f"predict them: selc predict RUN {place}")


@contextmanager
def interruptible() -> Iterator[None]:
    """An embedding that is broken off says how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        print("\nInterrupted; what was done is kept. Go on with the same command.", file=sys.stderr)
        raise typer.Exit(130) from None


class Bar:
    """Rows done, images per second, time left: live in a terminal, else a line now and then."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

        from selc.screen import Bars

        self.console = Console(stderr=True)
        self.bars = Bars(
            TextColumn("embedding"),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.task = self.bars.add_task("embedding", total=None, rate="")
        self.began: float | None = None
        self.first, self.last_line = 0, 0.0

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bars.stop()

    def show(self, done: int, total: int) -> None:
        now = time.monotonic()
        if self.began is None:  # what an earlier call had done does not count for the speed
            self.began, self.first, self.last_line = now, done, now
            self.bars.start()
        speed = (done - self.first) / max(now - self.began, 1e-9)
        self.bars.update(self.task, completed=done, total=total, rate=f"{speed:,.0f} images/s")
        late = now - self.last_line > QUIET_SECONDS or done == total
        if not self.console.is_terminal and late and speed > 0:
            self.last_line = now
            left = f", about {(total - done) / speed:.0f} s left" if done < total else ""
            line = f"embedding: {done:,}/{total:,} images, {speed:,.0f} images/s{left}"
            self.console.print(line, highlight=False, soft_wrap=True)
