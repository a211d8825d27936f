"""SELC and a recorder in a net of skorch: y carries the place of each sample beside its label."""

from typing import Any

import numpy as np
import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback

from selc import Recorder, SELCLoss
from selc.data import moons
from selc.noise import symmetric

EPOCHS = 30
bundle = moons()
inputs = next(bundle.inputs.stream([torch.arange(2000)], seed=None))
labels = symmetric(bundle.labels, 2, torch.Generator().manual_seed(0), rate=0.4).labels


class SELCNet(NeuralNetClassifier):  # type: ignore[misc]
    """A classifier whose criterion is told which samples it sees."""

    def get_loss(self, y_pred: Any, y_true: Any, *, training: bool = False, **_: Any) -> Any:
        y, index = y_true[:, 0], y_true[:, 1]
        if training:
            recorder(index, y_pred)
        return self.criterion_(y_pred, y, index)


class Epochs(Callback):  # type: ignore[misc]
    """Counts epochs for both."""

    def on_epoch_begin(self, net: Any, **kwargs: Any) -> None:
        for part in (net.criterion_, recorder):
            part.set_epoch(len(net.history) - 1)


recorder = Recorder(labels, num_classes=2)
torch.manual_seed(0)
net = SELCNet(
    torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2)),
    criterion=SELCLoss,
    criterion__labels=labels,
    criterion__num_classes=2,
    criterion__epochs=EPOCHS,
    optimizer=torch.optim.SGD,
    lr=0.05,
    optimizer__momentum=0.9,
    max_epochs=EPOCHS,
    batch_size=128,
    iterator_train__shuffle=True,
    train_split=None,
    classes=[0, 1],
    callbacks=[Epochs()],
    verbose=0,
)
net.fit(inputs.numpy(), np.stack([labels.numpy(), np.arange(len(labels))], axis=1))

right = [(some == bundle.labels).float().mean().item() for some in (labels, net.criterion_.corrected_labels)]
print(f"labels right: {right[0]:.1%} given, {right[1]:.1%} corrected")
rate = recorder.analysis().noise_rate
assert rate is not None
print(f"recorder: at most {rate.high:.0%} of the labels are wrong")
