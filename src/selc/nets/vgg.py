"""VGG with batch norm: K. Simonyan, A. Zisserman, Very Deep Convolutional Networks, ICLR 2015 (configuration E)."""

from __future__ import annotations

import re
from collections import OrderedDict

from torch import nn

from selc.errors import ConfigError
from selc.nets.base import image_net, join
from selc.nets.weights import Published, with_weights

STAGES = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))  # width and number of convolutions; a max-pool after each
GRID = 7  # the map is pooled, or for small images repeated, to 7 x 7


@image_net("vgg19-bn", smallest=32)
def vgg19_bn(
    num_classes: int, shape: tuple[int, ...], *, hidden: int = 4096, dropout: float = 0.5, weights: str = "none"
) -> nn.Module:
    """VGG-19 with batch norm (Simonyan & Zisserman 2015); its two hidden layers count as features."""
    if not 0 <= dropout < 1 or hidden < 1:
        raise ConfigError(f"hidden must be at least 1 and dropout in [0, 1); got {hidden} and {dropout:g}.")
    convolutions: list[nn.Module] = []
    channels = shape[0]
    for width, depth in STAGES:
        for _ in range(depth):
            convolutions += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
            channels = width
        convolutions.append(nn.MaxPool2d(2))
    layers = OrderedDict(
        convolutions=nn.Sequential(*convolutions),
        avgpool=nn.AdaptiveAvgPool2d(GRID),
        flatten=nn.Flatten(),
        hidden=nn.Sequential(
            nn.Linear(channels * GRID * GRID, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
        ),
    )
    net = join(nn.Sequential(layers), nn.Linear(hidden, num_classes))
    _initialise(net)
    return with_weights(net, weights, Published("vgg19-bn", torchvision="vgg19_bn", timm="vgg19_bn", rename=_rename))


def _initialise(net: nn.Module) -> None:
    """torchvision's start, which the code of the SELC paper took over: without it the fc layers begin much larger."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            nn.init.zeros_(module.bias)  # type: ignore[arg-type]
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, 0, 0.01)
            nn.init.zeros_(module.bias)


def _rename(key: str) -> str:
    """A key of torchvision (``classifier.0``) or timm (``pre_logits.fc1``) in our terms."""
    for theirs, ours in (
        (r"features\.", "features.convolutions."),
        (r"classifier\.6\.|head\.fc\.", "head."),
        (r"classifier\.0\.|pre_logits\.fc1\.", "features.hidden.0."),
        (r"classifier\.3\.|pre_logits\.fc2\.", "features.hidden.3."),
    ):
        if match := re.match(theirs, key):
            return ours + key[match.end() :]
    return key
