"""How time and memory of each command grow with samples and with classes, and by which power.

Features of 64 columns, one cloud of points per class, a fifth of the labels wrong. Each command is a program of its own
with one thread: its processor time and the highest point of its memory, as the system says. Every command has a part
that does not depend on the data (starting, importing), so the power s is that of t = a + b N^s through the last three
sizes, each ten times the one before: 10^s = (t3 - t2) / (t2 - t1). One means linear. Where a difference is smaller
than half a second there is nothing to fit.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from machine import machine

RESULTS = Path(__file__).parent / "results"
COLUMNS = 64
BY_ROWS = [10_000, 100_000, 1_000_000]
BY_CLASSES = [10, 100, 1_000, 10_000]
BY_IMAGES = [10_000, 50_000, 100_000]
LEAST_SECONDS, LEAST_BYTES = 0.5, 20e6  # smaller differences are those of two runs of the same


DATA = """
import sys
import numpy as np
rows, classes, columns = map(int, sys.argv[1:4])
rng = np.random.default_rng(0)
true = np.arange(rows) % classes
x = rng.standard_normal((rows, columns), dtype=np.float32)
x += 2 * rng.standard_normal((classes, columns), dtype=np.float32)[true]
given = np.where(rng.random(rows) < 0.2, rng.integers(0, classes, rows), true)
np.savez(sys.argv[4], x=x, y=given)
"""
IMAGES = """
import sys
import numpy as np
rows, classes = map(int, sys.argv[1:3])
rng = np.random.default_rng(0)
true = np.arange(rows) % classes
x = rng.integers(0, 64, (rows, 3, 32, 32), dtype=np.uint8)
x += (18 * true).astype(np.uint8)[:, None, None, None]
given = np.where(rng.random(rows) < 0.2, rng.integers(0, classes, rows), true)
np.savez(sys.argv[4], x=x, y=given)
"""
ABOUT = "import json; from selc.runs.folder import environment; print(json.dumps(environment()))"
WRITE = "import sys, pathlib, selc._io.files as f; f.write_text(pathlib.Path(sys.argv[1]), sys.stdin.read())"


def commands(place: Path, by: str) -> dict[str, list[str]]:
    """What is measured, in this order: later ones read what the first one wrote."""
    run = str(place / "run")
    plan = ["--set", "train.batch_size=1024", "--set", "train.threads=1", "--epochs", "3"]
    if by == "images":
        plan += ["--net", "mlp", "--set", "net.hidden=[16]"]  # it is about the pages, not about the network
    return {
        "train": ["train", str(place / "data.npz"), "--method", "selc", *plan, "--set", "method.start=1", "--out", run],
        "report": ["report", run],
        "review": ["review", run],
        "apply": ["apply", run, "--out", str(place / "cleaned.csv")],
    }


ANALYSIS = """
import sys
import numpy as np, torch
torch.set_num_threads(1)
from selc import analyse_probabilities
rows, classes = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
true = np.arange(rows) % classes
given = np.where(rng.random(rows) < 0.2, rng.integers(0, classes, rows), true)
p = rng.random((rows, classes), dtype=np.float32)
p[np.arange(rows), true] += 0.1 * classes
p /= p.sum(axis=1, keepdims=True)
if sys.argv[3] == "analyse":
    analyse_probabilities(p, given)
"""


def measured(command: list[str]) -> dict[str, float]:
    """Processor time and highest memory of a program.

    What the system calls its highest memory is at least that of the program that started it, so that this one, which is
    the one, imports nothing that is large.
    """
    process = subprocess.Popen(
        command, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: {said.decode()[-2000:]}")
    return {"seconds": round(used.ru_utime + used.ru_stime, 2), "bytes": used.ru_maxrss * 1024}


def cell(by: str, rows: int, classes: int) -> Iterator[dict[str, Any]]:
    """Every command on data of one size."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        words, code = [str(n) for n in (rows, classes, COLUMNS)], IMAGES if by == "images" else DATA
        subprocess.run([sys.executable, "-c", code, *words, str(place / "data.npz")], check=True)
        for what, words in commands(place, by).items():
            yield {"command": what} | measured([sys.executable, "-m", "selc", *words])
        if rows * classes <= 2e8 and by != "images":
            words = [sys.executable, "-c", ANALYSIS, str(rows), str(classes)]
            whole, without = measured([*words, "analyse"]), measured([*words, "nothing"])
            seconds = round(max(whole["seconds"] - without["seconds"], 0.0), 2)
            yield {"command": "analysis", "seconds": seconds, "bytes": whole["bytes"]}


