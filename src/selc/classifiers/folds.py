"""Out-of-fold predictions of a classifier, what they say of each label, and the classifier fitted again on the result.

Each row is predicted by a classifier that was fitted without it: without its fifth of the rows, with all rows of its
group and all that are identical to it. These predictions are the evidence that a network's held-out looks are, and the
same analysis reads it. Boosting shows the prediction after each iteration (``staged_predict_proba``): there the curve
over the iterations is judged as that over epochs. If more iterations are seen to spoil what is predicted of other rows,
wrong labels were learnt by heart, and the iterations before are what counts. If no fall is seen, only the finished
classifier is heard on how many labels are wrong: the first iterations are unsure because there are few of them, which
is no sign of wrong labels.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from selc._io.files import in_short
from selc.analysis.findings import KEEP, Findings
from selc.analysis.label_analysis import LabelAnalysis, Why, by_evidence
from selc.errors import ConfigError, TrainingError
from selc.turning.decision import BEYOND, Decision, Reason, decide
from selc.turning.evidence import Evidence
from selc.turning.splits import deal_parts, joined

FOLDS = 5  # as many as a network's splits
LOOKS = 100  # iterations of boosting that are looked at, at most
MAJORITY = 0.5  # share of wrong labels from which on held-out labels judge nothing
Probabilities = np.ndarray[Any, np.dtype[np.float64]]


class Rows(NamedTuple):
    """What a classifier is fitted on, row by row, and which rows may judge which."""

    x: Any  # an array, a frame, a sparse matrix or a list
    labels: Tensor  # [N] given labels, from 0
    num_classes: int
    rows: Tensor | None = None  # those to fit on; None: all
    verified: Tensor | None = None  # [N] booleans: labels that a person has verified, which nothing changes
    groups: Tensor | None = None  # [N]
    time: Tensor | None = None  # [N]

    @property
    def used(self) -> Tensor:
        """Rows to fit on, [N] booleans."""
        if self.rows is None:
            return torch.ones(len(self.labels), dtype=torch.bool)
        return torch.zeros(len(self.labels), dtype=torch.bool).index_fill_(0, self.rows, True)

    @property
    def settled(self) -> Tensor | None:
        """Rows that a person has judged, [N] booleans: the label decided on, or dropped."""
        dropped = None if self.rows is None else ~self.used
        return dropped if self.verified is None else self.verified if dropped is None else self.verified | dropped


class Fit(NamedTuple):
    """A classifier that was fitted on the corrected labels, and what was found out on the way."""

    model: Any
    analysis: LabelAnalysis
    evidence: Evidence | None  # None: too few rows to hold any out
    believed: Tensor  # [N, C] out-of-fold probabilities; of rows that were never held out the given label
    probs: Tensor  # [N, C] of the classifier that is handed out


def judge_labels(classifier: Any, data: Rows, seed: int, tell: Callable[[str], None] = lambda text: None) -> Fit:
    """Judge every label by a classifier that was fitted without it, and fit one on all rows with the result."""
    parts = _parts(data, seed)
    used = parts[parts >= 0].unique().tolist()
    believed = torch.nn.functional.one_hot(data.labels, data.num_classes).double()
    evidence = None
    if len(used) < 2:
        analysis = _unjudged(data)
    else:
        tell(f"Fitting {len(used)} times, each time without another part of the rows, then once on all of them.")
        evidence = _evidence(classifier, data, parts, used, believed)
        analysis = conclusion(evidence, data.labels, data.settled)
    chosen = data.used.nonzero().flatten().numpy()
    model = fitted(classifier, data, chosen, analysis.corrected.numpy())
    return Fit(model, analysis, evidence, believed, torch.from_numpy(probabilities(model, data.x, data.num_classes)))


def conclusion(evidence: Evidence, given: Tensor, settled: Tensor | None) -> LabelAnalysis:
    """What out-of-fold predictions say of each label [N]."""
    if evidence.looks == 1:
        return _by_looks(evidence, decide(evidence, 1), given, settled)
    decision = decide(evidence, evidence.looks)
    if decision.reason is Reason.FALL:
        found = _by_looks(evidence, decision, given, settled)
        # If most labels were wrong, the most frequent one of a class would not be the right one, and nothing could be
        # judged by such rows.
        if found.noise_rate is not None and found.noise_rate.likely < MAJORITY:
            return found
    last = last_look(evidence)
    found = _by_looks(last, decide(last, 1), given, settled)
    # The order of the labels has no need to be sure of: there a mean over all looks that are as good as the best is
    # less a matter of chance.
    assert evidence.rows is not None
    quality = found.findings.quality.clone()
    quality[evidence.rows] = evidence.given[decision.first : decision.last + 1].double().mean(dim=0)
    quality = quality if settled is None else quality.masked_fill(settled, 1.0)
    return replace(found, findings=replace(found.findings, quality=quality))


def _by_looks(evidence: Evidence, decision: Decision, given: Tensor, settled: Tensor | None) -> LabelAnalysis:
    assert evidence.rows is not None
    predicted = given.clone()
    predicted[evidence.rows] = evidence.predictions[evidence.look_at(decision.best)].long()
    return by_evidence(
        evidence, decision, None, given, believed=predicted, last=predicted, settled=settled, slack=BEYOND
    )


def last_look(evidence: Evidence) -> Evidence:
    """What the finished classifiers predicted."""
    looks = (evidence.predictions, evidence.confidences, evidence.given)
    predictions, confidences, given = (part[-1:] for part in looks)
    return replace(evidence, predictions=predictions, confidences=confidences, given=given)


def probabilities(model: Any, x: Any, num_classes: int) -> Probabilities:
    """The probability of each class [N, C]; of a class that the classifier was not shown, none."""
    with _telling(model, "must predict"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _columns(np.asarray(model.predict_proba(x), dtype=np.float64), model.classes_, num_classes)


def _columns(p: Any, classes: Any, num_classes: int) -> Probabilities:
    found = np.zeros((len(p), num_classes))
    found[:, np.asarray(classes, dtype=np.int64)] = p
    total = found.sum(axis=1, keepdims=True)
    if not np.isfinite(found).all() or not (total > 0).all():
        raise TrainingError("a classifier must predict finite probabilities; got rows without any.")
    result: Probabilities = found / total
    return result


def _parts(data: Rows, seed: int) -> Tensor:
    """The part of each row, [N]; verified labels are no evidence, as people look at the worst first."""
    among = data.used if data.verified is None else data.used & ~data.verified
    alike = _alike(data.x, len(data.labels))
    groups = alike if data.groups is None else joined(data.groups, alike)
    return deal_parts(data.labels, FOLDS, seed, among=among, groups=groups, time=data.time)


def _alike(x: Any, count: int) -> Tensor:
    """A number for each row, the same for identical ones, [N]."""
    if isinstance(x, np.ndarray) and x.dtype.kind in "fiub":
        keys = [row.tobytes() for row in np.ascontiguousarray(x)]
    elif hasattr(x, "tocsr"):
        rows = x.tocsr()
        keys = [rows[k].indices.tobytes() + rows[k].data.tobytes() for k in range(count)]
    elif hasattr(x, "columns"):
        keys = [repr(row).encode() for row in zip(*(list(x[name]) for name in x.columns), strict=True)]
    else:
        keys = [repr(row).encode() for row in x]
    first: dict[bytes, int] = {}
    return torch.tensor([first.setdefault(key, k) for k, key in enumerate(keys)])


def _evidence(classifier: Any, data: Rows, parts: Tensor, used: list[int], believed: Tensor) -> Evidence:
    """What each fold predicted of the rows that it was fitted without; the last of it is written to ``believed``."""
    shown, used_rows = [], data.used
    for part in used:
        held = (parts == part).nonzero().flatten()
        rest = (used_rows & (parts != part)).nonzero().flatten().numpy()
        model = fitted(classifier, data, rest, data.labels.numpy())
        looks = [_look(p, data.labels[held]) for p in _stages(model, _at(data.x, held.numpy()), data.num_classes)]
        believed[held] = torch.from_numpy(probabilities(model, _at(data.x, held.numpy()), data.num_classes))
        shown.append((held, looks))
    count = max(len(looks) for _, looks in shown)
    rows = torch.cat([held for held, _ in shown])
    order = rows.argsort()
    fields = []
    for field in range(3):
        # A fold that stopped early says at the end what it said last.
        columns = [torch.stack([look[field] for look in (looks + looks[-1:] * count)[:count]]) for _, looks in shown]
        fields.append(torch.cat(columns, dim=1)[:, order])
    predictions, confidences, given = fields
    found = (data.labels[rows[order]], predictions, confidences, given)
    return Evidence(*found, num_classes=data.num_classes, splits=len(used), rows=rows[order])


def _look(p: Probabilities, given: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Predictions, confidences, and the probability of the given label, [M] each."""
    table = torch.from_numpy(p)
    sure, predicted = table.max(dim=1)
    return predicted, sure, table.gather(1, given[:, None])[:, 0]


