"""A trained network without its head, ready to be asked for features."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from selc.errors import ConfigError
from selc.nets import own

Array = np.ndarray[Any, np.dtype[Any]]
Statistics = tuple[tuple[float, ...], tuple[float, ...]]  # mean and standard deviation of red, green, blue in [0, 1]
IMAGENET: Statistics = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Trained:
    """What an entry of the registry makes: a network, and how it wants to see images."""

    net: nn.Module  # images [B, 3, H, W] to features [B, D]
    size: int  # pixels a side at which images are shown
    statistics: Statistics = IMAGENET
    flip: bool = False  # the mean over an image and its mirror image


class Encoder:
    """A trained network that is asked for features of images with values in [0, 1]."""

    def __init__(self, name: str, made: Trained, device: torch.device, batch: int | None = None) -> None:
        if batch is not None and batch < 1:
            raise ConfigError(f"batch must be at least 1; got {batch}.")
        self.name, self.size, self.flip, self.device = name, made.size, made.flip, device
        self.mean, self.std = made.statistics
        self.batch = batch or (16 if device.type == "cpu" else 256)  # on a CPU, what fits its cache is fastest
        net = copy.deepcopy(made.net).eval()
        self.weights = _digest(net)
        self.net = folded(net).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        outputs = own.try_out(self.net, (3, self.size, self.size), f"encoder {name!r}")
        if not isinstance(outputs, list) or len(outputs) != 2:
            raise ConfigError(f"encoder {name!r} must map images to features [B, D]; got {outputs}.")
        self.dims = outputs[1]

    @property
    def digest(self) -> str:
        """A hash of all that a feature depends on beside the image."""
        text = f"{self.weights} {self.mean} {self.std} {self.size} {self.flip}"
        return hashlib.sha256(text.encode()).hexdigest()

    def features(self, images: Tensor) -> Array:
        """Features [B, D] of images [B, K, H, W] with values in [0, 1]; a grey one becomes three equal channels."""
        mean, std = (torch.tensor(values, device=images.device).view(3, 1, 1) for values in (self.mean, self.std))
        x = ((images - mean) / std).contiguous(memory_format=torch.channels_last)
        with torch.inference_mode():
            found = self.net(x).float()
            if self.flip:
                found = (found + self.net(x.flip(3)).float()) / 2
        result: Array = found.cpu().numpy()
        return result


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
