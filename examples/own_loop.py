"""SELC in your own training loop: three lines change."""

import torch
from torch.utils.data import DataLoader, TensorDataset

from selc import IndexedDataset, SELCLoss
from selc.data import moons
from selc.noise import symmetric

bundle = moons()
inputs = next(bundle.inputs.stream([torch.arange(2000)], seed=None))
labels = symmetric(bundle.labels, 2, torch.Generator().manual_seed(0), rate=0.4).labels

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

loader = DataLoader(IndexedDataset(TensorDataset(inputs, labels)), batch_size=128, shuffle=True)
criterion = SELCLoss(labels, num_classes=2, epochs=40)

for epoch in range(40):
    criterion.set_epoch(epoch)
    for x, y, index in loader:
        optimizer.zero_grad()
        criterion(model(x), y, index).backward()
        optimizer.step()

right = [(some == bundle.labels).float().mean().item() for some in (labels, criterion.corrected_labels)]
print(f"labels right: {right[0]:.1%} given, {right[1]:.1%} corrected")
