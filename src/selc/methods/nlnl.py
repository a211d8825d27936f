"""Kim, Yim, Yun and Kim: NLNL: Negative Learning for Noisy Labels. ICCV 2019."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from selc.errors import ConfigError
from selc.losses.cross_entropy import handed_out, log_softmax
from selc.memory.store import Store
from selc.methods.base import METHODS, Method, Train, detached_probs
from selc.methods.parts import History, epochs_of
from selc.types import Batch, Labels, Outcome, StagePlan, Sweep, TrainSet

Stage = Literal["NL", "SelNL", "SelPL", "pseudo-1", "pseudo-2"]
FIRST: tuple[Stage, ...] = ("NL", "SelNL", "SelPL")  # of one network


@METHODS.register("nlnl")
class NLNL(Method):
    """Negative learning: "this is not a k" is nearly always true, so that is learnt first, and labels only later.

        NL        L = -sum_r log(1 - p_{k_r}), ``negatives`` classes k_r drawn from all but the label
        SelNL     the same for samples with q_y >= 1/C; q is the mean of the last ``window`` predictions
        SelPL     L = -log p_y for samples with q_y >= ``cut``
        pseudo-1  a fresh network, L = -log p_y for the samples with q_y >= cut at the end of SelPL
        pseudo-2  a fresh network, L = H(q, p) on all samples, with the q of pseudo-1

    The first three train one network, for the run's epochs each and at a constant rate; the others have ``pseudo`` of
    the epochs (a share below 1, else epochs). Samples weigh max count / count of their class.

    Deviations: the stages keep the published proportions but are far shorter; weights average to one over a batch; in
    pseudo-2 a sample weighs sum_c q_c w_c, in the authors' code w of the likeliest class; log(1 - p) needs no clamp; a
    stage takes over the mean q of the one before, not its single epochs.
    """

    family = "stages"
    cost = 5.0
    keeps_belief = True
    stage: Stage = "NL"
    earlier: Labels | None = None  # q at the end of the stage before
    class_weights: Tensor

    def __init__(
        self,
        *,
        negatives: int | Literal["auto"] = "auto",
        cut: float = 0.5,
        window: int = 10,
        pseudo: float = 480 / 720,  # epochs of a pseudo stage by those of each of the first three
    ) -> None:
        super().__init__()
        if negatives != "auto" and not (isinstance(negatives, int) and negatives >= 1):
            raise ConfigError(f"negatives must be at least 1 or 'auto'; got {negatives!r}.")
        if not 0 <= cut < 1:
            raise ConfigError(f"cut must be in [0, 1); got {cut}. It is the least q of a label to learn from.")
        if window < 1 or not pseudo > 0:
            raise ConfigError(f"window must be at least 1 and pseudo more than 0; got {window} and {pseudo}.")
        self.negatives, self.cut, self.window, self.pseudo = negatives, cut, window, pseudo

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.data, self.given = data, data.labels
        self.history = History(data, self.window)
        rows = data.rows
        if self.earlier is not None and self.stage == "pseudo-1":
            rows = self._learnable(data)
        elif self.earlier is not None:
            for index, q in self.earlier.blocks():
                for epoch in range(self.window):
                    self.history.write(epoch, index, q)
        label = data.labels.hard if rows is None else data.labels.hard[rows]
        count = torch.bincount(label, minlength=data.num_classes).float()
        self.register_buffer("class_weights", torch.where(count > 0, count.max() / count.clamp_min(1), 0.0))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        fixed = self.earlier if self.stage == "pseudo-1" else None
        q = self.history.mean(batch.index) if fixed is None else fixed.read(batch.index)
        least = {"SelNL": 1 / outputs.shape[-1], "SelPL": self.cut, "pseudo-1": self.cut}.get(self.stage, 0.0)
        weight = (batch.target @ self.class_weights) * ((batch.target * q).sum(dim=1) >= least)
        weight = weight / weight.mean().clamp_min(torch.finfo(weight.dtype).tiny)  # nobody: all stay zero
        self.history.write(int(batch.clock), batch.index, detached_probs(self, outputs))
        if self.stage in ("NL", "SelNL"):
            chosen = not_these(batch.target, self._draws(outputs.shape[-1]), batch.seed)
            return -weight * log_not(outputs).gather(1, chosen).sum(dim=1)
        return -weight * (batch.target * self.log_probs(outputs)).sum(dim=1)

    def belief(self, sweep: Sweep) -> Store:
        q = self.data.new_store()
        for index, given in self.given.blocks():
            q.write(index, handed_out(self.history.mean(index), given))
        return q

    def check(self, data: TrainSet, plan: StagePlan) -> str | None:
        if self.stage in ("SelPL", "pseudo-1") and len(self._learnable(data)) == 0:
            raise ConfigError(
                f"some labels must reach a mean probability of {self.cut} (cut) before {self.stage}; got none. Train "
                "longer, raise the learning rate, or lower cut."
            )
        return None

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        model = earlier = None
        for stage in FIRST:
            outcome = train(self._at(stage, earlier), data, model=model, schedule="constant")
            model, earlier = outcome.model, Labels(outcome.target, data.num_classes)
        epochs = max(1, epochs_of(self.pseudo, train.epochs))
        first = train(self._at("pseudo-1", earlier), data, epochs=epochs)
        second = train(self._at("pseudo-2", None), data.relabel(first.target), epochs=epochs)
        return replace(second, target=first.target)

    def _at(self, stage: Stage, earlier: Labels | None) -> NLNL:
        """The same method in one of its stages."""
        method = copy.deepcopy(self)
        method.stage, method.earlier = stage, earlier
        return method

    def _draws(self, num_classes: int) -> int:
        """How many classes to draw: published are 1 for 10 classes and 110 for 100."""
        if isinstance(self.negatives, int):
            return self.negatives
        return 1 if num_classes <= 10 else round(1.1 * num_classes)

    def _learnable(self, data: TrainSet) -> Tensor:
        """The rows whose label had a mean probability of at least ``cut`` at the end of the stage before."""
        assert self.earlier is not None
        pairs = zip(data.labels.blocks(), self.earlier.blocks(), strict=True)
        reached = torch.cat([(target * q).sum(dim=1) >= self.cut for (_, target), (_, q) in pairs])
        return reached.nonzero().flatten() if data.rows is None else data.rows[reached[data.rows]]


def log_not(outputs: Tensor) -> Tensor:
    """log(1 - p) of every class, [B, C], also where p is exactly 0 or 1.

    Only the likeliest class can have a p above one half; there 1 - p is the sum over the others.
    """
    log_p = log_softmax(outputs)
    top = log_p.argmax(dim=1, keepdim=True)
    of_top = log_p.scatter(1, top, -torch.inf).logsumexp(dim=1, keepdim=True)
    return torch.log1p(-log_p.exp().scatter(1, top, 0.0)).scatter(1, top, of_top)


def not_these(target: Tensor, count: int, seed: int) -> Tensor:
    """``count`` classes for each row, [B, count], uniform over all but its label (a soft one is drawn each time)."""
    share = (1 - target).clamp_min(0).cumsum(dim=1)
    draws = torch.rand(len(target), count, generator=torch.Generator().manual_seed(seed)).to(target.device)
    return torch.searchsorted(share / share[:, -1:], draws, right=True)
