"""Patrini, Rozza, Menon, Nock and Qu: Making Deep Neural Networks Robust to Label Noise: a Loss Correction Approach.
CVPR 2017 (the forward correction)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from selc.core.store import Store
from selc.errors import ConfigError
from selc.methods.base import METHODS, Method, Train
from selc.methods.ce import CE
from selc.methods.parts import epochs_of
from selc.methods.watch import estimated_rate, found
from selc.types import Batch, Outcome, Seen, TrainSet

Matrix = tuple[tuple[float, ...], ...]
FLOOR = 1e-12  # least entry of the matrix: the logarithm stays finite where a label can never be given
ROUNDING = 1e-3  # by which a row of a given matrix may miss one


@METHODS.register("forward")
class Forward(Method):
    """Forward correction: predictions pass through the transition matrix before they are compared with the label.

        L = -log sum_j p_j T_jy      T_jk = P(given = k | true = j)

    ``matrix`` is T, a row for each true class, or "auto": then a network is trained with CE for ``ce_epochs`` and, for
    each class, its prediction on the sample that is the surest of that class (after ``outliers``, a share of the
    class, have been left out) is a row of T. A fresh network, or with ``init`` "from-ce" the same one, is then trained
    with the corrected loss.

    Deviations: CE trains to its turning point; the authors keep the epoch with the lowest loss on noisy validation
    samples. Their code leaves out 3 % of all samples (none on CIFAR-100), which is 0.3 of a class where there are ten.
    """

    family = "matrix"
    needs = "transition matrix (estimated)"
    cost = 1.1
    parallel = True
    epochs: int = 200  # of the run; `check` is told
    transition: Tensor

    def __init__(
        self,
        *,
        matrix: Matrix | Literal["auto"] = "auto",
        ce_epochs: float | Literal["auto", "all"] = "auto",
        outliers: float = 0.3,
        init: Literal["scratch", "from-ce"] = "scratch",
    ) -> None:
        super().__init__()
        if isinstance(matrix, str) and matrix != "auto":
            raise ConfigError(f"matrix must be a list of rows or 'auto'; got {matrix!r}.")
        if not isinstance(matrix, str):
            _check_matrix(matrix)
        if isinstance(ce_epochs, str) and ce_epochs not in ("auto", "all"):
            raise ConfigError(f"ce_epochs must be a share of the epochs, a number, 'auto' or 'all'; got {ce_epochs!r}.")
        if not isinstance(ce_epochs, str) and not ce_epochs > 0:
            raise ConfigError(f"ce_epochs must be above 0; got {ce_epochs}.")
        if not 0 <= outliers < 1:
            raise ConfigError(f"outliers must be in [0, 1), a share of a class; got {outliers}.")
        if init not in ("scratch", "from-ce"):
            raise ConfigError(f"init must be 'scratch' or 'from-ce'; got {init!r}.")
        self.matrix, self.ce_epochs, self.outliers, self.init = matrix, ce_epochs, outliers, init

    def check(self, data: TrainSet, epochs: int, batch_size: int) -> str | None:
        self.epochs = epochs
        if not isinstance(self.matrix, str) and len(self.matrix) != data.num_classes:
            raise ConfigError(
                f"matrix must have a row and a column for each of the {data.num_classes} classes; "
                f"got {len(self.matrix)} rows. Row j holds P(given = k | true = j)."
            )
        return None

    def setup(self, data: TrainSet) -> None:
        known = torch.eye(data.num_classes) if isinstance(self.matrix, str) else torch.tensor(self.matrix)
        self.register_buffer("transition", known.float().clamp_min(FLOOR))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        with torch.autocast(outputs.device.type, enabled=False):  # a product of probabilities needs all its digits
            q = self.probs(outputs) @ self.transition  # at least FLOOR, so its logarithm is finite
        return -(batch.target * q.log()).sum(dim=1)

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        if self.init == "scratch" and not isinstance(self.matrix, str):
            return train(self, data)
        plain = self._plain(data, train)
        matrix = self.matrix
        if isinstance(matrix, str):
            estimate = anchored(plain.probs, data, self.outliers)
            matrix = tuple(tuple(row) for row in estimate.tolist())
        return train(Forward(matrix=matrix), data, model=plain.model if self.init == "from-ce" else None)

    def _plain(self, data: TrainSet, train: Train) -> Outcome:
        """A training with CE: to its turning point, or as long as asked for."""
        if self.ce_epochs == "all":
            return train(CE(), data)
        if not isinstance(self.ce_epochs, str):
            return train(CE(), data, stop=_after(max(1, epochs_of(self.ce_epochs, self.epochs))))
        _, watched = estimated_rate(data, train)
        turn = found(watched.history)
        assert turn is not None  # a watched training has one
        return train(CE(), data, start_from=(watched, turn.peak), stop=_after(int(turn.peak) + 1))


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


def _after(epochs: int) -> Callable[[list[dict[str, Any]], Seen, int], bool]:
    """Stop after so many epochs, with the learning rates of the whole run."""
    return lambda history, seen, planned: bool(history[-1]["epoch"] + 1 >= epochs)


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
