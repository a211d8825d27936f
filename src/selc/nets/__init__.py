"""Networks by name: ``create(name, num_classes, shape)``."""

from selc.nets.base import NETS, SMALLEST, create
from selc.nets.efficientnet import efficientnet_lite0
from selc.nets.inception import inception_resnet_v2
from selc.nets.preact_resnet import preact_resnet18, preact_resnet34, preact_resnet34_authors
from selc.nets.resnet import resnet18, resnet34, resnet50
from selc.nets.small import cnn, mlp
from selc.nets.vgg import vgg19_bn
from selc.nets.wide_resnet import wrn_28_2, wrn_28_10

__all__ = [
    "NETS",
    "SMALLEST",
    "cnn",
    "create",
    "efficientnet_lite0",
    "inception_resnet_v2",
    "mlp",
    "preact_resnet18",
    "preact_resnet34",
    "preact_resnet34_authors",
    "resnet18",
    "resnet34",
    "resnet50",
    "vgg19_bn",
    "wrn_28_2",
    "wrn_28_10",
]
