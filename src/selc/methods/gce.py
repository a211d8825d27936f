"""Zhang and Sabuncu: Generalized Cross Entropy Loss for Training Deep Neural Networks with Noisy Labels.
NeurIPS 2018."""

from __future__ import annotations

from torch import Tensor

from selc.errors import ConfigError
from selc.methods.base import METHODS, Method
from selc.types import Batch


@METHODS.register("gce")
class GCE(Method):
    """Generalised cross entropy, between cross entropy (q -> 0) and mean absolute error (q = 1).

        L = (1 - p_y^q) / q

    Deviations: soft targets t give sum_c t_c (1 - p_c^q) / q. p^q is computed as exp(q log p), whose
    derivative is finite at p = 0. The truncated variant is a method of its own.
    """

    parallel = True

    def __init__(self, *, q: float = 0.7) -> None:
        super().__init__()
        if not 0 < q <= 1:
            raise ConfigError(f"q must be in (0, 1]; got {q}. The paper uses 0.7.")
        self.q = q

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        p_to_q = (self.q * self.log_probs(outputs)).exp()
        return (batch.target * (1 - p_to_q)).sum(dim=1) / self.q
