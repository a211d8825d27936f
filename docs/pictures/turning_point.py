"""The picture of docs/turning-point.md: what a run on digits saw on rows that it was not trained on.

    python docs/pictures/turning_point.py

It takes half a minute and needs the packages of selc[sklearn,report].
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from selc.report.draw_evidence import held_out
from selc.report.style import save
from selc.runs import Config, execute

DOCS = Path(__file__).parents[1]


def main() -> None:
    settings = {"data": "digits", "noise": {"name": "symmetric", "rate": 0.4}}
    with tempfile.TemporaryDirectory() as folder:
        run = execute(Config.resolve(settings), Path(folder) / "run")
        save(held_out(run), DOCS / "images" / "turning-point.png")


if __name__ == "__main__":
    main()
