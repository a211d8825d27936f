"""Residual networks: K. He, X. Zhang, S. Ren, J. Sun, Deep Residual Learning for Image Recognition, CVPR 2016.

Module names are those of torchvision inside ``features``, so that published weights map by name. The bottleneck has
its stride on the 3 x 3 convolution, as torchvision's has. Weights start as torch's layers make them, as in the code
of the SELC paper.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from selc.nets.base import check_images, image_net, join
from selc.nets.weights import Published, with_weights

Stem = Literal["auto", "cifar", "imagenet"]
LARGEST_FOR_CIFAR = 64  # pixels: the largest images whose full resolution goes into the first stage
WIDTHS = (64, 128, 256, 512)


@image_net("resnet18", smallest=8)
def resnet18(num_classes: int, shape: tuple[int, ...], *, stem: Stem = "auto", weights: str = "none") -> nn.Module:
    """ResNet-18 (He et al. 2016); the stem follows the image size."""
    return _resnet("resnet18", BasicBlock, (2, 2, 2, 2), num_classes, shape, stem, weights)


@image_net("resnet34", smallest=8)
def resnet34(num_classes: int, shape: tuple[int, ...], *, stem: Stem = "auto", weights: str = "none") -> nn.Module:
    """ResNet-34 (He et al. 2016); the stem follows the image size."""
    return _resnet("resnet34", BasicBlock, (3, 4, 6, 3), num_classes, shape, stem, weights)


@image_net("resnet50", smallest=8)
def resnet50(num_classes: int, shape: tuple[int, ...], *, stem: Stem = "auto", weights: str = "none") -> nn.Module:
    """ResNet-50 with bottleneck blocks (He et al. 2016); the stem follows the image size."""
    return _resnet("resnet50", Bottleneck, (3, 4, 6, 3), num_classes, shape, stem, weights)


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions, added to a shortcut."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv3x3(inputs, width, stride), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv3x3(width, width), nn.BatchNorm2d(width)
        self.downsample = _shortcut(inputs, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + self.downsample(x))


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 and 1 x 1 convolutions, the last four times as wide, added to a shortcut."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = self.expansion * width
        self.conv1, self.bn1 = conv1x1(inputs, width), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv3x3(width, width, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = conv1x1(width, outputs), nn.BatchNorm2d(outputs)
        self.downsample = _shortcut(inputs, outputs, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + self.downsample(x))


def conv3x3(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)


def conv1x1(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)


def stem_layers(name: str, shape: tuple[int, ...], stem: Stem) -> OrderedDict[str, nn.Module]:
    """The layers before the first stage, to 64 channels: 3 x 3 for small images; 7 x 7 / 2 and a max-pool for large."""
    if stem == "cifar" or (stem == "auto" and max(shape[1:]) <= LARGEST_FOR_CIFAR):
        return OrderedDict(conv1=conv3x3(shape[0], 64), bn1=nn.BatchNorm2d(64), relu=nn.ReLU())
    check_images(f"net {name!r} with stem 'imagenet'", shape, 32)  # it halves the side five times
    conv = nn.Conv2d(shape[0], 64, 7, stride=2, padding=3, bias=False)
    pool = nn.MaxPool2d(3, stride=2, padding=1)
    return OrderedDict(conv1=conv, bn1=nn.BatchNorm2d(64), relu=nn.ReLU(), maxpool=pool)


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    """The identity, or a projection where the shape changes."""
    if inputs == outputs and stride == 1:
        return nn.Identity()
    return nn.Sequential(conv1x1(inputs, outputs, stride), nn.BatchNorm2d(outputs))


def _resnet(
    name: str,
    block: type[BasicBlock] | type[Bottleneck],
    depths: tuple[int, ...],
    num_classes: int,
    shape: tuple[int, ...],
    stem: Stem,
    weights: str,
) -> nn.Module:
    layers = stem_layers(name, shape, stem)
    channels = 64
    for stage, (width, depth) in enumerate(zip(WIDTHS, depths, strict=True)):
        blocks = []
        for number in range(depth):
            blocks.append(block(channels, width, stride=2 if stage > 0 and number == 0 else 1))
            channels = width * block.expansion
        layers[f"layer{stage + 1}"] = nn.Sequential(*blocks)
    layers |= {"avgpool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}
    net = join(nn.Sequential(layers), nn.Linear(channels, num_classes))
    return with_weights(net, weights, Published(name, torchvision=name, timm=name, rename=_rename))


def _rename(key: str) -> str:
    """A key of torchvision or timm in our terms."""
    return key.replace("fc.", "head.") if key.startswith("fc.") else f"features.{key}"
