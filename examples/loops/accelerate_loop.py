"""SELC in a loop with Accelerate; `accelerate launch --cpu --num_processes 2 accelerate_loop.py` is the same with two.

The loss stays out of `prepare`: it gathers the rows of all processes by itself, and its table is no part of the model.
"""

import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from safetensors.torch import load_file, save_file
from torch.utils.data import DataLoader, TensorDataset

from selc import IndexedDataset, SELCLoss
from selc.data import moons
from selc.noise import symmetric

EPOCHS = 30
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
bundle = moons()
inputs = next(bundle.inputs.stream([torch.arange(2000)], seed=None))
labels = symmetric(bundle.labels, 2, torch.Generator().manual_seed(0), rate=0.4).labels

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
loader = DataLoader(IndexedDataset(TensorDataset(inputs, labels)), batch_size=64, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
criterion = SELCLoss(labels, num_classes=2, epochs=EPOCHS).to(accelerator.device)

for epoch in range(EPOCHS):
    criterion.set_epoch(epoch)
    for x, y, index in loader:
        with accelerator.accumulate(model):
            accelerator.backward(criterion(model(x), y, index))
            optimizer.step()
            optimizer.zero_grad()

if accelerator.is_main_process:
    # Accelerate's own checkpoints are pickles; a table of tensors needs none.
    if len(sys.argv) > 1:
        saved = Path(sys.argv[1]) / "selc.safetensors"
        save_file({name: value.contiguous() for name, value in criterion.state_dict().items()}, saved)
        again = SELCLoss(labels, num_classes=2, epochs=EPOCHS)
        again.load_state_dict(load_file(saved))
        assert torch.equal(again.corrected_labels, criterion.corrected_labels.cpu())
    right = [(some.cpu() == bundle.labels).float().mean().item() for some in (labels, criterion.corrected_labels)]
    print(f"labels right: {right[0]:.1%} given, {right[1]:.1%} corrected")
