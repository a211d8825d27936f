"""What metrics are computed from: a few numbers of each row of a set, of which those are kept that a metric names.

The pass over a set keeps at most 40 bytes a row; 4 C more only if a metric of the user's own names ``probs``. Whoever
has all rows has the same numbers, however the rows were split into batches and dealt to processes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from selc.errors import ConfigError
from selc.training.metrics.base import HEADLINE, WHOLE, Function, needs

PLACES = 5  # of the label among the classes that are told apart
ROWS = {
    "labels": "[M] the labels of the set; C stands for any that the network has no output for",
    "predictions": "[M] the most probable class",
    "confidences": "[M] its probability",
    "losses": "[M] -log of the probability of the label",
    "ranks": f"[M] how many classes are more probable than the label; {PLACES}: so many or more",
    WHOLE: "[M, C] the probabilities of all classes",
    "num_classes": "C",
}
# The largest loss of a row, 87.3 nats: one label to which float32 gives no probability at all must not hide the others.
_LARGEST = -math.log(torch.finfo(torch.float32).tiny)


def wanted(metrics: Mapping[str, Function]) -> set[str]:
    """What any of the metrics needs of each row."""
    return {name for function in metrics.values() for name in needs(function)}


def rows_of(log_p: Tensor, labels: Tensor, wanted: Collection[str]) -> dict[str, Tensor]:
    """What is ``wanted`` of the rows of a batch, by their log probabilities [B, C] and their labels [B]."""
    C = log_p.shape[1]
    exact = torch.float32 if log_p.device.type == "mps" else torch.float64  # in every process the same
    top = log_p.topk(min(PLACES, C), dim=1)
    kept: dict[str, Tensor] = {}
    if "predictions" in wanted:
        kept["predictions"] = top.indices[:, 0]
    if "confidences" in wanted:
        kept["confidences"] = top.values[:, 0].to(exact).exp()
    if "losses" in wanted:
        known = (labels >= 0) & (labels < C)  # another one, which a test set may bring, has probability zero
        own = log_p.gather(1, labels.clamp(0, C - 1)[:, None])[:, 0].to(exact)
        kept["losses"] = torch.where(known, -own, _LARGEST).clamp(max=_LARGEST)
    if "ranks" in wanted:
        kept["ranks"] = ((top.indices == labels[:, None]).cumsum(dim=1) == 0).sum(dim=1)
    if WHOLE in wanted:
        kept[WHOLE] = log_p.float().exp()
    return kept


def measured(metrics: Mapping[str, Function], rows: Mapping[str, Tensor], num_classes: int) -> dict[str, float]:
    """The value of each metric for all ``rows`` of a set, on the CPU; one without a finite value is left out."""
    labels = rows["labels"]
    if not len(labels):
        return {HEADLINE: 0.0}  # whoever reads a history expects it
    labels = torch.where((labels >= 0) & (labels < num_classes), labels, num_classes)
    supplied = {**rows, "labels": labels, "num_classes": num_classes}
    result = {}
    for name, function in metrics.items():
        given = function(*(supplied[need] for need in needs(function)))
        if given is None:
            continue
        try:
            value = float(given)
        except (TypeError, ValueError, RuntimeError):
            raise ConfigError(f"metric {name!r} must give a number for a set; got {type(given).__name__}.") from None
        if math.isfinite(value):
            result[name] = value
    return result
