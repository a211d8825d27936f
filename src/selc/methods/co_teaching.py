"""Han et al.: Co-teaching: Robust Training of Deep Neural Networks with Extremely Noisy Labels. NeurIPS 2018."""

from __future__ import annotations

import math

from torch import Tensor, nn

from selc.core.loss import soft_cross_entropy
from selc.errors import ConfigError
from selc.methods.base import METHODS, Method, Net
from selc.methods.parts import Pair
from selc.types import Batch


@METHODS.register("co-teaching")
class CoTeaching(Method):
    """Two networks; each learns from the samples on which the other has a small loss.

        keep = 1 - forget_rate min(epoch / ramp, 1)
        L = mean CE(net 1, small of net 2) + mean CE(net 2, small of net 1)

    Deviations: the mean is taken once (the authors' code divides by the number of kept samples twice), training
    begins with epoch 0, the ramp is the paper's (their code spreads it over ramp - 1 epochs), and predictions are the
    mean of the two networks'. ``forget_rate`` should be near the noise rate, which the method cannot find by itself.
    """

    family = "two networks"

    def __init__(self, *, forget_rate: float = 0.2, ramp: int = 10) -> None:
        super().__init__()
        if not 0 <= forget_rate < 1:
            raise ConfigError(
                f"forget_rate must be in [0, 1); got {forget_rate}. It is the share of samples to leave out."
            )
        if ramp < 1:
            raise ConfigError(f"ramp must be at least 1 epoch; got {ramp}. The paper uses 10.")
        self.forget_rate, self.ramp = forget_rate, ramp

    def build(self, net: Net, num_classes: int) -> nn.Module:
        return Pair(net(num_classes), net(num_classes))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        losses = soft_cross_entropy(outputs, batch.target)  # [2, B]
        forget = self.forget_rate * min(int(batch.clock) / self.ramp, 1.0)
        keep = max(1, int((1 - forget) * losses.shape[1]))  # never nobody
        small = losses.detach().argsort(dim=1, stable=True)[:, :keep]
        return losses.gather(1, small.flip(0)).mean(dim=1).sum()

    def log_probs(self, outputs: Tensor) -> Tensor:
        return super().log_probs(outputs).logsumexp(dim=0) - math.log(2)