def _stages(model: Any, x: Any, num_classes: int) -> Iterator[Probabilities]:
    """The probabilities after some of the iterations, of boosting; else those at the end."""
    final = model
    if hasattr(model, "steps"):  # a pipeline: what comes before its last step is the same at every iteration
        final = model.steps[-1][1]
    if not hasattr(final, "staged_predict_proba"):
        yield probabilities(model, x, num_classes)
        return
    if final is not model:
        x = model[:-1].transform(x)
    with _telling(model, "must predict"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every = max(1, math.ceil(_iterations(final) / LOOKS))
        last: Probabilities | None = None
        for iteration, p in enumerate(final.staged_predict_proba(x), start=1):
            last = _columns(np.asarray(p, dtype=np.float64), final.classes_, num_classes)
            if iteration % every == 0:
                yield last
                last = None
        if last is not None:
            yield last


def _iterations(model: Any) -> int:
    return int(getattr(model, "n_iter_", None) or len(getattr(model, "estimators_", ())) or 1)


def fitted(classifier: Any, data: Rows, rows: Any, labels: Any) -> Any:
    """A copy of the classifier, fitted to some of the rows with ``labels`` [N]."""
    from sklearn.base import clone

    model = clone(classifier)
    with _telling(classifier, "must fit"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as of an optimiser that has not converged: out-of-fold rows show it
        return model.fit(_at(data.x, rows), labels[rows])


def _at(x: Any, rows: Any) -> Any:
    """Some of the rows, of whatever kind."""
    if hasattr(x, "iloc"):
        return x.iloc[rows]
    return [x[row] for row in rows.tolist()] if isinstance(x, list | tuple) else x[rows]


class _telling:  # noqa: N801  (it reads like a function)
    """What goes wrong in a classifier becomes a sentence."""

    def __init__(self, classifier: Any, promise: str) -> None:
        self.classifier, self.promise = classifier, promise

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ValueError | TypeError) and not isinstance(error, ConfigError | TrainingError):
            raise ConfigError(
                f"{type(self.classifier).__name__} {self.promise} these rows; got {type(error).__name__}: "
                f"{in_short(error)}."
            ) from error


def _unjudged(data: Rows) -> LabelAnalysis:
    """Where nothing can be held out, nothing is said of any label."""
    given, one = data.labels, torch.ones(len(data.labels), dtype=torch.float64)
    findings = Findings(given, given, given, one, one, torch.full_like(given, KEEP))
    return LabelAnalysis(findings, given, None, torch.eye(data.num_classes).double(), Decision.too_few(), Why.TOO_FEW)
