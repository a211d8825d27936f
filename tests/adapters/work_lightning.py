"""``python -m tests.adapters.work_lightning FOLDER SIZE``: one of SIZE processes that train by Lightning together."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from tests.adapters.test_lightning import fitted, recorder, selc


def train(folder: Path, size: int) -> None:
    rank = os.environ.get("RANK", "0")
    several = {"strategy": "ddp", "devices": size, "use_distributed_sampler": False}
    together: dict[str, Any] = {
        "part": (int(rank), size),
        "accumulate_grad_batches": 2,
        **(several if size > 1 else {}),
    }
    ours, theirs = selc(start=1), recorder()
    fitted(folder, "selc", [ours], plain=True, **together)
    fitted(folder, "recorded", [theirs], plain=True, **together)
    theirs.recorder.gather()
    seen = theirs.recorder.state_dict()
    found = {"targets": ours.criterion.targets, "updates": ours.criterion.updates, "looks": seen["looks.predictions"]}
    save_file({**found, "losses": seen["epochs.losses"]}, folder / f"{size}-{rank}.safetensors")


if __name__ == "__main__":
    train(Path(sys.argv[1]), int(sys.argv[2]))
    sys.stdout.flush()
    os._exit(0)  # a thread of torch's backend now and then aborts a process that ends as usual
