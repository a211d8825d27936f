"""Confident learning: folds, out-of-fold probabilities, and the confident joint of the paper written out here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from selc.analysis import analyse
from selc.analysis.findings import REVIEW
from selc.errors import ConfigError, TrainingError
from selc.memory import Store
from selc.methods import confident_learning
from selc.methods.base import Method
from selc.methods.ce import CE
from selc.methods.confident_learning import ConfidentLearning, folds_of, found
from selc.types import Outcome, StagePlan, TrainSet
from tests.helpers import random_labels, random_targets, train_set
from tests.methods.common import NoTrain
from tests.toy import CLASSES, fit
from tests.toy import train_set as toy_set

N, C = 60, 4
LABELS = random_labels(N, C, seed=0)


def probabilities(seed: int = 7, labels: Tensor = LABELS, wrong: int = 12) -> Tensor:
    """Predictions that mostly share the label, and are sure of another one for the first ``wrong`` rows."""
    shifted = labels.clone()
    shifted[:wrong] = (shifted[:wrong] + 1) % C
    return 0.4 * random_targets(len(labels), C, seed=seed) + 0.6 * torch.eye(C)[shifted]


def literal_confident(labels: list[int], p: Tensor) -> list[bool]:
    """Off the diagonal of the confident joint (Eq. 1 and 2 of the paper), sample by sample."""
    threshold = [float(np.mean([float(p[i, c]) for i, y in enumerate(labels) if y == c])) for c in range(C)]
    flags = []
    for i, y in enumerate(labels):
        above = [c for c in range(C) if float(p[i, c]) >= threshold[c] - 1e-9]
        flags.append(bool(above) and max(above, key=lambda c: float(p[i, c])) != y)
    return flags


def test_the_confident_filter_is_the_off_diagonal_of_the_confident_joint() -> None:
    for seed in range(4):
        p = probabilities(seed)
        flags = found(LABELS, p, "confident_learning").tolist()
        assert flags == literal_confident(LABELS.tolist(), p)
        assert 0 < sum(flags) < N


def test_labels_that_are_clearly_wrong_are_found_by_every_filter() -> None:
    """Known answer: the first 12 rows are predicted, surely, to be another class."""
    for filter_by in confident_learning.Filter.__args__:  # type: ignore[attr-defined]
        flags = found(LABELS, probabilities(), filter_by)
        assert flags.shape == (N,)
        assert flags.dtype == torch.bool
        assert int(flags[:12].sum()) >= 10
        assert int(flags[12:].sum()) <= 1


def test_nothing_is_found_where_predictions_and_labels_agree() -> None:
    assert not bool(found(LABELS, probabilities(wrong=0), "prune_by_noise_rate").any())


def test_a_class_without_labels_and_certain_predictions_are_no_trouble() -> None:
    """By hand: predictions of exactly 0 and 1, of which one contradicts its label."""
    labels = torch.where(LABELS == 2, 1, LABELS)
    labels[0] = 0
    predicted = labels.clone()
    predicted[0] = 1
    for filter_by in ("confident_learning", "predicted_neq_given", "prune_by_noise_rate"):
        assert found(labels, torch.eye(C)[predicted], filter_by).tolist() == [True] + [False] * (N - 1)


@pytest.mark.parametrize("folds", [2, 3, 5])
def test_folds_are_of_one_size_and_have_the_same_share_of_each_class(folds: int) -> None:
    fold = folds_of(LABELS, folds, seed=0)
    for part in (fold, *(fold[(LABELS - c) == 0] for c in range(C))):
        sizes = torch.bincount(part, minlength=folds)
        assert int(sizes.max() - sizes.min()) <= 1
    assert torch.equal(fold, folds_of(LABELS, folds, seed=0))
    assert not torch.equal(fold, torch.arange(N) % folds)


class MadeUp(NoTrain):
    """A training that is not one: each hands out a table of probabilities of its own."""

    def __init__(self, tables: list[Tensor]) -> None:
        self.tables = tables
        self.asked: list[tuple[Method, TrainSet]] = []

    def __call__(self, method: Method, data: TrainSet, **changes: Any) -> Outcome:
        assert changes == {}
        rows = self.tables[len(self.asked)]
        self.asked.append((method, data))
        store = Store(len(data), data.num_classes)
        store.write(torch.arange(len(data)), rows)
        nothing = torch.zeros(0, len(data))
        return Outcome(nn.Identity(), store, store, nothing, nothing, nothing, nothing)


@pytest.mark.parametrize("rows", [None, torch.arange(0, N, 2)])
def test_every_probability_is_of_a_network_that_did_not_see_the_sample(rows: Tensor | None) -> None:
    data = replace(train_set(LABELS, C), rows=rows)
    train = MadeUp([probabilities(seed) for seed in range(4)])
    method = ConfidentLearning(folds=3)
    outcome = method.fit(data, train)
    assert [type(method) for method, _ in train.asked] == [CE] * 4
    mine = torch.arange(N) if rows is None else rows
    expected = torch.empty(N, C)
    times_left_out = torch.zeros(N)
    for number, (_, used) in enumerate(train.asked[:3]):
        assert used.rows is not None
        assert set(used.rows.tolist()) < set(mine.tolist())
        out = torch.tensor(sorted(set(mine.tolist()) - set(used.rows.tolist())))
        times_left_out[out] += 1
        expected[out] = train.tables[number][out]
    assert (times_left_out[mine] == 1).all()
    others = torch.tensor(sorted(set(range(N)) - set(mine.tolist())), dtype=torch.int64)
    expected[others] = train.tables[3][others]  # held out of everything: the last network's
    assert torch.equal(outcome.target.full(), expected)
    # The last training goes without what cleanlab finds, and only those labels change.
    from cleanlab.filter import find_label_issues

    issues = mine[torch.from_numpy(find_label_issues(LABELS[mine].numpy(), expected[mine].double().numpy()))]
    assert len(issues) > 0
    used_last = train.asked[3][1].rows
    assert used_last is not None
    assert used_last.tolist() == [i for i in mine.tolist() if i not in set(issues.tolist())]
    changed = (outcome.corrected_labels != LABELS).nonzero().flatten()
    assert set(changed.tolist()) <= set(issues.tolist())
    assert torch.equal(outcome.corrected_labels[issues], expected[issues].argmax(dim=1))
    assert torch.equal(outcome.probs.full(), train.tables[3])


def test_it_stops_with_a_sentence_when_every_label_is_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confident_learning, "found", lambda *_: torch.ones(N, dtype=torch.bool))
    train = MadeUp([probabilities(seed) for seed in range(3)])
    with pytest.raises(TrainingError, match="must leave labels to learn from"):
        ConfidentLearning(folds=2).fit(train_set(LABELS, C), train)


def test_wrong_labels_of_the_toy_data_are_found_and_corrected() -> None:
    """Known answer: the first 9 of 90 labels are wrong."""
    outcome = fit(ConfidentLearning(folds=3), epochs=20)
    assert (outcome.corrected_labels == torch.arange(90) % CLASSES).float().mean() > 0.95
    assert outcome.history[-1]["stage"] == 3


def test_what_it_found_is_what_is_handed_out_and_no_belief_of_other_rows_is() -> None:
    outcome = fit(ConfidentLearning(folds=3), epochs=20)
    given = toy_set().labels.hard
    analysis = analyse(outcome, given, CLASSES)
    assert torch.equal(analysis.corrected, outcome.corrected_labels)
    changed = analysis.corrected != given
    assert bool(changed.any())
    rows = analysis.findings
    assert torch.equal(rows.action == REVIEW, changed)
    assert torch.equal(rows.suggested, analysis.corrected)
    torch.testing.assert_close(rows.confidence.float(), outcome.target.full()[torch.arange(90), rows.suggested])


def test_without_cleanlab_it_says_what_to_install_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confident_learning, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"needs the package cleanlab; got none\. .*selc\[compare\]"):
        ConfidentLearning().check(train_set(LABELS, C), StagePlan(5, 8))


def test_more_folds_than_samples_can_fill_are_refused() -> None:
    with pytest.raises(ConfigError, match="folds must be at most half the number of samples, 60; got 31"):
        ConfidentLearning(folds=31).check(train_set(LABELS, C), StagePlan(5, 8))


@pytest.mark.parametrize("folds", [1, 0, -3])
def test_fewer_than_two_folds_are_refused(folds: int) -> None:
    with pytest.raises(ConfigError, match="folds must be at least 2"):
        ConfidentLearning(folds=folds)
