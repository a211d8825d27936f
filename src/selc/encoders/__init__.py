"""Encoders: trained networks that turn images into features (docs/encoders.md)."""

import pkgutil
from importlib import import_module

from selc.encoders.base import ENCODERS, NONE, best, choice_of, create
from selc.encoders.encoding import Encoding, encode, unencoded
from selc.encoders.network import Encoder, Trained

for _module in pkgutil.iter_modules(__path__):  # a file with an encoder registers it when it is imported
    import_module(f"{__name__}.{_module.name}")

__all__ = ["ENCODERS", "NONE", "Encoder", "Encoding", "Trained", "best", "choice_of", "create", "encode", "unencoded"]
