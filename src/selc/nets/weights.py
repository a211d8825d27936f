"""Published weights: from a safetensors file, or from torchvision or timm where they import. Nothing is unpickled."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from selc._io.files import read_tensors
from selc.errors import ConfigError, RunFolderError

log = logging.getLogger("selc")
HEAD = ("head.weight", "head.bias")


@dataclass(frozen=True)
class Published:
    """Where the weights of a network are published, and what their tensors are called there."""

    name: str  # of the network, with us
    rename: Callable[[str], str]  # their name of a tensor -> ours
    torchvision: str | None = None  # their name of the network
    timm: str | None = None


def with_weights(net: nn.Module, weights: str, published: Published) -> nn.Module:
    """``net`` with ``weights``: "none", "torchvision", "timm", or the path of a safetensors file."""
    on_meta = any(p.is_meta for p in net.parameters())
    if weights == "none":
        return net
    if weights in ("torchvision", "timm"):
        library = _library(weights, published)
        if on_meta:  # only the shape of a network is asked for: fetch nothing
            return net
        state = _fetch(library, weights, published)
    else:
        state = _read(weights)
    fill(net, state, published.rename, f"weights {weights!r} of net {published.name!r}")
    return net


def fill(net: nn.Module, state: Mapping[str, Tensor], rename: Callable[[str], str], what: str) -> None:
    """Copy ``state`` into ``net``, all of it and by name; only a head for other classes is left out, and that is said.

    Tensors may have our names or, after ``rename``, theirs.
    """
    own = net.state_dict()
    given = {key if key in own else rename(key): tensor for key, tensor in state.items()}
    counters = {key for key in own if key.endswith("num_batches_tracked")}  # old files lack them; nothing needs them
    given |= {key: own[key] for key in counters - set(given)}
    if any(key not in given or given[key].shape != own[key].shape for key in HEAD):
        has = f"{len(given[HEAD[0]])} outputs" if HEAD[0] in given else "no head"
        if not own[HEAD[0]].is_meta:
            log.warning("%s: it has %s, %d are needed; the head starts fresh.", what, has, len(own[HEAD[0]]))
        given |= {key: own[key] for key in HEAD}
    if strange := sorted(set(given) - set(own)):
        raise ConfigError(f"{what} must be of that network; got a tensor {strange[0]!r} that it does not have.")
    if missing := sorted(set(own) - set(given)):
        raise ConfigError(f"{what} must be complete; got no tensor for {missing[0]!r} ({len(missing)} are missing).")
    for key, tensor in own.items():
        if given[key].dim() == 4 and tensor.dim() == 2:
            given[key] = given[key].flatten(1)  # timm's VGG has its hidden layers as convolutions
        if given[key].shape != tensor.shape:
            hint = _hint(given[key].shape, tensor.shape)
            raise ConfigError(
                f"{what} must fit it; got {list(given[key].shape)} for {key!r}, which is {list(tensor.shape)}. {hint}"
            )
    if not any(tensor.is_meta for tensor in own.values()):
        net.load_state_dict(given)


def _hint(theirs: torch.Size, ours: torch.Size) -> str:
    """What may be wrong where a tensor does not fit."""
    if len(theirs) == len(ours) == 4 and theirs[1] != ours[1]:
        return f"Do the images have {theirs[1]} channels?"
    if len(theirs) == len(ours) == 4 and theirs[2:] != ours[2:]:
        return "Set net.stem=imagenet (weights for large images) or net.stem=cifar."
    return "Are they of the same network, with the same options?"


def _read(path: str) -> dict[str, Tensor]:
    if not Path(path).is_file() or Path(path).suffix != ".safetensors":
        raise ConfigError(
            f"weights must be none, torchvision, timm or the path of a .safetensors file; got {path!r}. "
            "Convert other files with safetensors.torch.save_file(state_dict, path)."
        )
    try:
        return read_tensors(Path(path))
    except RunFolderError as error:
        raise ConfigError(str(error)) from None


def _library(name: str, published: Published) -> Any:
    """torchvision or timm, or an error that says what is missing."""
    if getattr(published, name) is None:
        others = [other for other in ("torchvision", "timm") if getattr(published, other)]
        raise ConfigError(f"weights of net {published.name!r} must come from {' or '.join(others)}; got {name!r}.")
    try:
        return importlib.import_module("torchvision.models" if name == "torchvision" else "timm")
    except (ImportError, RuntimeError) as error:  # RuntimeError: a torchvision that was built for another torch
        raise ConfigError(
            f"weights={name} needs {name}; got: {error}. Install the {name} that fits your torch, "
            "or give the path of a .safetensors file."
        ) from None


def _fetch(library: Any, name: str, published: Published) -> dict[str, Tensor]:
    """Download the weights, or take them from the library's cache."""
    try:
        # The draws of the network that is thrown away must not move the draws of ours.
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            if name == "torchvision":
                # The first published ones: what papers before 2022 call "pretrained on ImageNet".
                entry = library.get_model_weights(published.torchvision).IMAGENET1K_V1
                state = entry.get_state_dict(progress=False, check_hash=True, weights_only=True)
            else:
                state = library.create_model(published.timm, pretrained=True).state_dict()
            return dict(state)
    except Exception as error:  # whatever their downloads raise: no connection, a broken file, no space
        raise ConfigError(
            f"weights={name} must be downloadable; got {type(error).__name__}: {error}. "
            "Give the path of a .safetensors file instead."
        ) from error
