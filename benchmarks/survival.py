"""Break commands off at every file operation, do the same again, and compare with the command that nothing happened to.

The harness is tests/crashes: what is counted, what each kind of trouble is a model of, and what is compared is said
there. The commands are spread over two processes; the table goes to results/survival.md.

    python benchmarks/survival.py
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from machine import machine
from selc._io.files import write_text
from selc.runs.folder import environment

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
KINDS = {
    "kill": "SIGKILL before the operation",
    "torn": "SIGKILL after half of the bytes of a write",
    "power": "SIGKILL, and all that was not synced is gone: bytes, and names made, changed or removed",
    "full": "from the operation on there is no room on the disk",
}


def broken_off(name: str, strides: dict[str, int]) -> dict[str, Any]:
    """What the harness counted; it ends with an error where anything differs."""
    options = [word for kind, stride in strides.items() for word in (f"--{kind}", str(stride))]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.crashes", f"{folder}/work", "--only", name, *options]
        environ = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
        done = subprocess.run(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True, check=True)
    tally: dict[str, Any] = json.loads(done.stdout)
    return tally


def table(tallies: list[dict[str, Any]], seconds: float) -> str:
    from tests.crashes.commands import LONG, SPARSE, STRIDES

    total = {kind: sum(tally["points"][kind] for tally in tallies) for kind in KINDS}
    text = [
        "# A command survives",
        "",
        f"Broken off {sum(total.values()):,} times, {len(tallies)} commands ended as the whole command did when they "
        "were asked for again: the same files with the same bytes (times apart; the largest difference is 0), and "
        "nothing temporary left in the run folder, the cache or beside the output. After each break every file that "
        "does not call itself temporary was whole. On a full disk the command ended with one sentence and code 2.",
        "",
        "| command | operations | " + " | ".join(KINDS) + " | seconds |",
        "|---|---:|" + "---:|" * (len(KINDS) + 1),
    ]
    for tally in tallies:
        cells = [tally["operations"], *(tally["points"][kind] for kind in KINDS), round(tally["seconds"])]
        text.append(f"| {tally['command']} | " + " | ".join(f"{cell:,}" for cell in cells) + " |")
    text.append("| all | | " + " | ".join(f"{total[kind]:,}" for kind in KINDS) + f" | {seconds:.0f} |")
    text += [
        "",
        *(
            f"- {kind}, at one operation in {STRIDES[kind]} ({SPARSE[kind]} of the long commands): {what}."
            for kind, what in KINDS.items()
        ),
        "",
        f"Long are: {'; '.join(LONG)}.",
    ]
    text += [
        "",
        "Operations are open, write, truncate, fsync, rename, unlink, mkdir, rmdir and link below the folder that the "
        "command writes to. Not seen are writes through a memory map and those of programs that are started anew "
        "(decoding of many images). Loss of power takes all that was not synced, where a disk may lose any part of it; "
        "bytes written over in place are not brought back. Torn are only writes.",
    ]
    about = environment()
    versions = ", ".join(f"{key} {about[key]}" for key in ("selc", "commit", "python", "torch"))
    text += ["", f"`python benchmarks/survival.py`, two at a time; {versions}; {machine(about)}.", ""]
    return "\n".join(text)


def main() -> None:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "").parse_args()
    sys.path.insert(0, str(ROOT))
    from tests.crashes.commands import NAMES, strides_of

    began = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        tallies = list(pool.map(lambda name: broken_off(name, strides_of(name)), NAMES))
    write_text(RESULTS / "survival.md", table(tallies, time.monotonic() - began))
    print((RESULTS / "survival.md").read_text())


if __name__ == "__main__":
    main()
