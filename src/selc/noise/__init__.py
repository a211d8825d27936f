"""Noise models: pure functions of labels, a number of classes and a generator."""

from selc.noise.asymmetric_cifar import asymmetric_cifar10, asymmetric_cifar100
from selc.noise.base import NOISES, Noise, Supply, draw_noise
from selc.noise.class_conditional import class_map, matrix, none, pair, symmetric
from selc.noise.hybrid import hybrid
from selc.noise.label_file import from_file
from selc.noise.part import part
from selc.noise.pmd import pmd
from selc.noise.seal import seal

__all__ = [
    "NOISES",
    "Noise",
    "Supply",
    "asymmetric_cifar10",
    "asymmetric_cifar100",
    "class_map",
    "draw_noise",
    "from_file",
    "hybrid",
    "matrix",
    "none",
    "pair",
    "part",
    "pmd",
    "seal",
    "symmetric",
]
