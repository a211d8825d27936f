"""SELC and a recorder under plain DDP: `torchrun --nproc-per-node 2 ddp.py`. The loss stays outside of the module."""

import os
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from selc import IndexedDataset, Recorder, SELCLoss
from selc.data import moons
from selc.noise import symmetric

EPOCHS = 30
dist.init_process_group("gloo")
bundle = moons()
inputs = next(bundle.inputs.stream([torch.arange(2000)], seed=None))
labels = symmetric(bundle.labels, 2, torch.Generator().manual_seed(0), rate=0.4).labels

torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
dataset = IndexedDataset(TensorDataset(inputs, labels))
sampler: DistributedSampler[Any] = DistributedSampler(dataset, seed=0)
loader = DataLoader(dataset, batch_size=128 // dist.get_world_size(), sampler=sampler)
criterion, recorder = SELCLoss(labels, num_classes=2, epochs=EPOCHS), Recorder(labels, num_classes=2)

for epoch in range(EPOCHS):
    sampler.set_epoch(epoch)
    for part in (criterion, recorder):
        part.set_epoch(epoch)
    for x, y, index in loader:
        logits = model(x)
        recorder(index, logits)
        optimizer.zero_grad()
        criterion(logits, y, index).backward()
        optimizer.step()

analysis = recorder.analysis()  # by every process: they put together what each has seen
if dist.get_rank() == 0:
    right = [(some == bundle.labels).float().mean().item() for some in (labels, criterion.corrected_labels)]
    print(f"labels right: {right[0]:.1%} given, {right[1]:.1%} corrected")
    rate = analysis.noise_rate
    assert rate is not None
    print(f"recorder: at most {rate.high:.0%} of the labels are wrong", flush=True)
dist.barrier()
os._exit(0)  # a thread of torch's backend now and then aborts a process that ends as usual
