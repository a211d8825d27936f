"""How fast images arrive: our way against a DataLoader with Pillow transforms per sample, on 20,000 real JPEG files.

Both read the same folder and hand out batches of 128 with random crops, flips and normalisation. Repeats take turns
(A B, B A, ...), each gives one ratio, and the median and the quartiles are reported. Time is the processor time of all
processes together, children included, which leaves out the waits for others on a shared machine; the time by the
clock is beside it. The images are those of CIFAR-10 in the folder SELC_DATA, written to a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from machine import machine
from selc._io.files import write_text
from selc.data.sources.image_folder import folder
from selc.runs.folder import environment

ROWS, BATCH = 20_000, 128
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
Took = tuple[float, float]  # processor time and clock time of one turn, in seconds


class PillowFolder(Dataset[tuple[Tensor, int]]):
    """What people write: a file is opened, decoded, cropped, mirrored and normalised when its row is asked for."""

    def __init__(self, root: Path) -> None:
        classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
        self.samples = [(path, k) for k, name in enumerate(classes) for path in sorted((root / name).iterdir())]
        self.mean, self.std = torch.tensor(MEAN).view(3, 1, 1), torch.tensor(STD).view(3, 1, 1)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        path, label = self.samples[row]
        with Image.open(path) as file:
            image = ImageOps.expand(file.convert("RGB"), 4)
        left, top = random.randrange(9), random.randrange(9)
        image = image.crop((left, top, left + 32, top + 32))
        if random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        x = torch.from_numpy(np.array(image)).permute(2, 0, 1).float().div_(255)
        return x.sub_(self.mean).div_(self.std), label


def loader(root: Path, workers: int) -> Iterator[Any]:
    return iter(DataLoader(PillowFolder(root), batch_size=BATCH, shuffle=True, num_workers=workers))


def ours(root: Path, cache: str, workers: int) -> Iterator[Tensor]:
    bundle = folder(path=str(root), cache=cache, workers=workers)
    return epoch(bundle.inputs)


def epoch(inputs: Any) -> Iterator[Tensor]:
    order = torch.randperm(len(inputs))
    yield from inputs.stream(list(order.split(BATCH)), seed=0)


def processor_time() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in used)


def timed(batches: Callable[[], Iterator[Any]]) -> Took:
    cpu, clock = processor_time(), time.perf_counter()
    count = sum(1 for _ in batches())
    assert count == -(-ROWS // BATCH)
    return processor_time() - cpu, time.perf_counter() - clock


@dataclass(frozen=True)
class Measurement:
    """Ours against a DataLoader; the ratio is of samples per second, so more than one is faster."""

    name: str
    what: str
    target: float | None
    ours: Callable[[], Took]
    reference: Callable[[], Took]

    def run(self, repeats: int) -> dict[str, Any]:
        turns: list[tuple[Took, Took]] = []
        for repeat in range(repeats):
            if repeat % 2 == 0:
                mine = self.ours()
                turns.append((mine, self.reference()))
            else:
                other = self.reference()
                turns.append((self.ours(), other))
        ratios = [other[0] / mine[0] for mine, other in turns]
        clocks = [other[1] / mine[1] for mine, other in turns]
        low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
        speeds = [round(ROWS / statistics.median(turn[side][0] for turn in turns)) for side in (0, 1)]
        return {
            "name": self.name,
            "what": self.what,
            "repeats": repeats,
            "median": round(median, 3),
            "quartiles": [round(low, 3), round(high, 3)],
            "by_the_clock": round(statistics.median(clocks), 3),
            "target": None if self.target is None else f">= {self.target:g}",
            "pass": None if self.target is None else median >= self.target,
            "samples_per_cpu_second": speeds,
        }


def first_read(root: Path, cache: Path) -> Took:
    """One epoch where nothing is cached before."""
    shutil.rmtree(cache, ignore_errors=True)
    return timed(lambda: ours(root, str(cache), 2))


def without_simplejpeg(scratch: Path, turn: Callable[[], Took]) -> Took:
    """The same where workers find Pillow only."""
    (scratch / "hidden").mkdir(exist_ok=True)
    (scratch / "hidden" / "simplejpeg.py").write_text("raise ImportError")
    os.environ["PYTHONPATH"] = str(scratch / "hidden")
    try:
        return turn()
    finally:
        del os.environ["PYTHONPATH"]


def measurements(root: Path, scratch: Path) -> list[Measurement]:
    kept = folder(path=str(root), cache=str(scratch / "kept")).inputs

    def cached() -> Took:
        return timed(lambda: epoch(kept))

    def theirs() -> Took:
        return timed(lambda: loader(root, 2))

    first = "first read: cache written and one epoch / DataLoader, one epoch"
    return [
        Measurement("cached", "an epoch from the cache / DataLoader", 5.0, cached, theirs),
        Measurement(
            "cached-alone",
            "an epoch from the cache / DataLoader without workers",
            5.0,
            cached,
            lambda: timed(lambda: loader(root, 0)),
        ),
        Measurement("first", first, 1.0, lambda: first_read(root, scratch / "first"), theirs),
        Measurement(
            "first-pillow",
            f"{first}; without simplejpeg",
            1.0,
            lambda: without_simplejpeg(scratch, lambda: first_read(root, scratch / "first")),
            theirs,
        ),
        Measurement(
            "second",
            "second start: cache found and one epoch / DataLoader, one epoch",
            None,
            lambda: timed(lambda: ours(root, str(scratch / "kept"), 2)),
            theirs,
        ),
        Measurement(
            "on-the-way",
            "no cache: all images checked and one epoch / DataLoader, one epoch",
            None,
            lambda: timed(lambda: ours(root, "off", 2)),
            theirs,
        ),
    ]


def write_images(root: Path, source: Path) -> None:
    """The first images of CIFAR-10 as files, a folder per class."""
    import pyarrow.parquet as parquet

    table = parquet.read_table(source, columns=["image", "label"]).slice(0, ROWS)
    for label in range(10):
        (root / str(label)).mkdir(parents=True)
    for row, (image, label) in enumerate(zip(table["image"].to_pylist(), table["label"].to_pylist(), strict=True)):
        (root / str(label) / f"{row:05d}.jpg").write_bytes(image)


def table(lines: list[dict[str, Any]]) -> str:
    """The results as a page."""
    about = lines[0]
    page = [
        "# Input",
        "",
        f"Written by `benchmarks/input.py` at commit {about['commit']} with torch {about['torch']}, Pillow and "
        f"simplejpeg, {about['threads']} thread, {machine(about)}. {ROWS:,} JPEG files of 32 x 32 pixels in 10 "
        f"folders, batches of {BATCH} with random crop, flip and normalisation, 2 workers each. Ratios of samples per "
        "second of processor time (all processes), ours by that of a DataLoader with Pillow per sample that took turns "
        "with it: median and quartiles over the repeats. More than 1 is faster.",
        "",
        "| name | ratio of | median | quartiles | by the clock | target | pass | repeats | samples/s, ours / theirs |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        low, high = line["quartiles"]
        mine, other = line["samples_per_cpu_second"]
        verdict = {True: "yes", False: "**no**", None: ""}[line["pass"]]
        page.append(
            f"| {line['name']} | {line['what']} | {line['median']:.2f} | {low:.2f} to {high:.2f} "
            f"| {line['by_the_clock']:.2f} | {line['target'] or ''} | {verdict} | {line['repeats']} "
            f"| {mine:,} / {other:,} |"
        )
    return "\n".join(page) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument(
        "--data", type=Path, default=os.environ.get("SELC_DATA"), help="folder with cifar10/train.parquet"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="folder of the results")
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("--data (or SELC_DATA) must be a folder with cifar10/train.parquet")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    lines = []
    with tempfile.TemporaryDirectory() as place:
        write_images(Path(place) / "images", arguments.data / "cifar10" / "train.parquet")
        where = environment()
        for job in measurements(Path(place) / "images", Path(place)):
            lines.append(job.run(arguments.repeats) | where)
            print(json.dumps(lines[-1]), flush=True)
    write_text(arguments.out / "input.md", table(lines))
    print(table(lines))


if __name__ == "__main__":
    main()
