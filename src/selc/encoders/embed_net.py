"""The backbone that features are taken from."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from selc.encoders.embed_file import Array
from selc.errors import ConfigError
from selc.nets import NETS, create, own
from selc.registry import is_import

Statistics = tuple[tuple[float, ...], tuple[float, ...]]  # mean and standard deviation of red, green, blue in [0, 1]
IMAGENET: Statistics = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# What published weights were trained with, where it is not the statistics of ImageNet.
OTHERS: dict[str, Statistics] = {
    "efficientnet-lite0": ((127 / 255,) * 3, (128 / 255,) * 3),
    "inception-resnet-v2": ((0.5,) * 3, (0.5,) * 3),
}


class Backbone:
    """A pretrained network without its head, ready to be asked for features."""

    def __init__(
        self, backbone: str | nn.Module, options: Mapping[str, Any], size: int, device: torch.device, batch: int | None
    ) -> None:
        if batch is not None and batch < 1:
            raise ConfigError(f"batch must be at least 1; got {batch}.")
        self.name = backbone if isinstance(backbone, str) else type(backbone).__name__
        self.mean, self.std = OTHERS.get(self.name, IMAGENET)
        self.device = device
        self.batch = batch or (16 if device.type == "cpu" else 256)  # on a CPU, what fits its cache is fastest
        shape = (3, size, size)
        net = _pretrained(backbone, options, shape) if isinstance(backbone, str) else copy.deepcopy(backbone)
        features = getattr(net, "features", None)
        net = (features if isinstance(features, nn.Module) else net).eval()
        self.digest = _digest(net)
        self.net = folded(net).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        outputs = own.try_out(self.net, shape, f"backbone {self.name!r}")
        if not isinstance(outputs, list) or len(outputs) != 2:
            raise ConfigError(f"backbone {self.name!r} must map images to features [B, D]; got {outputs}.")
        self.dims = outputs[1]

    def features(self, images: Tensor) -> Array:
        """Features [B, D] of images [B, K, H, W] with values in [0, 1]; a grey one becomes three equal channels."""
        mean, std = (torch.tensor(values, device=images.device).view(3, 1, 1) for values in (self.mean, self.std))
        x = ((images - mean) / std).contiguous(memory_format=torch.channels_last)
        with torch.inference_mode():
            result: Array = self.net(x).float().cpu().numpy()
        return result


def _pretrained(name: str, options: Mapping[str, Any], shape: tuple[int, ...]) -> nn.Module:
    if is_import(name):
        return own.make(name, 1000, shape, **own.checked(name, options))
    defaults = NETS.defaults(name)
    if {**defaults, **options}.get("weights", "none") == "none":
        known = [other for other in NETS if "weights" in NETS.defaults(other)]
        what = "Say which, by --weights" if name in known else f"Take one of {', '.join(known)}"
        raise ConfigError(f"backbone {name!r} must have pretrained weights; got none. {what}.")
    if "stem" in defaults:
        options = {"stem": "imagenet", **options}
    return create(name, 1000, shape, options)


def folded(net: nn.Module) -> nn.Module:
    """The same function with each norm folded into the convolution right before it: a quarter faster on a CPU."""
    for module in net.modules():
        if not isinstance(module, nn.Sequential) or type(module).forward is not nn.Sequential.forward:
            continue
        for first, second in pairwise(list(module._modules)):
            conv, norm = module._modules[first], module._modules[second]
            if type(conv) is nn.Conv2d and type(norm) is nn.BatchNorm2d and norm.track_running_stats:
                module._modules[first] = fuse_conv_bn_eval(conv, norm)
                module._modules[second] = nn.Identity()
    return net


def _digest(net: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, tensor in net.state_dict().items():
        digest.update(f"{name} {list(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
