"""Ten thousand and more malformed inputs: each must end in an error of ours or in success.

Valid files of every kind are spoilt (`tests/fuzz`), and others made up from their grammar by hypothesis. Any other
exception, a death, more than 5 s or more than 1 GB is a fault; its files go to a folder, to be run again by --replay.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for tests.fuzz

import torch
from tests.fuzz.harness import MEMORY, SECONDS, Tally, fuzz, replay
from tests.fuzz.kinds import KINDS
from tests.fuzz.structures import GRAMMARS, made_up

from machine import machine
from selc._io.files import write_text
from selc.runs.folder import environment

RESULTS = Path(__file__).parent / "results" / "fuzz.md"


class Line:
    """Cases done, the rate and the time left: at most once in five seconds."""

    def __init__(self, total: int) -> None:
        self.total, self.before, self.began, self.last = total, 0, time.monotonic(), 0.0

    def show(self, tally: Tally) -> None:
        now = time.monotonic()
        if now - self.last < 5:
            return
        self.last = now
        done = self.before + tally.cases
        rate = done / max(now - self.began, 1e-9)
        left = (self.total - done) / max(rate, 1e-9)
        faults = f", {len(tally.faults)} faults" if tally.faults else ""
        print(
            f"{tally.kind}: {done:,}/{self.total:,}, {rate:.0f} a second, {left:.0f} s left{faults}",
            file=sys.stderr,
            flush=True,
        )


def grammar(name: str, examples: int, seed: int) -> tuple[Tally, str]:
    """Made-up inputs of a kind, in a process of their own; hypothesis stops at a fault and shrinks it."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writable, json.dumps([*made_up(name, examples, seed), ""]).encode())
        except BaseException as error:
            os.write(writable, json.dumps([0, 0, f"{type(error).__name__}: {str(error)[:2000]}"]).encode())
        finally:
            os._exit(0)
    os.close(writable)
    with os.fdopen(readable, "rb") as pipe:
        ours, success, fault = json.loads(pipe.read() or b'[0, 0, "the process died"]')
    os.waitpid(child, 0)
    return Tally(f"{name}, made up", ours, success), fault


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=13_000, help="spoilt files of all kinds together")
    parser.add_argument("--made-up", type=int, default=2_500, help="inputs by hypothesis of all kinds together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default=",".join(KINDS), help="with commas")
    parser.add_argument("--faults", type=Path, default=Path("faults"), help="folder for the files of faults")
    parser.add_argument("--replay", type=Path, help="run a case from that folder once more")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.replay is not None:
        replay(arguments.replay)
        return
    kinds = [KINDS[name.strip()] for name in arguments.kinds.split(",")]
    shares = sum(kind.share for kind in kinds)
    counts = {kind.name: max(1, arguments.cases * kind.share // shares) for kind in kinds}
    line, began, tallies = Line(sum(counts.values())), time.monotonic(), []
    for kind in kinds:
        tally = fuzz(kind, counts[kind.name], arguments.seed, arguments.faults, line.show)
        line.before += tally.cases
        tallies.append(tally)
        print(f"{kind.name}: ours {tally.ours}, success {tally.success}, faults {len(tally.faults)}", flush=True)
    found = {}
    chosen = [name for name in GRAMMARS if name in counts]
    for name in chosen:
        tally, fault = grammar(name, max(1, arguments.made_up // len(chosen)), arguments.seed)
        tallies.append(tally)
        if fault:
            found[name] = fault
        print(f"{tally.kind}: ours {tally.ours}, success {tally.success}, {fault or 'no fault'}", flush=True)
    write_text(arguments.out, rendered(tallies, found, arguments.seed, time.monotonic() - began))
    print(arguments.out)
    if found or any(tally.faults for tally in tallies):
        raise SystemExit(1)


def rendered(tallies: list[Tally], made_up_faults: dict[str, str], seed: int, seconds: float) -> str:
    where = environment()
    total = sum(tally.cases for tally in tallies)
    lines = [
        "# Malformed inputs",
        "",
        f"Written by `benchmarks/fuzz.py` at commit {where['commit']}, {machine(where)}: "
        f"{total:,} inputs, seed {seed}, one process at a "
        f"time, {seconds:.0f} s. A fault is anything but success or an error of ours in one sentence: another "
        f"exception, the death of the process, more than {SECONDS:g} s of processor time, more than "
        f"{MEMORY / 2**30:g} GB above what the process had.",
        "",
        "| kind | inputs | our error | success | faults | slowest, s | most memory, MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for tally in tallies:
        name = tally.kind.removesuffix(", made up")
        bad = len(tally.faults) + (name in made_up_faults and tally.kind != name)
        measured = f"{tally.slowest:.2f} | {tally.largest / 1e6:.0f}" if tally.largest else "|"
        lines.append(f"| {tally.kind} | {tally.cases:,} | {tally.ours:,} | {tally.success:,} | {bad} | {measured} |")
    faults = sum(len(tally.faults) for tally in tallies) + len(made_up_faults)
    ours, success = sum(t.ours for t in tallies), sum(t.success for t in tallies)
    slowest, largest = max(t.slowest for t in tallies), max(t.largest for t in tallies)
    lines.append(f"| **all** | {total:,} | {ours:,} | {success:,} | {faults} | {slowest:.2f} | {largest / 1e6:.0f} |")
    for tally in tallies:
        kinds = sorted({fault.what for fault in tally.faults})
        if kinds:
            lines += ["", f"Faults of {tally.kind}: {', '.join(kinds)}."]
    versions = ", ".join(f"{key} {where[key]}" for key in ("python", "torch", "numpy"))
    return "\n".join([*lines, "", f"Versions: {versions}.", ""])


if __name__ == "__main__":
    main()
