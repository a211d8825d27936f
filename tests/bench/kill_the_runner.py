"""Run the miniature in a process that a test kills: ``python kill_the_runner.py RESULTS RUNS EPOCHS``."""

from __future__ import annotations

import sys
from pathlib import Path

from selc.bench.runner import Machine, Places, look, run
from tests.bench.miniature import cells

if __name__ == "__main__":
    places = Places(Path(sys.argv[1]), Path(sys.argv[2]))
    outlook = look(cells(int(sys.argv[3])), places)
    run(outlook, Machine(workers=2), places)
