"""C. Szegedy, S. Ioffe, V. Vanhoucke, A. Alemi, Inception-v4, Inception-ResNet and ..., AAAI 2017.

The variant whose weights are published (TensorFlow's, ported by others): its pooling branch does not count the
padding, batch norm has epsilon 0.001, and the last residual block is neither scaled nor activated.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selc.errors import ConfigError
from selc.nets.base import image_net, join
from selc.nets.weights import Published, with_weights

Size = int | tuple[int, int]


@image_net("inception-resnet-v2", smallest=75)
def inception_resnet_v2(
    num_classes: int, shape: tuple[int, ...], *, dropout: float = 0.0, weights: str = "none"
) -> nn.Module:
    """Inception-ResNet-v2 (Szegedy et al. 2017); takes images of 75 pixels and more, made for 299."""
    if not 0 <= dropout < 1:
        raise ConfigError(f"dropout must be in [0, 1); got {dropout:g}. It is the share of features to leave out.")
    layers = OrderedDict[str, nn.Module](
        stem=nn.Sequential(
            Unit(shape[0], 32, 3, stride=2),
            Unit(32, 32, 3),
            Unit(32, 64, 3, padding=1),
            nn.MaxPool2d(3, stride=2),
            Unit(64, 80, 1),
            Unit(80, 192, 3),
            nn.MaxPool2d(3, stride=2),
        ),
        mixed5=Branches(
            [Unit(192, 96, 1)],
            [Unit(192, 48, 1), Unit(48, 64, 5, padding=2)],
            [Unit(192, 64, 1), Unit(64, 96, 3, padding=1), Unit(96, 96, 3, padding=1)],
            [nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False), Unit(192, 64, 1)],
        ),
        blocks35=nn.Sequential(*(_block35() for _ in range(10))),
        reduce6=Branches(
            [Unit(320, 384, 3, stride=2)],
            [Unit(320, 256, 1), Unit(256, 256, 3, padding=1), Unit(256, 384, 3, stride=2)],
            [nn.MaxPool2d(3, stride=2)],
        ),
        blocks17=nn.Sequential(*(_block17() for _ in range(20))),
        reduce7=Branches(
            [Unit(1088, 256, 1), Unit(256, 384, 3, stride=2)],
            [Unit(1088, 256, 1), Unit(256, 288, 3, stride=2)],
            [Unit(1088, 256, 1), Unit(256, 288, 3, padding=1), Unit(288, 320, 3, stride=2)],
            [nn.MaxPool2d(3, stride=2)],
        ),
        blocks8=nn.Sequential(*(_block8(0.2) for _ in range(9)), _block8(1.0, activate=False)),
        last=Unit(2080, 1536, 1),
        avgpool=nn.AdaptiveAvgPool2d(1),
        flatten=nn.Flatten(),
        dropout=nn.Dropout(dropout),
    )
    net = join(nn.Sequential(layers), nn.Linear(1536, num_classes))
    return with_weights(net, weights, Published("inception-resnet-v2", timm="inception_resnet_v2", rename=_rename))


class Unit(nn.Sequential):
    """Convolution, norm, ReLU."""

    def __init__(self, inputs: int, outputs: int, kernel: Size, stride: int = 1, padding: Size = 0) -> None:
        super().__init__(
            OrderedDict(
                conv=nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=padding, bias=False),
                bn=nn.BatchNorm2d(outputs, eps=0.001),
                relu=nn.ReLU(),
            )
        )


class Branches(nn.Module):
    """Several paths from the same input, side by side in the output."""

    def __init__(self, *branches: Iterable[nn.Module]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Sequential(*branch) for branch in branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], dim=1)


class Residual(nn.Module):
    """A fraction of what the branches find is added to their input."""

    def __init__(self, paths: Branches, width: int, channels: int, scale: float, activate: bool = True) -> None:
        super().__init__()
        self.paths, self.project = paths, nn.Conv2d(width, channels, 1)
        self.scale, self.activate = scale, activate

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + self.scale * self.project(self.paths(x))
        return F.relu(y) if self.activate else y


def _block35() -> Residual:
    paths = Branches(
        [Unit(320, 32, 1)],
        [Unit(320, 32, 1), Unit(32, 32, 3, padding=1)],
        [Unit(320, 32, 1), Unit(32, 48, 3, padding=1), Unit(48, 64, 3, padding=1)],
    )
    return Residual(paths, 128, 320, scale=0.17)


def _block17() -> Residual:
    paths = Branches(
        [Unit(1088, 192, 1)],
        [Unit(1088, 128, 1), Unit(128, 160, (1, 7), padding=(0, 3)), Unit(160, 192, (7, 1), padding=(3, 0))],
    )
    return Residual(paths, 384, 1088, scale=0.1)


def _block8(scale: float, activate: bool = True) -> Residual:
    paths = Branches(
        [Unit(2080, 192, 1)],
        [Unit(2080, 192, 1), Unit(192, 224, (1, 3), padding=(0, 1)), Unit(224, 256, (3, 1), padding=(1, 0))],
    )
    return Residual(paths, 448, 2080, scale, activate)


# Where timm has a part -> where we have it; the longer name first.
_PARTS = {
    "conv2d_1a.": "stem.0.",
    "conv2d_2a.": "stem.1.",
    "conv2d_2b.": "stem.2.",
    "conv2d_3b.": "stem.4.",
    "conv2d_4a.": "stem.5.",
    "mixed_5b.": "mixed5.",
    "repeat.": "blocks35.",
    "mixed_6a.": "reduce6.",
    "repeat_1.": "blocks17.",
    "mixed_7a.": "reduce7.",
    "repeat_2.": "blocks8.",
    "block8.": "blocks8.9.",
    "conv2d_7b.": "last.",
}


def _rename(key: str) -> str:
    """A key of timm (``repeat.0.branch1.0.conv.weight``) in our terms."""
    if key.startswith(("classif.", "last_linear.")):
        return "head." + key.split(".", 1)[1]
    start = key.split(".", 1)[0] + "."
    if start not in _PARTS:
        return key
    rest = key[len(start) :]
    rest = re.sub(r"branch(\d)\.(?=conv|bn)", r"branch\1.0.", rest)  # a branch of one unit is not numbered there
    path = "branches" if start.startswith("mixed") else "paths.branches"
    rest = re.sub(r"branch(\d)\.", rf"{path}.\1.", rest)
    return f"features.{_PARTS[start]}{rest.replace('conv2d.', 'project.')}"
