"""Encoders by name: what makes features of images, where its weights come from, and what may be done with them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from selc.encoders.network import Encoder, Trained
from selc.errors import ConfigError, unknown
from selc.nets import NETS, own
from selc.nets import create as create_net
from selc.registry import Registry, is_import

Builder = Callable[..., Trained]
NONE = "none"  # inputs are what the data are
DIRECTORY = "directory"  # the encoder that reads one in Hugging Face's format
SMALL_IMAGES, SHOWN_SMALL = 128, 128  # pixels: images up to this side are shown at this size
# What published weights were trained with, where it is not the statistics of ImageNet.
OTHERS = {"inception-resnet-v2": ((0.5,) * 3, (0.5,) * 3)}


class About(NamedTuple):
    """What a person should know of an encoder."""

    licence: str  # of its weights
    source: str
    install: str  # what brings it
    there: Callable[[], bool]  # whether it can be used now
    rank: int = 0  # of those that need no word from the user, the highest is taken; 0: never by itself


class EncoderRegistry(Registry[Builder]):
    """Encoders by name; also any network of `selc.nets` with pretrained weights, and ``import:module:attribute``."""

    def __init__(self) -> None:
        super().__init__("encoder")
        self.about: dict[str, About] = {}
        self.imports(lambda name: functools.partial(_own, name))

    def add(self, name: str, about: About) -> Callable[[Builder], Builder]:
        self.about[name] = about
        return self.register(name)

    def __getitem__(self, name: str) -> Builder:
        if name in self._entries or is_import(name):
            return super().__getitem__(name)
        if name in NETS:
            return functools.partial(_of_net, name)
        raise unknown(self.what, name, [NONE, *self._entries])

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and name in NETS)

    def checked(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        if name in self._entries:
            return super().checked(name, options)
        plain = {key: value for key, value in options.items() if key in ("size", "flip")}
        rest = {key: value for key, value in options.items() if key not in plain}
        return super().checked(name, plain) | (own.checked if is_import(name) else NETS.checked)(name, rest)


ENCODERS = EncoderRegistry()


def best() -> str | None:
    """The best encoder that is installed; None if there is none."""
    ranked = sorted(ENCODERS.about, key=lambda name: ENCODERS.about[name].rank, reverse=True)
    return next((name for name in ranked if ENCODERS.about[name].rank and ENCODERS.about[name].there()), None)


def choice_of(name: str) -> dict[str, Any]:
    """The section of a configuration for what a user typed: a name, or the path of a directory."""
    if name == NONE or name in ENCODERS:
        return {"name": name}
    if os.sep in name or Path(name).expanduser().is_dir():
        return {"name": DIRECTORY, "path": str(Path(name).expanduser().resolve())}
    raise unknown("encoder", name, [NONE, *ENCODERS])


def create(name: str, options: Mapping[str, Any], side: int, device: torch.device, batch: int | None = None) -> Encoder:
    """The encoder for images whose longer side has ``side`` pixels."""
    return Encoder(name, ENCODERS[name](side, **ENCODERS.checked(name, options)), device, batch)


def shown_at(size: int, side: int, natural: int) -> int:
    """Pixels at which images are shown: as asked for, else a small size for small images, else what it was made for."""
    if size and size < 32:
        raise ConfigError(f"size must be at least 32 pixels; got {size}.")
    return size or (SHOWN_SMALL if side <= SMALL_IMAGES else natural)


def body(net: nn.Module) -> nn.Module:
    """The part of a network that makes features, where it has one."""
    features = getattr(net, "features", None)
    return features if isinstance(features, nn.Module) else net


def _own(name: str, side: int, *, size: int = 0, flip: bool = False, **options: Any) -> Trained:
    shown = shown_at(size, side, 224)
    return Trained(body(own.make(name, 1000, (3, shown, shown), **options)), shown, flip=flip)


def _of_net(name: str, side: int, *, size: int = 0, flip: bool = False, **options: Any) -> Trained:
    """A network of `selc.nets` with the pretrained weights that are asked for."""
    defaults = NETS.defaults(name)
    if {**defaults, **options}.get("weights", "none") == "none":
        known = [other for other in NETS if "weights" in NETS.defaults(other)]
        what = "Say which, by --weights" if name in known else f"Take one of {', '.join(known)}"
        raise ConfigError(f"backbone {name!r} must have pretrained weights; got none. {what}.")
    if "stem" in defaults:
        options = {"stem": "imagenet", **options}
    shown = shown_at(size, side, 224)
    net = create_net(name, 1000, (3, shown, shown), options)
    return Trained(body(net), shown, OTHERS.get(name, Trained.statistics), flip)
