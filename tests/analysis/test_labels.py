"""Which labels are wrong and which are changed, of trainings that are made up so that it is known."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from selc.analysis import LabelAnalysis, Why, analyse
from selc.analysis.findings import KEEP, RELABEL, REVIEW
from selc.analysis.label_analysis import (
    both_witnesses,
    judgements,
    like,
    mean_probabilities,
    named_blindly,
    transitions,
)
from selc.analysis.noise_rate import NoiseRate
from selc.analysis.training_pass import by_training_pass, calmest
from selc.losses.watcher import first_minimum, waited
from selc.memory import Store
from selc.turning import Decision, Evidence, Reason, TurningPoint, decide
from selc.turning.decision import BEYOND
from selc.types import Outcome, Pass
from tests.helpers import random_labels, rng

N, C, L = 1200, 4, 12


def made_up(wrong: float, hard: float, held: Tensor | None = None, seed: int = 0) -> tuple[Outcome, Tensor, Tensor]:
    """A training on rows of which a share has a wrong label and a share is hard; its outcome, given and true labels.

    Of an easy row the network is sure and right, of a hard one it is unsure and often wrong; most are in between.
    """
    true = random_labels(N, C, seed)
    flip = torch.rand(N, generator=rng(seed + 1)) < wrong
    given = torch.where(flip, (true + 1 + torch.randint(C - 1, (N,), generator=rng(seed + 2))) % C, true)
    is_hard = torch.rand(N, generator=rng(seed + 3)) < hard
    strength = torch.where(is_hard, 0.6, 4.5) + 1.5 * torch.randn(N, generator=rng(seed + 4))
    logits = torch.randn(N, C, generator=rng(seed + 5))
    logits[torch.arange(N), true] += strength
    looks = torch.stack([0.2 * torch.randn(N, C, generator=rng(seed + 10 + k)) + logits for k in range(L)])
    p = looks.softmax(dim=2)
    confidences, predictions = p.max(dim=2)
    of_given = p[:, torch.arange(N), given]
    rows = torch.arange(N) if held is None else held
    seen = Evidence(
        given[rows], predictions[:, rows], confidences[:, rows], of_given[:, rows], C, 5 if held is None else 1, rows
    )
    target = Store.of({"table": p.mean(dim=0)}, C)
    # These looks are all alike; that labels which were learnt by heart did harm is what the decision says.
    decision = replace(decide(seen, 2 * L), reason=Reason.FALL)
    outcome = Outcome(
        nn.Identity(),
        target,
        target,
        -of_given.log(),
        predictions,
        confidences,
        torch.full_like(predictions, -1),
        decided=TurningPoint(seen, decision),
    )
    return outcome, given, true


def turning(outcome: Outcome) -> tuple[Evidence, Decision]:
    """What the made-up training was decided by, and how."""
    found = TurningPoint.of(outcome.decided)
    assert found is not None
    assert found.evidence is not None
    return found.evidence, found.decision


def decided(outcome: Outcome, evidence: Evidence | None, decision: Decision) -> Outcome:
    return replace(outcome, decided=TurningPoint(evidence, decision))


def right(labels: Tensor, true: Tensor) -> float:
    return float((labels == true).double().mean())


def analysed(wrong: float, hard: float) -> tuple[LabelAnalysis, Tensor, Tensor]:
    outcome, given, true = made_up(wrong, hard)
    return analyse(outcome, given, C), given, true


@pytest.mark.parametrize("wrong", [0.05, 0.2, 0.4])
def test_wrong_labels_are_counted_found_and_put_right(wrong: float) -> None:
    found, given, true = analysed(wrong, hard=0.2)
    assert found.noise_rate is not None
    assert found.noise_rate.low - 0.01 <= 1 - right(given, true) <= found.noise_rate.high + 0.01
    assert right(found.corrected, true) > right(given, true) + 0.5 * wrong
    flagged, is_wrong = found.findings.is_issue, given != true
    assert float((flagged & is_wrong).sum()) > 0.65 * float(is_wrong.sum())
    assert float((flagged & is_wrong).sum()) > 0.5 * float(flagged.sum())


def sharper(outcome: Outcome, factor: float) -> Outcome:
    """The same looks of a network whose logits are larger: it predicts the same, and is surer of it."""
    seen, decision = turning(outcome)
    odds = factor * torch.logit(seen.confidences.double())
    surer = replace(seen, confidences=odds.sigmoid().float())
    return decided(outcome, surer, replace(decision, reason=Reason.NO_FALL))


def test_a_network_that_is_not_too_sure_is_believed_without_a_fall() -> None:
    outcome, given, true = made_up(0.2, 0.2)
    found = analyse(sharper(outcome, 0.3), given, C)
    assert right(found.corrected, true) > right(given, true) + 0.05
    assert found.noise_rate is not None
    assert found.noise_rate.low > 0.1


def test_where_no_harm_was_seen_a_network_that_is_too_sure_changes_no_label() -> None:
    outcome, given, _ = made_up(0.2, 0.2)
    outcome = sharper(outcome, 2.0)
    evidence, decision = turning(outcome)
    found = analyse(outcome, given, C)
    seen = analyse(decided(outcome, evidence, replace(decision, reason=Reason.FALL)), given, C)
    assert torch.equal(found.corrected, given)
    assert found.why_unchanged is Why.CANNOT_TELL
    assert seen.noise_rate is not None
    assert found.noise_rate == seen.noise_rate._replace(low=0.0)
    assert torch.equal(found.findings.action == REVIEW, found.findings.is_issue)
    assert float((found.findings.is_issue & seen.findings.is_issue).sum()) > 0.9 * float(seen.findings.is_issue.sum())
    told = found.findings.suggested != given
    assert torch.equal(found.findings.confidence[told], seen.findings.confidence[told] / 2)


def with_target(outcome: Outcome, table: Tensor) -> Outcome:
    return replace(outcome, target=Store.of({"table": table}, C))


def by_held_out_alone(outcome: Outcome, given: Tensor) -> LabelAnalysis:
    """The same as if one network had held all rows out: then targets are no witness."""
    evidence, decision = turning(outcome)
    return analyse(decided(outcome, replace(evidence, splits=1), decision), given, C)


def test_after_a_fall_the_run_s_own_targets_are_a_second_witness() -> None:
    outcome, given, true = made_up(0.2, 0.2)
    sure = torch.rand(N, generator=rng(77))[:, None] / 2 + 0.5
    table = torch.lerp(torch.full((N, C), 1 / C), nn.functional.one_hot(true, C).float(), sure)
    found = analyse(with_target(outcome, table), given, C)
    seen, decision = turning(outcome)
    looks = range(max(decision.first - 1, 0), min(seen.look_at(decision.best) + 2, seen.looks))
    held = mean_probabilities(seen.predictions, seen.confidences, seen.given, seen.labels, looks, C)
    assert torch.equal(found.corrected, ((held + table) / 2).argmax(dim=1))
    assert right(found.corrected, true) > right(by_held_out_alone(outcome, given).corrected, true)
    assert torch.equal(
        found.findings.suggested[found.findings.action == RELABEL], found.corrected[found.corrected != given]
    )


@pytest.mark.parametrize(("errors", "counts"), [(-3.0, True), (0.5, True), (1.5, False)])
def test_targets_may_contradict_as_many_labels_as_may_be_wrong_and_what_chance_adds(
    errors: float, counts: bool
) -> None:
    """By a share that is so many standard errors, times that of one in twenty, above the end of the range."""
    outcome, given, _ = made_up(0.2, 0.2)
    alone = by_held_out_alone(outcome, given)
    assert alone.noise_rate is not None
    high = alone.noise_rate.high
    share = high + errors * BEYOND * math.sqrt(high * (1 - high) / N)
    other = torch.where(torch.arange(N) < round(share * N), (given + 1) % C, given)
    found = analyse(with_target(outcome, nn.functional.one_hot(other, C).float()), given, C)
    assert torch.equal(found.corrected, other if counts else alone.corrected)


def test_two_networks_are_enough_for_targets_to_be_a_witness_of_every_row() -> None:
    outcome, given, true = made_up(0.2, 0.2)
    outcome = with_target(outcome, nn.functional.one_hot(true, C).float())
    evidence, decision = turning(outcome)
    five, two = (analyse(decided(outcome, replace(evidence, splits=k), decision), given, C) for k in (5, 2))
    assert torch.equal(five.corrected, two.corrected)
    assert not torch.equal(two.corrected, by_held_out_alone(outcome, given).corrected)


def test_targets_that_contradict_more_labels_than_may_be_wrong_are_no_witness() -> None:
    outcome, given, _ = made_up(0.2, 0.2)
    other = torch.where(torch.arange(N) % 2 == 0, (given + 1) % C, given)
    stubborn = with_target(outcome, nn.functional.one_hot(other, C).float())
    assert torch.equal(analyse(stubborn, given, C).corrected, by_held_out_alone(outcome, given).corrected)


def test_targets_that_are_the_given_labels_are_no_witness() -> None:
    """Where no epoch was left for SELC."""
    outcome, given, _ = made_up(0.2, 0.2)
    idle = with_target(outcome, nn.functional.one_hot(given, C).float())
    assert torch.equal(analyse(idle, given, C).corrected, by_held_out_alone(outcome, given).corrected)


@pytest.mark.parametrize("hard", [0.0, 0.3, 0.6])
def test_where_no_label_is_wrong_next_to_none_is_changed(hard: float) -> None:
    found, given, _ = analysed(0.0, hard)
    assert float((found.corrected != given).double().mean()) < 0.005
    assert found.noise_rate is not None
    assert found.noise_rate.low < 0.01


def test_what_is_flagged_has_another_suggestion_and_what_is_relabelled_is_flagged() -> None:
    found, given, _ = analysed(0.2, 0.3)
    rows = found.findings
    assert torch.equal(rows.is_issue, rows.action != KEEP)
    assert bool((rows.suggested != given)[rows.action != KEEP].all())
    assert torch.equal(found.corrected != given, rows.action == RELABEL)
    assert bool((rows.action == REVIEW).any())


def test_the_confidence_of_a_suggestion_is_how_often_it_is_right() -> None:
    """In three groups by confidence, within three standard errors and three hundredths."""
    found, given, true = analysed(0.25, 0.3)
    rows = found.findings
    told = rows.suggested != given
    confidence, hit = rows.confidence[told], (rows.suggested == true)[told].double()
    for part in confidence.argsort().tensor_split(3):
        expected = float(confidence[part].mean())
        error = (expected * (1 - expected) / len(part)) ** 0.5
        assert float(hit[part].mean()) == pytest.approx(expected, abs=3 * error + 0.03)


def test_a_person_has_the_last_word() -> None:
    outcome, given, _ = made_up(0.2, 0.2)
    settled = torch.arange(N) % 3 == 0
    found = analyse(outcome, given, C, settled)
    assert torch.equal(found.corrected[settled], given[settled])
    assert bool((found.findings.action[settled] == KEEP).all())
    assert bool((found.findings.quality[settled] == 1).all())


def test_where_nothing_is_changed_it_says_whether_labels_are_clean_or_no_change_is_sure() -> None:
    outcome, given, _ = made_up(0.1, 0.0)
    found = analyse(outcome, given, C, settled=torch.ones(N, dtype=torch.bool))  # nothing is left to change
    assert found.noise_rate is not None
    assert found.noise_rate.estimate is not None
    assert (found.why_unchanged, round(found.noise_rate.likely * N) > 0) == (Why.NOT_SURE, True)
    outcome, given, _ = made_up(0.0, 0.0)
    clean = analyse(outcome, given, C, settled=torch.ones(N, dtype=torch.bool))
    assert clean.why_unchanged is Why.CLEAN


def test_a_class_that_was_never_held_out_is_never_changed() -> None:
    outcome, given, _ = made_up(0.2, 0.1)
    rows = (given != 2).nonzero().flatten()
    seen, _ = turning(outcome)
    some = Evidence(given[rows], seen.predictions[:, rows], seen.confidences[:, rows], seen.given[:, rows], C, 5, rows)
    found = analyse(decided(outcome, some, decide(some, 2 * L)), given, C)
    assert torch.equal(found.corrected[given == 2], given[given == 2])
    assert not bool(((found.corrected == 2) & (given != 2)).any())


def test_both_witnesses_are_their_mean_without_classes_that_were_never_held_out() -> None:
    """And a row that was never held out has its given label."""
    outcome, given, _ = made_up(0.2, 0.1)
    rows = (given != 2).nonzero().flatten()
    seen, _ = turning(outcome)
    some = Evidence(given[rows], seen.predictions[:, rows], seen.confidences[:, rows], seen.given[:, rows], C, 5, rows)
    decision = replace(decide(some, 2 * L), reason=Reason.FALL)
    judged = judgements(some, decision, None, given)
    both = both_witnesses(judged, some, decision, outcome.target, given, NoiseRate(0.5, 0.0, 1.0))
    wanted = nn.functional.one_hot(given, C).double()
    wanted[rows] = (judged.held_probabilities + outcome.target.full()[rows].double()) / 2
    wanted[rows, 2] = 0
    assert both is not None
    torch.testing.assert_close(both, wanted)


def test_held_out_rows_and_others_have_the_same_distribution_of_quality() -> None:
    """One part of 300 is held out; the others are judged by the training pass, which is surer of the given labels."""
    held = torch.arange(0, N, 4)
    outcome, given, _ = made_up(0.2, 0.2, held)
    outcome = replace(outcome, losses=outcome.losses * 0.3)
    quality = analyse(outcome, given, C).findings.quality
    out = torch.zeros(N, dtype=torch.bool).index_fill_(0, held, True)
    ours, theirs = (quality[part].quantile(torch.linspace(0, 1, 11).double()) for part in (out, ~out))
    assert float((ours - theirs).abs().max()) < 0.1
    among_worst = out[quality.argsort()[:200]]
    assert float(among_worst.double().mean()) == pytest.approx(0.25, abs=0.12)


@pytest.mark.parametrize(("reason", "looks"), [(Reason.FALL, 6), (Reason.NO_FALL, L)])
def test_quality_is_half_of_networks_that_never_saw_a_row_and_half_of_others(reason: Reason, looks: int) -> None:
    """Up to the look after the last good one, the fifth, where harm was seen; to the end, where none was."""
    outcome, given, _ = made_up(0.2, 0.2)
    evidence, decision = turning(outcome)
    learnt = torch.rand(L, N, generator=rng(7))
    known = decided(outcome, replace(evidence, learnt=learnt), replace(decision, reason=reason, last=4))
    expected = (evidence.given[:looks].double().mean(dim=0) + learnt[:looks].double().mean(dim=0)) / 2
    torch.testing.assert_close(analyse(known, given, C).findings.quality, expected)


def test_a_network_that_has_learnt_nothing_leaves_every_label_and_says_why() -> None:
    outcome, given, _ = made_up(0.2, 0.2)
    evidence, decision = turning(outcome)
    found = analyse(decided(outcome, evidence, replace(decision, start=None, reason=Reason.NOT_LEARNT)), given, C)
    assert torch.equal(found.corrected, given)
    assert (found.why_unchanged, found.noise_rate) == (Why.NOT_LEARNT, None)


def test_where_nothing_could_be_held_out_every_label_stays() -> None:
    outcome, given, _ = made_up(0.2, 0.2)
    found = analyse(decided(outcome, None, Decision.too_few()), given, C)
    assert torch.equal(found.corrected, given)
    assert found.why_unchanged is Why.TOO_FEW


def test_a_method_without_evidence_hands_out_what_it_believes_for_review() -> None:
    outcome, given, _ = made_up(0.2, 0.2)
    found = analyse(replace(outcome, decided=None), given, C)
    assert torch.equal(found.corrected, outcome.believed_labels)
    assert found.noise_rate is None
    assert set(found.findings.action.tolist()) == {KEEP, REVIEW}
    assert found.why_unchanged is None
    same = analyse(with_target(replace(outcome, decided=None), nn.functional.one_hot(given, C).float()), given, C)
    assert (same.why_unchanged, bool(same.findings.is_issue.any())) == (Why.METHOD, False)


def test_the_quality_of_a_label_is_its_mean_probability_over_the_epochs_in_which_it_came() -> None:
    outcome, given, _ = made_up(0.2, 0.2)
    losses = outcome.losses.clone()
    losses[1:, 0] = torch.nan  # came once
    losses[:, 1] = torch.nan  # never came: by its target
    quality = analyse(replace(outcome, decided=None, losses=losses), given, C).findings.quality
    assert float(quality[0]) == pytest.approx(math.exp(-float(losses[0, 0])), rel=1e-6)
    assert float(quality[1]) == pytest.approx(float(outcome.target.full()[1, given[1]]), rel=1e-6)
    assert float(quality[2]) == pytest.approx(math.exp(-float(losses[:, 2].double().mean())), rel=1e-6)


@pytest.mark.parametrize("known", [True, False])
def test_an_analysis_comes_back_from_a_file_as_it_was(known: bool) -> None:
    outcome, given, _ = made_up(0.2, 0.2)
    found = analyse(outcome if known else replace(outcome, decided=None), given, C)
    again = LabelAnalysis.of_saved(found.as_dict(), found.findings, found.corrected)
    assert (again.noise_rate, again.decision, again.why_unchanged) == (
        found.noise_rate,
        found.decision,
        found.why_unchanged,
    )
    assert (again.noise_rate is not None) == known
    assert torch.equal(again.transition_matrix, found.transition_matrix)


def test_the_matrix_is_that_of_the_labels() -> None:
    found, given, true = analysed(0.3, 0.1)
    really = torch.zeros(C, C).double().index_put_((true, given), torch.ones(N).double(), accumulate=True)
    torch.testing.assert_close(found.transition_matrix, really / really.sum(1, keepdim=True), atol=0.06, rtol=0)
    torch.testing.assert_close(found.transition_matrix.sum(1), torch.ones(C).double())


def test_a_matrix_of_certain_changes_counts_them() -> None:
    given, named = torch.tensor([0, 0, 0, 1]), torch.tensor([0, 1, 0, 1])
    found = transitions(given, named, torch.tensor([0.0, 1.0, 0.0, 0.0]), 3)
    assert found.tolist() == [[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1]]


def test_a_class_of_which_there_is_half_a_row_has_a_line_of_its_own_in_the_matrix() -> None:
    found = transitions(torch.tensor([0, 0]), torch.tensor([1, 0]), torch.tensor([0.5, 0.0]), 3)
    assert found.tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 1]]


def test_values_are_moved_to_another_distribution_and_keep_their_order() -> None:
    values, others = torch.rand(50, generator=rng(0)).double(), torch.randn(400, generator=rng(1)).double() * 3 + 7
    moved = like(values, others)
    assert torch.equal(moved.argsort(), values.argsort())
    assert float(moved.mean()) == pytest.approx(float(others.mean()), abs=0.1)
    assert float(moved.std()) == pytest.approx(float(others.std()), rel=0.1)
    torch.testing.assert_close(like(others, others), others)


@pytest.mark.parametrize(("count", "many"), [(50, 400), (400, 50), (7, 7), (1, 5), (1, 4), (3, 1)])
def test_the_value_of_a_rank_is_the_quantile_of_that_rank_among_the_others(count: int, many: int) -> None:
    """Ranks stand in the middle of their share, as in Hazen's quantiles."""
    values, others = torch.rand(count, generator=rng(0)).double(), torch.randn(many, generator=rng(1)).double()
    wanted = np.quantile(others.numpy(), (np.arange(count) + 0.5) / count, method="hazen")
    np.testing.assert_allclose(like(values, others).sort().values, wanted, atol=1e-12)


