"""Which labels look wrong, from a training that runs anyway: two lines are added, and nothing changes."""

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from selc import IndexedDataset, Recorder
from selc.data import moons
from selc.noise import symmetric

bundle = moons()
inputs = next(bundle.inputs.stream([torch.arange(2000)], seed=None))
labels = symmetric(bundle.labels, 2, torch.Generator().manual_seed(0), rate=0.2).labels

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

loader = DataLoader(IndexedDataset(TensorDataset(inputs, labels)), batch_size=128, shuffle=True)
recorder = Recorder(labels, num_classes=2)

for epoch in range(20):
    recorder.set_epoch(epoch)
    for x, y, index in loader:
        logits = model(x)
        recorder(index, logits, y)
        optimizer.zero_grad()
        F.cross_entropy(logits, y).backward()
        optimizer.step()

issues = recorder.analysis().issues()
wrong = labels != bundle.labels
worst = torch.from_numpy(issues["label_quality"]).argsort()[: int(wrong.sum())]
print(f"wrong labels: {wrong.float().mean():.1%} of all, {wrong[worst].float().mean():.1%} of as many that rank worst")
