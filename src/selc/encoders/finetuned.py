"""An encoder as a network that is trained on: its features and a new head, the encoder at a smaller rate.

J. Yosinski et al., How transferable are features in deep neural networks?, NeurIPS 2014: features that start from
others and go on being trained beat both features that stay and a network from scratch. The network takes images as any
other one does, so that the loop, the run folder, resume and several processes are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selc.data import Bundle, ImageInputs, Recipe
from selc.data.sources.recognise import suits
from selc.encoders.base import ENCODERS, NONE
from selc.encoders.network import Statistics
from selc.errors import ConfigError
from selc.nets import NETS
from selc.nets.base import join

NAME = "finetuned"
RATE = 0.1  # of the encoder, as a part of that of the head: a usual choice, not measured here
FEWEST_EPOCHS, SHARE = 10, 0.25  # of the epochs that a network from scratch would have
IMAGES_HAVE = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)  # where nobody says otherwise


class Seen(nn.Module):
    """Normalised images as an encoder wants to see them, and what it says of them."""

    factor: Tensor  # [3, 1, 1]
    offset: Tensor

    def __init__(self, net: nn.Module, size: int, has: Statistics, wants: Statistics, rate: float) -> None:
        super().__init__()
        self.net, self.size, self.rate_factor = net, size, rate
        (mean, std), (their_mean, their_std) = (tuple(map(torch.tensor, each)) for each in (has, wants))
        self.register_buffer("factor", (std / their_std).view(3, 1, 1))
        self.register_buffer("offset", ((mean - their_mean) / their_std).view(3, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        if tuple(x.shape[2:]) != (self.size, self.size):
            x = F.interpolate(x.float(), (self.size, self.size), mode="bilinear", align_corners=False, antialias=True)
        features: Tensor = self.net(x * self.factor + self.offset)
        return features.flatten(1)


@NETS.beside(NAME)
def finetuned(
    num_classes: int,
    shape: tuple[int, ...],
    *,
    encoder: str = "",
    path: str = "",
    size: int = 0,
    mean: tuple[float, ...] = IMAGES_HAVE[0],
    std: tuple[float, ...] = IMAGES_HAVE[1],
    rate: float = RATE,
) -> nn.Module:
    """An encoder and a head: ``mean`` and ``std`` are what images were normalised by, ``rate`` that of the encoder."""
    if not encoder or encoder == NONE or encoder not in ENCODERS:
        raise ConfigError(f"net {NAME!r} needs an encoder by name; got {encoder!r}. See `selc list encoders`.")
    if len(shape) != 3 or shape[0] != 3 or len(mean) != 3 or len(std) != 3:
        raise ConfigError(f"net {NAME!r} needs colour images [3, height, width]; got inputs of shape {list(shape)}.")
    if not 0 <= rate <= 1:
        raise ConfigError(f"rate must be from 0 (the encoder stays) to 1 (that of the head); got {rate}.")
    options = {key: value for key, value in {"path": path, "size": size}.items() if value}
    on_meta = torch.empty(0).is_meta  # only shapes are asked for
    with torch.device("cpu"):
        made = ENCODERS[encoder](max(shape[1:]), **ENCODERS.checked(encoder, options))
        body = Seen(made.net, made.size, (mean, std), made.statistics, rate)
        with torch.no_grad():
            dims = body.eval()(torch.zeros(1, *shape)).shape[1]
    body.train()
    if rate == 0:
        body.requires_grad_(False)
    return join(body.to("meta") if on_meta else body, nn.Linear(dims, num_classes))


def finetuning(found: Bundle, encoder: Mapping[str, Any]) -> tuple[dict[str, Any], Recipe]:
    """The section ``net`` of a configuration that fine-tunes on images, and settings that suit it."""
    inputs = found.inputs
    if not isinstance(inputs, ImageInputs) or found.shape[0] != 3:
        raise ConfigError(
            f"--finetune needs images: a folder, a table or a dataset of such; got inputs of shape {list(found.shape)}."
        )
    if encoder["name"] == NONE:
        raise ConfigError("--finetune needs a trained encoder; got none. Install one: pip install 'selc[pretrained]'.")
    options = {key: value for key, value in encoder.items() if key not in ("name", "flip")}
    view = inputs.view
    net = {"name": NAME, "encoder": encoder["name"], **options, "mean": [*view.mean], "std": [*view.std]}
    plain = suits(len(found.labels), min(found.shape[1:]))
    epochs = max(FEWEST_EPOCHS, round(SHARE * plain.plan["epochs"]))
    return net, Recipe(NAME, {**plain.plan, "epochs": epochs})
