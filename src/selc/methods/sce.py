"""Wang, Ma, Chen, Luo, Yi and Bailey: Symmetric Cross Entropy for Robust Learning with Noisy Labels. ICCV 2019."""

from __future__ import annotations

import math

from torch import Tensor

from selc.errors import ConfigError
from selc.losses.cross_entropy import soft_cross_entropy
from selc.methods.base import METHODS, Method
from selc.types import Batch

LOG_ZERO = math.log(1e-4)  # what the authors' code puts in the place of log 0


def reverse_cross_entropy(p: Tensor, target: Tensor, log_zero: float) -> Tensor:
    """-sum_c p_c log y_c of each sample, [B], where log 1 = 0 and log 0 = ``log_zero``; the mean over soft targets."""
    return -log_zero * (1 - (target * p).sum(dim=1))


def check_weights(alpha: float, beta: float, log_zero: float) -> None:
    if not (alpha >= 0 and beta >= 0 and alpha + beta > 0):
        raise ConfigError(f"alpha and beta must be at least 0, and one of them more; got {alpha} and {beta}.")
    if not log_zero < 0:
        raise ConfigError(f"log_zero must be below 0; got {log_zero}. It stands for log 0; the authors use -9.21.")


@METHODS.register("sce")
class SCE(Method):
    """Cross entropy plus reverse cross entropy, in which label and prediction change places.

        L = alpha H(y, p) + beta H(p, y)      H(p, y) = -A (1 - p_y)      with A in the place of log 0

    Deviations: soft targets t give the expectation over the target, -A (1 - <t, p>). The defaults are the authors'
    for CIFAR-10; for CIFAR-100 they use alpha 6 and beta 0.1.
    """

    parallel = True

    def __init__(self, *, alpha: float = 0.1, beta: float = 1.0, log_zero: float = LOG_ZERO) -> None:
        super().__init__()
        check_weights(alpha, beta, log_zero)
        self.alpha, self.beta, self.log_zero = alpha, beta, log_zero

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        reverse = reverse_cross_entropy(self.probs(outputs), batch.target, self.log_zero)
        return self.alpha * soft_cross_entropy(outputs, batch.target) + self.beta * reverse
