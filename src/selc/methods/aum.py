"""Pleiss, Zhang, Elenberg and Weinberger: Identifying Mislabeled Data using the Area Under the Margin Ranking.
NeurIPS 2020."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from selc.errors import ConfigError, TrainingError
from selc.memory.store import Store, block_rows
from selc.methods.base import METHODS, Method, Train
from selc.methods.ce import CE
from selc.methods.parts import epochs_of, mixed_belief
from selc.seeding import generator
from selc.types import Batch, Labels, Outcome, StagePlan, Sweep, TrainSet

RUNS = 2  # of measuring: what is a threshold sample in one is measured in the other


@METHODS.register("aum")
class AUM(Method):
    """Area under the margin: labels that the network resists as it does wrong ones on purpose are left out.

        AUM_i = mean over epochs of (z_y - max_{c != y} z_c)      wrong if AUM_i < theta
        theta = the ``quantile`` of the AUM of N / (C + 1) threshold samples, whose label is an extra class C + 1

    Two trainings of ``measure`` of the epochs (a share below 1, else epochs), at a constant rate and with different
    threshold samples, find the wrong labels; a fresh network then learns from the others. The belief is w y + (1 - w) p
    with p its prediction, and w = sigmoid((AUM - theta) / std of the threshold samples), which is our own.

    Deviations: the batch size is the run's (the authors measure with a quarter of it); soft labels are measured by
    their largest class.
    """

    family = "stages"
    cost = 1.5
    parallel = True

    def __init__(self, *, measure: float = 0.5, quantile: float = 0.99) -> None:
        super().__init__()
        if not measure > 0:
            raise ConfigError(f"measure must be more than 0; got {measure}. The authors take half of the epochs.")
        if not 0 < quantile <= 1:
            raise ConfigError(f"quantile must be in (0, 1]; got {quantile}. The paper uses 0.99.")
        self.measure, self.quantile = measure, quantile

    def check(self, data: TrainSet, plan: StagePlan) -> str | None:
        rows, least = len(data) if data.rows is None else len(data.rows), RUNS * (data.num_classes + 1)
        if rows < least:
            raise ConfigError(f"aum must have {least} samples or more for threshold samples of their own; got {rows}.")
        return None

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        label, extra = data.labels.hard, data.num_classes
        rows = torch.arange(len(data), device=label.device) if data.rows is None else data.rows
        draw = generator("aum", train.seed, "threshold samples", len(rows))
        mixed = rows[torch.randperm(len(rows), generator=draw).to(rows.device)]
        distance = torch.full((RUNS, len(data)), -torch.inf, device=label.device)
        for run, chosen in enumerate(mixed[: RUNS * (len(rows) // (extra + 1))].chunk(RUNS)):
            given = Labels(label.index_fill(0, chosen, extra), extra + 1)
            epochs = max(1, epochs_of(self.measure, train.epochs))
            measured = train(Margins(), replace(data, labels=given), epochs=epochs, schedule="constant")
            distance[run] = standardised(measured.target.at(torch.zeros_like(label)), chosen, self.quantile)
        away = distance.amax(dim=0)  # above the threshold in one of the runs is enough
        kept = rows[away[rows] >= 0]
        if len(kept) == 0:
            raise TrainingError("aum must leave labels to learn from; got none above the threshold. Lower quantile.")
        final = train(CE(), replace(data, rows=kept))
        return replace(final, target=mixed_belief(away.sigmoid(), data.labels, final.probs))


class Margins(Method):
    """Cross entropy that adds up margins; only `AUM.fit` sees what it hands out, a table with the mean margin."""

    parallel = True
    epochs: int  # of the stage

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.data, self.epochs = data, plan.epochs
        self.total, self.count = data.new_store(1), data.new_store(1)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        if batch.clock >= 1 or self.epochs == 1:  # the first epoch says more about the random weights (authors' code)
            index, label = batch.index, batch.target.argmax(dim=1, keepdim=True)
            self.total.write(index, self.total.read(index) + margin(outputs.detach(), label))
            self.count.write(index, self.count.read(index) + 1)
        return super().loss(outputs, batch)

    def belief(self, sweep: Sweep) -> Store:
        table = self.data.new_store()
        for index, total in self.total.blocks(block_rows(table.columns)):
            count = self.count.read(index)
            mean = torch.where(count > 0, total / count.clamp_min(1), torch.inf)  # never seen: nothing against it
            table.write(index, mean.expand(-1, table.columns))
        return table


def margin(outputs: Tensor, label: Tensor) -> Tensor:
    """How far the output of the label is above the largest other one, [B, 1]."""
    z = outputs.float()
    return z.gather(1, label) - z.scatter(1, label, -torch.inf).amax(dim=1, keepdim=True)


def standardised(aum: Tensor, chosen: Tensor, quantile: float) -> Tensor:
    """How far each AUM is above the threshold, in standard deviations of the threshold samples, which get -inf."""
    theirs = aum[chosen]
    theirs = theirs[theirs.isfinite()].sort(descending=True).values
    if len(theirs) == 0:  # no threshold sample was seen, so nothing can be said
        return torch.full_like(aum, torch.inf).index_fill(0, chosen, -torch.inf)
    above = min(int((1 - quantile) * len(theirs) + 1e-9), len(theirs) - 1)  # so many may lie above the threshold
    spread = theirs.std(correction=0).clamp_min(torch.finfo(theirs.dtype).tiny)
    return ((aum - theirs[above]) / spread).index_fill(0, chosen, -torch.inf)
