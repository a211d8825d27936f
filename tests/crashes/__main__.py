"""``python -m tests.crashes FOLDER [--only NAME] [--kill 1 --torn 5 --power 5 --full 5]``: a JSON line per command.

A program of its own, so that processes are forked from a small one with one thread.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path

import torch

from tests.crashes.commands import commands
from tests.crashes.harness import exhaust
from tests.crashes.operations import KINDS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("folder", type=Path, help="an empty folder to work in")
    parser.add_argument("--only", action="append", help="the name of a command; may be repeated")
    parser.add_argument("--all", action="store_true", help="go on after a failure")
    for kind in KINDS:
        parser.add_argument(f"--{kind}", type=int, default=0, help="try every so many operations; 0: none")
    options = parser.parse_args()
    strides = {kind: getattr(options, kind) for kind in KINDS if getattr(options, kind)}
    torch.set_num_threads(1)
    folder = options.folder.resolve()
    (folder / "inputs").mkdir(parents=True)
    for number, command in enumerate(commands(folder / "inputs")):
        if not options.only or command.name in options.only:
            say = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
            tally = exhaust(command, folder / str(number), strides, say, options.all)
            print(json.dumps(dataclasses.asdict(tally)), flush=True)


if __name__ == "__main__":
    main()