def power(sizes: list[int], values: list[float], least: float) -> float | None:
    """The s of a + b N^s through the last three sizes; None if it grows by less than can be told in either step."""
    if len(values) < 3:
        return None
    first, second = values[-2] - values[-3], values[-1] - values[-2]
    if sizes[-1] * sizes[-3] != sizes[-2] ** 2:  # not in equal steps
        return None
    if min(first, second) < least:
        return None
    return math.log(second / first) / math.log(sizes[-1] / sizes[-2])


def page(lines: list[dict[str, Any]]) -> str:
    """The lines of the result file as a page."""
    about, commits = lines[0], ", ".join(dict.fromkeys(line["commit"] for line in lines))  # in parts
    text = [
        "# Growth",
        "",
        f"Written by `benchmarks/growth.py` at commit {commits} with torch {about['torch']}, one thread, "
        f"{machine(about)}. Features of {COLUMNS} columns, a fifth of the labels wrong, one run of each; pictures have "
        "32 x 32 pixels. *Train* is SELC from the second of three epochs on, batches of 1,024; *analysis* is "
        "`analyse_probabilities` on out-of-sample probabilities, without making them; the others are the commands on "
        "that run. Seconds are processor time of the whole program; the power s is that of a + b N^s through the last "
        "three sizes, so that starting and importing do not count: 1 is linear. A dash: there are no three sizes in "
        "equal steps, or a step adds less than half a second (20 MB).",
        "",
    ]
    parts = (("rows", "classes", "Samples"), ("classes", "rows", "Classes"), ("images", "classes", "Images"))
    for kind, other, title in parts:
        by = "rows" if kind == "images" else kind
        mine = [line for line in lines if line["by"] == kind]
        if not mine:
            continue
        sizes = sorted({line[by] for line in mine})
        text += [f"## {title}", "", f"{mine[0][other]:,} {other if other == 'classes' else 'samples'}.", ""]
        head = " | ".join(f"{size:,}" for size in sizes)
        text += [f"| command | what | {head} | power |", "|---|---|" + "---|" * (len(sizes) + 1)]
        for command in dict.fromkeys(line["command"] for line in mine):
            found = {line[by]: line for line in mine if line["command"] == command}
            known = [size for size in sizes if size in found]
            for what, unit, scale, least in (
                ("seconds", "s", 1, LEAST_SECONDS),
                ("bytes", "MB", 1e6, LEAST_BYTES),
            ):
                values = [found[size][what] for size in known]
                s = power(known, values, least)
                cells = " | ".join(f"{found[size][what] / scale:,.1f}" if size in found else "" for size in sizes)
                text.append(f"| {command} | {unit} | {cells} | {'-' if s is None else f'{s:.2f}'} |")
        text.append("")
    return "\n".join(text)


def keep(path: Path, text: str) -> None:
    """Write a file whole."""
    subprocess.run([sys.executable, "-c", WRITE, str(path)], input=text, text=True, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, nargs="*", default=BY_ROWS, help="sizes with ten classes")
    parser.add_argument("--classes", type=int, nargs="*", default=BY_CLASSES, help="sizes with 10,000 samples")
    parser.add_argument("--images", type=int, nargs="*", default=BY_IMAGES, help="numbers of pictures of 32 x 32")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    arguments = parser.parse_args()
    about = subprocess.run([sys.executable, "-c", ABOUT], capture_output=True, text=True, check=True).stdout
    where = {k: v for k, v in json.loads(about).items() if k in ("commit", "torch", "platform", "cpu_capability")}
    cells = [("rows", rows, 10) for rows in arguments.rows] + [("classes", 10_000, C) for C in arguments.classes]
    cells += [("images", rows, 10) for rows in arguments.images]
    results = arguments.out / "growth.jsonl"
    before = [json.loads(text) for text in results.read_text().splitlines()] if results.exists() else []
    lines = [line for line in before if (line["by"], line["rows"], line["classes"]) not in cells]
    for by, rows, classes in cells:
        for line in cell(by, rows, classes):
            lines.append({"by": by, "rows": rows, "classes": classes} | line | where)
            print(json.dumps(lines[-1]), flush=True)
        keep(results, "".join(json.dumps(line) + "\n" for line in lines))
        keep(arguments.out / "growth.md", page(lines))
    print(page(lines))


if __name__ == "__main__":
    main()
