"""The second training: on what both witnesses say of the labels, with mixup where held-out rows speak for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from selc.methods.judge import Judged
from selc.methods.retraining import Retraining, by_both, handed_on, retrained
from selc.turning import Decision, Evidence, Reason, decide
from selc.types import EvalSet, Labels, Outcome, TrainSet
from tests.helpers import batch_of, one_hot64, random_targets, stored
from tests.methods.common import Asked, Stages, many, outcome

ROWS, C, L = 240, 4, 12


def found(reason: Reason = Reason.FALL, held: Tensor | None = None) -> tuple[Outcome, Judged, Tensor]:
    """A training whose targets and held-out predictions both name the true class of a fifth of wrong labels; the true
    labels."""
    data = many()
    given = data.labels.hard
    wrong = torch.arange(ROWS) % 5 == 0
    true = torch.where(wrong, (given + 1) % C, given)
    rows = torch.arange(ROWS) if held is None else held
    sure = torch.tensor([0.55, 0.8, 0.97, 0.99])[rows % 4].expand(L, -1)
    given_p = torch.where((true == given)[rows], sure, (1 - sure) / (C - 1))
    evidence = Evidence(given[rows], true[rows].expand(L, -1), sure, given_p, C, 5, rows)
    decision = replace(decide(evidence, 2 * L), reason=reason)
    first = outcome(0.9 * one_hot64(true, C).float() + 0.025)
    return first, Judged(evidence, decision, data), true


def test_both_are_averaged_where_a_row_was_held_out() -> None:
    first, judged, true = found()
    targets = by_both(first, judged)
    assert targets is not None
    sure = torch.tensor([0.55, 0.8, 0.97, 0.99])[torch.arange(ROWS) % 4]
    expected = (first.target.full()[torch.arange(ROWS), true] + sure) / 2
    torch.testing.assert_close(targets.full()[torch.arange(ROWS), true], expected)
    torch.testing.assert_close(targets.full().sum(dim=1), torch.ones(ROWS))


def test_a_row_that_was_never_held_out_keeps_the_target_of_the_first_training() -> None:
    held = torch.arange(ROWS)[torch.arange(ROWS) % 7 != 0]
    first, judged, _ = found(held=held)
    targets = by_both(first, judged)
    assert targets is not None
    alone = torch.arange(0, ROWS, 7)
    assert torch.equal(targets.full()[alone], first.target.full()[alone])
    assert not torch.equal(targets.full()[held], first.target.full()[held])


@pytest.mark.parametrize("reason", [Reason.NO_FALL, Reason.NOT_LEARNT])
def test_where_no_harm_was_seen_there_is_nothing_to_learn_again(reason: Reason) -> None:
    first, judged, _ = found(reason)
    assert by_both(first, judged) is None


def test_without_evidence_or_where_one_part_alone_was_held_out_there_is_no_second_witness() -> None:
    first, judged, _ = found()
    assert judged.evidence is not None
    assert by_both(first, judged._replace(evidence=None, decision=Decision.too_few())) is None
    assert by_both(first, judged._replace(evidence=replace(judged.evidence, splits=1))) is None


def test_more_doubt_than_there_may_be_wrong_labels_is_hardness() -> None:
    """Targets that contradict most labels cannot all be right."""
    first, judged, _ = found()
    contrary = one_hot64((judged.data.labels.hard + 2) % C, C).float()
    assert by_both(replace(first, target=stored(contrary)), judged) is None


def test_the_network_is_the_second_and_what_is_known_of_the_labels_is_of_the_first() -> None:
    first, second = (replace(outcome(random_targets(ROWS, C, seed=k)), stage=k, history=[{"stage": k}]) for k in (5, 8))
    both = handed_on(first, second)
    assert both.model is second.model
    assert both.probs is second.probs
    assert both.target is first.target
    assert both.losses is first.losses
    assert (both.stage, both.history) == (8, [{"stage": 5}, {"stage": 8}])


def test_the_loss_is_cross_entropy_on_the_targets_and_nothing_is_recorded() -> None:
    torch.manual_seed(0)
    data = TrainSet(many().inputs, Labels(stored(random_targets(ROWS, C, seed=1)), C))
    batch = batch_of(data, torch.arange(8))
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(batch.x[0].numel(), C))
    step = Retraining().step(model, batch)
    expected = -(batch.target * model(batch.x).log_softmax(dim=1)).sum(dim=1)
    torch.testing.assert_close(step.loss, expected)
    assert step.outputs is None


def trials(right: dict[float, float], **how: object) -> tuple[Outcome, list[Asked], Judged]:
    """What is trained where held-out labels would be named so often, by the weight of mixup."""
    _, judged, _ = found()
    halves = torch.arange(ROWS).chunk(2)
    parts = [EvalSet(judged.data.inputs, judged.data.labels.hard[rows], rows) for rows in halves]
    judged = judged._replace(**{"parts": parts, **how})  # type: ignore[arg-type]

    def trained(number: int, asked: Asked) -> Outcome:
        train.wrong = 1 - right[weight(asked)]
        return replace(outcome(random_targets(ROWS, C, seed=number)), stage=number)

    train = Stages(trained)
    return retrained(judged.data, judged, train, 0.9), train.asked, judged


def weight(asked: Asked) -> float:
    assert isinstance(asked.method, Retraining)
    return asked.method.concentration


@pytest.mark.parametrize(
    ("plain", "mixed", "taken"), [(0.6, 0.8, 0.9), (0.7, 0.7, 0.9), (0.8, 0.7, 0.0)], ids=["better", "as good", "worse"]
)
def test_mixup_is_used_unless_held_out_labels_are_predicted_worse_with_it(
    plain: float, mixed: float, taken: float
) -> None:
    """One in ten of 180 rows is more than a standard error."""
    _, asked, judged = trials({0.0: plain, 0.9: mixed})
    assert [weight(a) for a in asked] == [0.0, 0.9, 0.0, 0.9, taken]
    for trial, part in zip(asked[:4], (0, 0, 1, 1), strict=True):
        assert trial.aside
        assert trial.data.rows is not None
        assert trial.data.rows.tolist() == torch.arange(ROWS).chunk(2)[1 - part].tolist()
    assert asked[4].data is judged.data


@pytest.mark.parametrize(("plain", "mixed", "stage"), [(0.5, 0.75, 1), (0.9, 0.5, 0)])
def test_where_rows_stay_out_to_the_end_one_of_both_is_the_result(plain: float, mixed: float, stage: int) -> None:
    looks = EvalSet(many().inputs, many().labels.hard[:40], torch.arange(40))
    result, asked, _ = trials({0.0: plain, 0.9: mixed}, parts=(), looks=looks)
    assert len(asked) == 2
    assert result.stage == stage


def test_where_nothing_is_held_out_mixup_is_the_papers() -> None:
    _, asked, _ = trials({0.0: 0.5, 0.9: 0.5}, parts=())
    assert [weight(a) for a in asked] == [0.9]
