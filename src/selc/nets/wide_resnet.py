"""Wide residual networks: S. Zagoruyko, N. Komodakis, Wide Residual Networks, BMVC 2016."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from selc.errors import ConfigError
from selc.nets.base import image_net, join
from selc.nets.preact_resnet import PreActBlock
from selc.nets.resnet import conv3x3


@image_net("wrn-28-10", smallest=4)
def wrn_28_10(num_classes: int, shape: tuple[int, ...], *, dropout: float = 0.0) -> nn.Module:
    """Wide ResNet of 28 layers, 10 times as wide (Zagoruyko & Komodakis 2016); for small images."""
    return wide_resnet(num_classes, shape, depth=28, widen=10, dropout=dropout)


@image_net("wrn-28-2", smallest=4)
def wrn_28_2(num_classes: int, shape: tuple[int, ...], *, dropout: float = 0.0) -> nn.Module:
    """Wide ResNet of 28 layers, 2 times as wide (Zagoruyko & Komodakis 2016); for small images."""
    return wide_resnet(num_classes, shape, depth=28, widen=2, dropout=dropout)


def wide_resnet(num_classes: int, shape: tuple[int, ...], depth: int, widen: int, dropout: float = 0.0) -> nn.Module:
    """WRN-``depth``-``widen``: three groups of (depth - 4) / 6 pre-activated blocks, 16, 32 and 64 times ``widen``."""
    if not 0 <= dropout < 1:
        raise ConfigError(f"dropout must be in [0, 1); got {dropout:g}. It is the share of activations to leave out.")
    layers: OrderedDict[str, nn.Module] = OrderedDict(conv1=conv3x3(shape[0], 16))
    channels = 16
    for group, width in enumerate((16 * widen, 32 * widen, 64 * widen)):
        blocks = []
        for number in range((depth - 4) // 6):
            stride = 2 if group > 0 and number == 0 else 1
            blocks.append(PreActBlock(channels, width, stride, dropout=dropout))
            channels = width
        layers[f"group{group + 1}"] = nn.Sequential(*blocks)
    layers |= {"norm": nn.BatchNorm2d(channels), "relu": nn.ReLU()}
    layers |= {"avgpool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}
    return join(nn.Sequential(layers), nn.Linear(channels, num_classes))
