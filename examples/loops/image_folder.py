"""A recorder with a dataset like torchvision's ImageFolder: `targets` are the labels, `samples` the paths.

It makes a small folder of pictures; `python image_folder.py OUT` leaves a report and a review page there.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from selc import IndexedDataset, Recorder

out = Path(sys.argv[1])
rng = np.random.default_rng(0)


def draw(kind: int) -> Image.Image:
    """A noisy picture that is brighter at one of its four sides."""
    pixels = rng.normal(100, 40, (16, 16))
    half = np.s_[:8, :] if kind == 0 else np.s_[8:, :] if kind == 1 else np.s_[:, :8] if kind == 2 else np.s_[:, 8:]
    pixels[half] += 45
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


names, wrong = ("top", "bottom", "left", "right"), set[str]()
for number in range(480):
    true = number % 4
    given = (true + int(rng.integers(1, 4))) % 4 if rng.random() < 0.2 else true
    path = out / "photos" / names[given] / f"{number}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(true).save(path)
    if given != true:
        wrong.add(str(path))


class ImageFolder(Dataset[Any]):
    """What is used of torchvision.datasets.ImageFolder; with torchvision there, import that one."""

    def __init__(self, root: Path) -> None:
        self.classes = sorted(folder.name for folder in root.iterdir())
        files = [(str(path), k) for k, name in enumerate(self.classes) for path in sorted((root / name).iterdir())]
        self.samples, self.targets = files, [label for _, label in files]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        path, label = self.samples[row]
        with Image.open(path) as image:
            return torch.from_numpy(np.asarray(image.convert("L"), dtype=np.float32) / 255 - 0.5)[None], label


dataset = ImageFolder(out / "photos")
recorder = Recorder(torch.tensor(dataset.targets), num_classes=len(dataset.classes))
loader = DataLoader(IndexedDataset(dataset), batch_size=32, shuffle=True)
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.AvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)
)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(12):
    recorder.set_epoch(epoch)
    for x, y, index in loader:
        logits = model(x)
        recorder(index, logits, y)
        optimizer.zero_grad()
        F.cross_entropy(logits, y).backward()
        optimizer.step()

analysis = recorder.analysis()
paths = [path for path, _ in dataset.samples]
analysis.report(out / "report.html", items=paths, ids=paths, classes=dataset.classes)
analysis.review(out / "review.html", items=paths, ids=paths, classes=dataset.classes, top=100)
worst = analysis.findings.quality.argsort()[: len(wrong)].tolist()
found = sum(paths[row] in wrong for row in worst) / len(wrong)
print(f"wrong labels: {len(wrong) / len(paths):.1%} of all, {found:.1%} of as many that rank worst")
