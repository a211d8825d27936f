"""``python -m tests.adapters.work FOLDER SIZE``: one of SIZE processes that train the text model together.

Which of them it is says the environment, as from torchrun. What comes out goes to FOLDER.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from safetensors.torch import save_file

from selc import Recorder, SELCLoss
from tests.adapters.test_transformers import arguments, model, texts
from tests.adapters.texts import CLASSES, sentences

ROWS, BATCH = 224, 32  # whole batches: the sampler of several processes would fill up the last one


def train(folder: Path, size: int) -> None:
    from selc.integrations.transformers import SELCTrainer

    given = sentences()[2][:ROWS]
    how = {"optim": "sgd", "learning_rate": 0.1, "gradient_accumulation_steps": 2}
    several = {"ddp_backend": "gloo"} if size > 1 else {}
    criterion, recorder = SELCLoss(given, CLASSES, 0.7, start=1), Recorder(given, CLASSES)
    trainer = SELCTrainer(
        model(dropout=0.0),
        arguments(folder, per_device_train_batch_size=BATCH // size, **how, **several),
        train_dataset=texts(slice(0, ROWS), index=True),
        criterion=criterion,
        recorder=recorder,
    )
    trainer.train()
    recorder.gather()
    name = f"{size}-{trainer.args.process_index}.safetensors"
    seen = {key: recorder.state_dict()[f"epochs.{key}"] for key in ("losses", "predictions")}
    save_file({"targets": criterion.targets, "updates": criterion.updates, **seen}, folder / name)


if __name__ == "__main__":
    train(Path(sys.argv[1]), int(sys.argv[2]))
    sys.stdout.flush()
    os._exit(0)  # a thread of torch's backend now and then aborts a process that ends as usual
