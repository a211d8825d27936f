"""Look-alikes of a sample: the nearest of those whose labels the run trusts, of each class in question."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from selc._io.files import read_tensors
from selc.analysis.findings import KEEP, Findings
from selc.data import Bundle
from selc.errors import SelcError
from selc.nets import create as create_net
from selc.registry import is_import
from selc.runs.folder import RunFolder

POOL = 4_000  # trusted samples that are searched, at most; their features are computed here
BATCH = 256


class Alike(NamedTuple):
    """Rows that look like a sample, of one class."""

    label: int
    rows: list[int]
    distance: float = 0.0  # of the nearest


def look_alikes(run: RunFolder, bundle: Bundle, findings: Findings, rows: list[int], count: int) -> list[list[Alike]]:
    """For each of ``rows`` the nearest of its given class and of its suggested one (or of the second guess)."""
    if not rows or count < 1:
        return [[] for _ in rows]
    pool = _pool(findings, len(run.classes))
    if not len(pool):
        return [[] for _ in rows]
    index = torch.tensor(rows)
    features = F.normalize(_features(run, bundle, torch.cat([index, pool])), dim=1)
    distance = 1 - features[: len(index)] @ features[len(index) :].T
    distance = distance.masked_fill(index[:, None] == pool[None], torch.inf)
    other = _other_class(run, findings, index)
    given = findings.given[index]
    near = [_nearest(distance, pool, findings.given[pool], labels, count) for labels in (given, other)]
    labels = torch.stack([given, other], 1).tolist()
    return [
        [Alike(label, *found) for label, found in zip(labels[k], (near[0][k], near[1][k]), strict=True) if found[0]]
        for k in range(len(rows))
    ]


def _pool(findings: Findings, classes: int) -> Tensor:
    """The best labels of each class among those that the run keeps and believes: the better half at most.

    A run that cannot tell wrong labels from hard samples keeps nearly all, wrong ones too.
    """
    trusted = (findings.action == KEEP) & (findings.suggested == findings.given)
    half = (torch.bincount(findings.given, minlength=classes) + 1) // 2
    order = findings.quality.argsort(descending=True, stable=True)
    order = order[trusted[order]]
    order = order[findings.given[order].argsort(stable=True)]
    label = findings.given[order]
    sizes = torch.bincount(label, minlength=classes)
    place = torch.arange(len(order)) - (sizes.cumsum(0) - sizes)[label]
    return order[place < half[label].clamp(max=max(1, POOL // classes))]


def _other_class(run: RunFolder, findings: Findings, index: Tensor) -> Tensor:
    """The suggested class; where that is the given one, the class that is believed most beside it."""
    suggested, given = findings.suggested[index], findings.given[index]
    beside = run.table("target").read(index).scatter(1, given[:, None], -1.0).argmax(1)
    return torch.where(suggested == given, beside, suggested)


def _nearest(
    distance: Tensor, pool: Tensor, pool_labels: Tensor, labels: Tensor, count: int
) -> list[tuple[list[int], float]]:
    """The nearest rows of each, and the distance of the first."""
    far = distance.masked_fill(pool_labels[None] != labels[:, None], torch.inf)
    values, places = far.topk(min(count, far.shape[1]), dim=1, largest=False)
    rows = pool[places]
    return [
        ([row for row, d in zip(*pair, strict=True) if d < float("inf")], pair[1][0])
        for pair in zip(rows.tolist(), values.tolist(), strict=True)
    ]


@torch.inference_mode()
def _features(run: RunFolder, bundle: Bundle, index: Tensor) -> Tensor:
    """What the trained network sees in the samples; the inputs themselves where they are features or it has no such."""
    net = None if len(bundle.shape) == 1 else _body(run, bundle)
    parts = []
    for x in bundle.inputs.stream(index.split(BATCH), None):
        x = x.float()
        parts.append((net(x) if net is not None else x).flatten(1).cpu())
    return torch.cat(parts)


def _body(run: RunFolder, bundle: Bundle) -> torch.nn.Module | None:
    """The trained network without its head; None if the run's method made another one than the configuration names.

    Code of the user's own is not imported for a page: the folder may be from somebody else.
    """
    config = run.config
    if is_import(config.net.name):
        return None
    try:
        net = create_net(config.net.name, len(run.classes), bundle.shape, config.net.options)
        net.load_state_dict(read_tensors(run.path / "model.safetensors"))
    except (SelcError, RuntimeError):
        return None
    body = getattr(net, "features", None)
    return body.eval() if isinstance(body, torch.nn.Module) else None
