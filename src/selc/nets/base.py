"""The registry of networks, and what they share: features and a head, apart."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from selc.errors import ConfigError
from selc.nets import own
from selc.registry import Registry, is_import

Builder = Callable[..., nn.Module]


class NetRegistry(Registry[Builder]):
    """Networks by name; ``import:package.module:attribute`` names one of the user's own."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self._beside: dict[str, Builder] = {}

    def beside(self, name: str) -> Callable[[Builder], Builder]:
        """A decorator for a network that no person names: a command makes its section, and it is not listed."""

        def add(builder: Builder) -> Builder:
            self._beside[name] = builder
            return builder

        return add

    def __contains__(self, name: object) -> bool:
        return name in self._beside or super().__contains__(name)

    def __getitem__(self, name: str) -> Builder:
        if name in self._beside:
            return self._beside[name]
        try:
            return super().__getitem__(name)
        except ConfigError as error:
            if ":" not in name and "." not in name:
                raise
            raise ConfigError(
                f"{error.for_command} A network of your own is import:package.module:attribute; a classifier of "
                "scikit-learn (sklearn:NAME) goes to `selc train` or to SELCClassifier(module=...)."
            ) from None

    def describe(self, name: str) -> str:
        return own.describe(name) if is_import(name) else super().describe(name)

    def defaults(self, name: str) -> dict[str, Any]:
        return {} if is_import(name) else super().defaults(name)

    def checked(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        return own.checked(name, options) if is_import(name) else super().checked(name, options)


NETS = NetRegistry("net")
NETS.imports(lambda name: functools.partial(own.build, name))
SMALLEST: dict[str, int] = {}  # least height and width in pixels; networks for any shape are not in it


def create(
    name: str,
    num_classes: int,
    shape: tuple[int, ...] = (3, 32, 32),
    options: Mapping[str, Any] | None = None,
) -> nn.Module:
    """A fresh network for inputs of ``shape``, without the batch dimension.

    ``name`` is a registered one, or ``import:package.module:attribute`` for a network of your own.
    """
    if num_classes < 1:
        raise ConfigError(f"num_classes must be at least 1; got {num_classes}.")
    return NETS[name](num_classes, tuple(shape), **NETS.checked(name, options or {}))


def image_net(name: str, smallest: int) -> Callable[[Builder], Builder]:
    """Register a network for images of at least ``smallest`` pixels a side; other inputs get an error."""

    def register(builder: Builder) -> Builder:
        @functools.wraps(builder)
        def build(num_classes: int, shape: tuple[int, ...], **options: Any) -> nn.Module:
            check_images(f"net {name!r}", shape, smallest)
            return builder(num_classes, shape, **options)

        SMALLEST[name] = smallest
        return NETS.register(name)(build)

    return register


def check_images(what: str, shape: tuple[int, ...], smallest: int) -> None:
    """Complain if inputs of ``shape`` are not images of at least ``smallest`` pixels a side."""
    side = min(shape[1:]) if len(shape) == 3 else 0
    if side >= smallest:
        return
    instead = next((name for name in ("resnet18", "cnn") if SMALLEST.get(name, smallest) <= side), "mlp")
    raise ConfigError(
        f"{what} needs images [channels, height, width] of at least {smallest} x {smallest}; "
        f"got inputs of shape {list(shape)}. Use --net {instead}."
    )


def join(features: nn.Module, head: nn.Linear) -> nn.Module:
    """A network of two plain parts: ``features`` -> [B, D], then ``head`` -> [B, C]."""
    return nn.Sequential(OrderedDict(features=features, head=head))
