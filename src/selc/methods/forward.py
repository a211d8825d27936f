"""Patrini, Rozza, Menon, Nock and Qu: Making Deep Neural Networks Robust to Label Noise: a Loss Correction Approach.
CVPR 2017 (the forward correction)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from selc.errors import ConfigError
from selc.memory.store import Store
from selc.methods.base import METHODS, Method, Train
from selc.methods.noisy_validation import BestEpoch, check_held_out, check_leaves_rows, hold_out
from selc.types import Batch, Outcome, StagePlan, TrainSet

Matrix = tuple[tuple[float, ...], ...]
FLOOR = 1e-12  # least entry of the matrix: the logarithm stays finite where a label can never be given
ROUNDING = 1e-3  # by which a row of a given matrix may miss one


@METHODS.register("forward")
class Forward(Method):
    """Forward correction: predictions pass through the transition matrix before they are compared with the label.

        L = -log sum_j p_j T_jy      T_jk = P(given = k | true = j)

    ``matrix`` is T, a row for each true class, or "auto": then a network is trained with CE and, for each class, its
    prediction on the sample that is the surest of that class (after ``outliers``, a share of the class, have been left
    out) is a row of T. It is taken at the epoch with the lowest loss on ``held_out``, a share of the noisy rows that
    neither stage trains on. A fresh network, or with ``init`` "from-ce" that of CE, is then trained with the corrected
    loss.

    Deviations: the last epoch of the corrected training counts, as for every method; the authors choose that one by
    held-out rows too. Their code leaves out 3 % of all samples (none on CIFAR-100), which is 0.3 of a class where there
    are ten.
    """

    family = "matrix"
    needs = "transition matrix (estimated)"
    cost = 2.1
    transition: Tensor

    def __init__(
        self,
        *,
        matrix: Matrix | Literal["auto"] = "auto",
        held_out: float = 0.1,
        outliers: float = 0.3,
        init: Literal["scratch", "from-ce"] = "scratch",
    ) -> None:
        super().__init__()
        if isinstance(matrix, str) and matrix != "auto":
            raise ConfigError(f"matrix must be a list of rows or 'auto'; got {matrix!r}.")
        if not isinstance(matrix, str):
            _check_matrix(matrix)
        if not 0 <= outliers < 1:
            raise ConfigError(f"outliers must be in [0, 1), a share of a class; got {outliers}.")
        if init not in ("scratch", "from-ce"):
            raise ConfigError(f"init must be 'scratch' or 'from-ce'; got {init!r}.")
        self.matrix, self.held_out, self.outliers, self.init = matrix, check_held_out(held_out), outliers, init

    def check(self, data: TrainSet, plan: StagePlan) -> str | None:
        if self._needs_ce():
            check_leaves_rows(data, self.held_out)
        if not isinstance(self.matrix, str) and len(self.matrix) != data.num_classes:
            raise ConfigError(
                f"matrix must have a row and a column for each of the {data.num_classes} classes; "
                f"got {len(self.matrix)} rows. Row j holds P(given = k | true = j)."
            )
        return None

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        known = torch.eye(data.num_classes) if isinstance(self.matrix, str) else torch.tensor(self.matrix)
        self.register_buffer("transition", known.float().clamp_min(FLOOR))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        with torch.autocast(outputs.device.type, enabled=False):  # a product of probabilities needs all its digits
            q = self.probs(outputs) @ self.transition  # at least FLOOR, so its logarithm is finite
        return -(batch.target * q.log()).sum(dim=1)

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        if not self._needs_ce():
            return train(self, data)
        judges, data = hold_out(data, self.held_out, "forward", train.seed)
        plain = BestEpoch(judges, by="loss")
        predicted = train(plain, data).target
        matrix = self.matrix
        if isinstance(matrix, str):
            estimate = anchored(predicted, data, self.outliers)
            matrix = tuple(tuple(row) for row in estimate.tolist())
        return train(Forward(matrix=matrix), data, model=plain.best if self.init == "from-ce" else None)

    def _needs_ce(self) -> bool:
        """Whether a training with CE comes first."""
        return self.init == "from-ce" or isinstance(self.matrix, str)


def anchored(probs: Store, data: TrainSet, outliers: float) -> Tensor:
    """The transition matrix as predictions show it on the surest sample of each class, [C, C]; rows sum to one."""
    rows = torch.arange(len(data), device=data.labels.hard.device) if data.rows is None else data.rows
    sizes = torch.bincount(data.labels.hard[rows], minlength=data.num_classes).tolist()
    p = probs.full()[rows]
    surest = [
        int(p[:, j].topk(min(int(outliers * size), len(rows) - 1) + 1).indices[-1]) for j, size in enumerate(sizes)
    ]
    matrix = p[surest].cpu().double()
    return matrix / matrix.sum(dim=1, keepdim=True)


def _check_matrix(matrix: Matrix) -> None:
    for number, row in enumerate(matrix):
        if len(row) != len(matrix):
            raise ConfigError(f"matrix must be square; got {len(row)} numbers in row {number} of {len(matrix)}.")
        if not all(entry >= 0 for entry in row) or not abs(sum(row) - 1) <= ROUNDING:
            raise ConfigError(
                f"a row of matrix must be probabilities that sum to one; got {list(row)} in row {number}. Row j holds "
                "P(given = k | true = j); if the columns sum to one, transpose it."
            )
    if not matrix:
        raise ConfigError("matrix must have a row for each class, or be 'auto'; got an empty list.")
