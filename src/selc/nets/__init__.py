"""Networks by name: ``create(name, num_classes, shape)``."""

from selc.nets.base import NETS, create
from selc.nets.small import cnn, mlp

__all__ = ["NETS", "cnn", "create", "mlp"]
