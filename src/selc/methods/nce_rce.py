"""Ma, Huang, Wang, Romano, Erfani and Bailey: Normalized Loss Functions for Deep Learning with Noisy Labels.
ICML 2020."""

from __future__ import annotations

from torch import Tensor

from selc.errors import ConfigError
from selc.methods.base import METHODS, Method, Train
from selc.methods.sce import LOG_ZERO, check_weights, reverse_cross_entropy
from selc.types import Batch, Outcome, TrainSet


@METHODS.register("nce+rce")
class NCEandRCE(Method):
    """Normalised cross entropy, which learns actively, plus reverse cross entropy, which learns passively.

        NCE = log p_y / sum_c log p_c      RCE = -A (1 - p_y)      L = alpha NCE + beta RCE

    Gradients are clipped to a norm of ``clip_norm`` (0: not), whatever the settings of the run say.

    Deviations: soft targets give the expectation over the target. The defaults are the authors' for CIFAR-10; they
    use alpha 10 and beta 0.1 for CIFAR-100, and alpha 50 and beta 0.1 for WebVision.
    """

    cost = 1.9  # clipping reads every gradient once more
    parallel = True

    def __init__(
        self, *, alpha: float = 1.0, beta: float = 1.0, log_zero: float = LOG_ZERO, clip_norm: float = 5.0
    ) -> None:
        super().__init__()
        check_weights(alpha, beta, log_zero)
        if not clip_norm >= 0:
            raise ConfigError(f"clip_norm must be at least 0; got {clip_norm}. The authors use 5; 0 does not clip.")
        self.alpha, self.beta, self.log_zero, self.clip_norm = alpha, beta, log_zero, clip_norm

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        log_p = self.log_probs(outputs)
        # Both sums are negative; that of all classes is at most -C log C, so nothing is divided by zero.
        normalised = (batch.target * log_p).sum(dim=1) / log_p.sum(dim=1)
        return self.alpha * normalised + self.beta * reverse_cross_entropy(log_p.exp(), batch.target, self.log_zero)

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        return train(self, data, clip_norm=self.clip_norm)
