"""Residual networks with pre-activation: K. He et al., Identity Mappings in Deep Residual Networks, ECCV 2016."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from selc.nets.base import image_net, join
from selc.nets.resnet import WIDTHS, Stem, conv1x1, conv3x3, stem_layers


@image_net("preact-resnet18", smallest=8)
def preact_resnet18(num_classes: int, shape: tuple[int, ...], *, stem: Stem = "auto") -> nn.Module:
    """PreAct ResNet-18 (He et al. 2016b); the stem follows the image size."""
    return _preact_resnet("preact-resnet18", (2, 2, 2, 2), num_classes, shape, stem)


@image_net("preact-resnet34", smallest=8)
def preact_resnet34(num_classes: int, shape: tuple[int, ...], *, stem: Stem = "auto") -> nn.Module:
    """PreAct ResNet-34 (He et al. 2016b); the stem follows the image size."""
    return _preact_resnet("preact-resnet34", (3, 4, 6, 3), num_classes, shape, stem)


@image_net("preact-resnet34-authors", smallest=8)
def preact_resnet34_authors(num_classes: int, shape: tuple[int, ...]) -> nn.Module:
    """What the SELC authors' code builds as PreAct ResNet-34 for PMD noise: 18 layers, no last norm.

    It has [2, 2, 2, 2] blocks instead of [3, 4, 6, 3], takes every shortcut after the activation (so that no mapping is
    an identity), activates the stem's output twice before the first block, and pools the sum of the last block without
    norm and ReLU. Its unused second head is left out.
    """
    return _preact_resnet("preact-resnet34-authors", (2, 2, 2, 2), num_classes, shape, "cifar", as_authors=True)


class PreActBlock(nn.Module):
    """Norm and ReLU before each of two 3 x 3 convolutions; nothing after the sum.

    The shortcut is the input itself; where the shape changes, a 1 x 1 convolution of the activated input.
    ``activate=False`` is for the first block behind a stem that ends in norm and ReLU: there the activation stands
    before the paths split, as the paper has it. ``keep_input=False`` takes even the plain shortcut from the activated
    input, as the code of the SELC paper does.
    """

    def __init__(
        self,
        inputs: int,
        width: int,
        stride: int,
        *,
        activate: bool = True,
        keep_input: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.keep_input = keep_input
        self.activate = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU()) if activate else nn.Identity()
        self.conv1, self.bn2 = conv3x3(inputs, width, stride), nn.BatchNorm2d(width)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = conv3x3(width, width)
        self.shortcut = conv1x1(inputs, width, stride) if stride > 1 or inputs != width else None

    def forward(self, x: Tensor) -> Tensor:
        active: Tensor = self.activate(x)
        y: Tensor = self.conv2(self.dropout(F.relu(self.bn2(self.conv1(active)))))
        shortcut: Tensor = x if self.keep_input else active
        if self.shortcut is not None:
            shortcut = self.shortcut(active)
        return y + shortcut


def _preact_resnet(
    name: str, depths: tuple[int, ...], num_classes: int, shape: tuple[int, ...], stem: Stem, as_authors: bool = False
) -> nn.Module:
    layers = stem_layers(name, shape, stem)
    channels = 64
    for stage, (width, depth) in enumerate(zip(WIDTHS, depths, strict=True)):
        blocks = []
        for number in range(depth):
            stride = 2 if stage > 0 and number == 0 else 1
            first = stage == 0 and number == 0
            block = PreActBlock(channels, width, stride, activate=as_authors or not first, keep_input=not as_authors)
            blocks.append(block)
            channels = width
        layers[f"layer{stage + 1}"] = nn.Sequential(*blocks)
    if not as_authors:
        layers |= {"norm": nn.BatchNorm2d(channels), "relu_last": nn.ReLU()}
    layers |= {"avgpool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}
    return join(nn.Sequential(layers), nn.Linear(channels, num_classes))