def test_where_there_are_no_others_values_stay_as_they_are() -> None:
    values = torch.tensor([0.3, 0.1]).double()
    assert torch.equal(like(values, values[:0]), values)
    assert len(like(values[:0], values)) == 0


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_of_each_look_two_probabilities_are_known_and_the_other_classes_share_the_rest(classes: int) -> None:
    labels = random_labels(6, classes, seed=0)
    p = (2 * torch.randn(4, 6, classes, generator=rng(1)).double()).softmax(dim=2)
    confidences, predictions = p.max(dim=2)
    given = p[:, torch.arange(6), labels]
    found = mean_probabilities(predictions, confidences, given, labels, range(1, 4), classes)
    for row in range(6):
        wanted = np.zeros(classes)
        for look in range(1, 4):
            told = {int(predictions[look, row]): float(confidences[look, row])}
            told[int(labels[row])] = float(given[look, row])
            others = classes - len(told)
            wanted += [told.get(k, (1 - sum(told.values())) / max(others, 1)) / 3 for k in range(classes)]
        np.testing.assert_allclose(found[row], wanted, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_what_is_named_over_looks_is_named_by_their_predictions_alone(classes: int) -> None:
    p = (2 * torch.randn(4, 6, classes, generator=rng(1)).double()).softmax(dim=2)
    confidences, predictions = p.max(dim=2)
    sure, named = named_blindly(predictions, confidences, range(1, 4), classes)
    for row in range(6):
        wanted = np.zeros(classes)
        for look in range(1, 4):
            rest = (1 - float(confidences[look, row])) / (classes - 1)
            wanted += [float(confidences[look, row]) if k == predictions[look, row] else rest for k in range(classes)]
        assert int(named[row]) == wanted.argmax()
        assert float(sure[row]) == pytest.approx(wanted.max() / 3, abs=1e-12)


@pytest.mark.parametrize("held", [None, torch.arange(0, N, 2)])
def test_a_label_has_no_say_in_what_is_named_against_it_and_how_surely(held: Tensor | None) -> None:
    """A network's probability of the given label would make it surer where it agrees, and the surest rows too clean."""
    outcome, given, _ = made_up(0.3, 0.5, held)
    evidence, decision = turning(outcome)
    seen = Pass(outcome.losses, outcome.predictions, outcome.confidences, outcome.beliefs)
    found = judgements(evidence, decision, seen, given)
    others = (given + 1) % C
    labels = others if held is None else others[held]
    relabelled = replace(evidence, labels=labels, given=evidence.given.flip(1))
    again = judgements(relabelled, decision, seen._replace(losses=seen.losses.flip(1)), others)
    for name in ("predicted", "confidence", "held_predicted", "held_confidence"):
        assert torch.equal(getattr(again, name), getattr(found, name)), name


def test_a_row_that_was_trained_on_is_judged_by_the_epochs_that_begin_after_the_start() -> None:
    """Looks twice an epoch: the start after one and a half, so the third epoch is the first that lies behind it."""
    held = torch.arange(0, N, 2)
    outcome, given, _ = made_up(0.2, 0.2, held)
    evidence, decision = turning(outcome)
    evidence = replace(evidence, looks_per_epoch=2)
    decision = replace(decision, first=2, start=1.5, best=2.5, last=6)
    seen = Pass(outcome.losses, outcome.predictions, outcome.confidences, outcome.beliefs)
    found = judgements(evidence, decision, seen, given)
    rows = torch.arange(1, N, 2)
    assert torch.equal(found.predicted[rows], seen.predictions[2, rows])
    looks = range(1, 6)  # those of the start to those of the best, each with its neighbours
    held_out = (evidence.predictions, evidence.confidences, evidence.given, evidence.labels)
    torch.testing.assert_close(found.held_probabilities, mean_probabilities(*held_out, looks, C))
    assert not torch.equal(seen.predictions[1, rows], seen.predictions[2, rows])


@pytest.mark.parametrize(("first", "best", "epochs"), [(2, 6.0, range(3, 6)), (L - 1, float(L), range(L - 1, L))])
def test_a_row_that_was_trained_on_is_judged_by_all_epochs_up_to_the_best_and_by_one_at_least(
    first: int, best: float, epochs: range
) -> None:
    """One look an epoch. Where the start is the last look no epoch begins after it; then it is the last one."""
    outcome, given, _ = made_up(0.2, 0.2, torch.arange(0, N, 2))
    evidence, decision = turning(outcome)
    decision = replace(decision, first=first, start=first + 1.0, best=best, last=L - 1)
    seen = Pass(outcome.losses, outcome.predictions, outcome.confidences, outcome.beliefs)
    found = judgements(evidence, decision, seen, given)
    rows = torch.arange(1, N, 2)
    wanted = np.zeros((len(rows), C))
    for epoch in epochs:
        sure = outcome.confidences[epoch, rows].double().numpy()
        table = np.tile(((1 - sure) / (C - 1))[:, None], C)
        table[np.arange(len(rows)), outcome.predictions[epoch, rows]] = sure
        wanted += table
    assert found.predicted[rows].tolist() == wanted.argmax(axis=1).tolist()


def test_a_row_that_was_never_trained_on_has_the_quality_that_held_out_looks_give_it() -> None:
    held = torch.arange(0, N, 3)
    outcome, given, _ = made_up(0.2, 0.2, held)
    evidence, decision = turning(outcome)
    predictions, losses = outcome.predictions.clone(), outcome.losses.clone()
    predictions[:, held], losses[:, held] = -1, torch.nan
    seen = Pass(losses, predictions, outcome.confidences, outcome.beliefs)
    found = judgements(evidence, decision, seen, given)
    torch.testing.assert_close(found.quality[held], evidence.given[: decision.last + 2].double().mean(dim=0))


def test_the_training_pass_alone_ranks_labels_and_changes_none() -> None:
    outcome, given, _ = made_up(0.2, 0.2)
    seen = Pass(outcome.losses, outcome.predictions, outcome.confidences, outcome.beliefs)
    found, end = by_training_pass(seen, given, C), calmest(seen.predictions)
    assert torch.equal(found.findings.predicted, seen.predictions[-1])
    assert torch.equal(found.corrected, given)
    torch.testing.assert_close(found.findings.quality, seen.losses[:end].double().neg().exp().mean(dim=0))
    assert found.noise_rate is not None
    assert (found.noise_rate.low, found.noise_rate.estimate) == (0.0, None)
    once = (seen.predictions[max(end - 3, 0) : end] != given).any(dim=0).double().mean()
    assert float(once) <= found.noise_rate.high < 0.5  # and not to those that were agreed with
    rate, suggested = found.noise_rate, found.findings.suggested != given
    assert int((found.findings.action == REVIEW).sum()) <= (rate.likely + rate.high) / 2 * N + 1
    assert bool((found.findings.confidence[suggested] <= 0.5).all())  # as likely hard as wrong
    worst = found.findings.quality.argsort()[: int(found.noise_rate.likely * N)]
    told = (found.findings.suggested != given)[worst]
    assert torch.equal(found.findings.action[worst] == REVIEW, told)
    assert bool(told.any())


def test_predictions_are_calmest_at_the_first_minimum_of_their_changes() -> None:
    """So many of twenty samples change from each epoch to the next."""
    moves = [12, 8, 4, 2, 2, 4, 8, 12, 12, 12, 12]
    predictions = torch.zeros(12, 20, dtype=torch.long)
    for epoch, count in enumerate(moves, start=1):
        predictions[epoch] = predictions[epoch - 1]
        predictions[epoch, :count] += 1
    turn = first_minimum([count / 20 for count in moves], waited(12))
    assert turn is not None
    assert calmest(predictions) == turn.peak == 5
    assert calmest(predictions[:5]) == 5  # it never changed more again: all of them


class Another:
    """What a method decided that knows of no turning point."""

    def save(self, folder: Path) -> None: ...


def test_what_another_method_has_decided_is_no_evidence() -> None:
    outcome, given, _ = made_up(0.2, 0.2)
    ours, none = (analyse(replace(outcome, decided=what), given, C) for what in (Another(), None))
    assert ours.as_dict() == none.as_dict()
    for name, table in ours.tensors().items():
        assert torch.equal(table, none.tensors()[name]), name
