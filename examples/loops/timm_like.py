"""SELC in a script like timm's train.py: its function for an epoch, with the index passed on in three places (#).

What mixes samples or smooths labels (mixup, cutmix, smoothing) is off: SELC's targets are soft themselves.
"""

import copy
import math
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from selc import IndexedDataset, SELCLoss
from selc.data import moons
from selc.noise import symmetric


def train_one_epoch(
    epoch: int, model: nn.Module, loader: Any, optimizer: Any, loss_fn: Any, scheduler: Any, ema: nn.Module, every: int
) -> float:
    """An epoch: gradients are accumulated, clipped, and averaged weights follow."""
    model.train()
    loss_fn.set_epoch(epoch)  # 1
    total = 0.0
    for batch, (x, target, index) in enumerate(loader):  # 2
        output = model(x)
        loss = loss_fn(output, target, index)  # 3
        (loss / every).backward()
        total += loss.item()
        if (batch + 1) % every == 0 or batch + 1 == len(loader):
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            with torch.no_grad():
                for slow, fast in zip(ema.parameters(), model.parameters(), strict=True):
                    slow.lerp_(fast, 0.05)
    scheduler.step()
    return total / len(loader)


def main(epochs: int = 30) -> None:
    bundle = moons()
    inputs = next(bundle.inputs.stream([torch.arange(2000)], seed=None))
    labels = symmetric(bundle.labels, 2, torch.Generator().manual_seed(0), rate=0.4).labels
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 2))
    ema = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda epoch: 0.5 * (1 + math.cos(math.pi * epoch / epochs))
    )
    loader = DataLoader(IndexedDataset(TensorDataset(inputs, labels)), batch_size=64, shuffle=True, drop_last=True)
    loss_fn = SELCLoss(labels, num_classes=2, epochs=epochs)
    for epoch in range(epochs):
        train_one_epoch(epoch, model, loader, optimizer, loss_fn, scheduler, ema, every=2)
    with torch.no_grad():
        accuracy = (ema(inputs).argmax(dim=1) == bundle.labels).float().mean().item()
    right = [(some == bundle.labels).float().mean().item() for some in (labels, loss_fn.corrected_labels)]
    print(f"labels right: {right[0]:.1%} given, {right[1]:.1%} corrected; the averaged network {accuracy:.1%}")


if __name__ == "__main__":
    main()
