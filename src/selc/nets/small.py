"""Small networks for short trainings; of `mlp` and `cnn` the weights load without selc."""

from __future__ import annotations

import math
from collections import OrderedDict

from torch import nn

from selc.nets.base import NETS, image_net, join
from selc.nets.resnet import BasicBlock, conv3x3


@NETS.register("mlp")
def mlp(num_classes: int, shape: tuple[int, ...], *, hidden: tuple[int, ...] = (512, 512)) -> nn.Module:
    """Fully connected layers with ReLU, 512-512 by default; takes inputs of any shape."""
    layers: list[nn.Module] = [nn.Flatten()]
    width = math.prod(shape)
    for size in hidden:
        layers += [nn.Linear(width, size), nn.ReLU()]
        width = size
    return join(nn.Sequential(*layers), nn.Linear(width, num_classes))


@image_net("cnn", smallest=4)
def cnn(num_classes: int, shape: tuple[int, ...], *, width: int = 32) -> nn.Module:
    """Three blocks of 3 x 3 convolution, batch norm and ReLU; takes images of 4 pixels and more."""
    layers: list[nn.Module] = []
    channels = shape[0]
    for stage, size in enumerate((width, 2 * width, 4 * width)):
        layers += [
            nn.Conv2d(channels, size, 3, stride=1 if stage == 0 else 2, padding=1, bias=False),
            nn.BatchNorm2d(size),
            nn.ReLU(),
        ]
        channels = size
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return join(nn.Sequential(*layers), nn.Linear(channels, num_classes))


@image_net("resnet-tiny", smallest=8)
def resnet_tiny(num_classes: int, shape: tuple[int, ...], *, width: int = 32) -> nn.Module:
    """A residual network of one basic block per stage, 32-64-128 channels and a stride-2 stem; for images of 32 pixels.

    It memorises 5,000 images of CIFAR-10 in a minute of one core.
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=conv3x3(shape[0], width, stride=2), bn1=nn.BatchNorm2d(width), relu=nn.ReLU()
    )
    channels = width
    for stage, size in enumerate((width, 2 * width, 4 * width)):
        layers[f"layer{stage + 1}"] = BasicBlock(channels, size, stride=1 if stage == 0 else 2)
        channels = size
    layers |= {"avgpool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}
    return join(nn.Sequential(layers), nn.Linear(channels, num_classes))
