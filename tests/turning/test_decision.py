"""When SELC starts: by made-up trainings of which it is known what is right."""

from __future__ import annotations

import ast
import math
from pathlib import Path
from statistics import NormalDist

import pytest
import torch
from torch import Tensor

from selc.turning import Decision, Evidence, Reason, decide
from selc.turning.decision import CHANCE, alpha_for, better_than_chance, fair_to_classes, fallen, worse
from tests.helpers import random_labels, rng
from tests.turning.made_up import evidence, learning

SOURCE = Path(__file__).parents[2] / "src" / "selc"


def falling(looks: int, rows: int, peak: int, fall: float) -> torch.Tensor:
    """Learning up to 0.9 at ``peak``, then ``fall`` lower at the end."""
    p = learning(looks, rows, 0.9, peak / 4)
    p[peak:] -= torch.linspace(0, fall, looks - peak)[:, None]
    return p


def test_a_fall_is_seen_and_correction_starts_before_it() -> None:
    decision = decide(evidence(falling(40, 1000, peak=12, fall=0.2), random_labels(1000, 4, 0), 4), 40)
    assert decision.reason is Reason.FALL
    assert decision.fall == pytest.approx(0.2, abs=0.04)
    assert decision.start is not None
    assert 6 <= decision.start <= decision.best <= 20


def test_a_network_that_learns_to_the_end_is_not_stopped_in_its_youth() -> None:
    slow = learning(100, 700, 0.97, slowness=30)
    decision = decide(evidence(slow, random_labels(700, 11, 0), 11), 100)
    assert decision.reason is Reason.NO_FALL
    assert decision.start is not None
    assert decision.start > 60
    assert slow[int(decision.start) - 1, 0] > slow[-1, 0] - 0.05


@pytest.mark.parametrize("wobble", [0.0, 0.01])
def test_where_nothing_falls_a_fall_is_claimed_in_one_training_of_twenty_at_most(wobble: float) -> None:
    """Of 200 made-up trainings: 5 % and three standard errors of it."""
    rows = 300
    claims = 0
    for seed in range(200):
        seen = evidence(learning(30, rows, 0.9), random_labels(rows, 3, seed), 3, seed=10 * seed, wobble=wobble)
        claims += decide(seen, 30).reason is Reason.FALL
    assert claims <= 200 * 0.05 + 3 * math.sqrt(200 * 0.05 * 0.95)


def test_the_fall_that_is_there_is_measured_without_bias_by_the_choice_of_the_maximum() -> None:
    flat = [fallen(evidence(learning(40, 200, 0.8), random_labels(200, 2, s), 2, seed=10 * s))[0] for s in range(60)]
    assert abs(sum(flat) / len(flat)) < 0.005


def test_a_fall_is_measured_on_rows_that_its_best_look_was_not_found_on() -> None:
    """Each half of the rows has a peak at looks of its own, at which the other half is predicted as at the end."""
    labels, even = torch.arange(80) // 2 % 2, torch.arange(80) % 2 == 0
    right = (torch.arange(80) < 40).expand(12, 80).clone()
    right[2:5, even] = right[7:10, ~even] = True
    sure = torch.full((12, 80), 0.8)
    seen = Evidence(labels, torch.where(right, labels, 1 - labels), sure, sure, 2, 1)
    assert seen.behind(11, 3, even)[0] == seen.behind(11, 8, ~even)[0] == 0.5
    assert fallen(seen)[0] == 0


def test_the_error_of_a_fall_is_how_much_falls_differ_from_training_to_training() -> None:
    """Within a half: of 60 trainings a deviation is known to a tenth, and the error of each is itself estimated."""
    found = [fallen(evidence(learning(40, 200, 0.8), random_labels(200, 2, s), 2, seed=10 * s)) for s in range(60)]
    falls, errors = torch.tensor(found).T
    assert float(errors.mean()) == pytest.approx(float(falls.std()), rel=0.5)


def test_where_the_last_look_is_the_best_a_fall_has_the_error_of_one_from_half_way() -> None:
    """Ten more labels of a thousand are predicted at each look, in both halves of the rows as many."""
    labels = torch.arange(1000) % 2
    right = torch.arange(500, 700, 10)[:, None] > torch.arange(1000)
    sure = torch.full((20, 1000), 0.8)
    seen = Evidence(labels, torch.where(right, labels, 1 - labels), sure, sure, 2, 1)
    even = torch.arange(1000) % 2 == 0
    first, second = (seen.behind(19, 9, half)[1] for half in (even, ~even))
    fall, error = fallen(seen)
    assert fall == 0
    assert 0 < error == pytest.approx(math.hypot(first, second) / 2)


def in_two_steps(rows: int, first: int, then: int, looks_per_epoch: int = 1) -> Evidence:
    """Twenty looks: the first ten name so many of the labels, the others so many."""
    labels = torch.arange(rows) % 2
    right = torch.tensor([first] * 10 + [then] * 10)[:, None] > torch.randperm(rows, generator=rng(0))
    sure = torch.full((20, rows), 0.8)
    return Evidence(labels, torch.where(right, labels, 1 - labels), sure, sure, 2, 1, looks_per_epoch=looks_per_epoch)


def test_a_look_that_is_more_than_a_point_behind_is_not_as_good_however_few_the_rows() -> None:
    seen = in_two_steps(24, 20, 21)
    behind, error = seen.behind(2, 15)
    assert 0.01 < behind <= error
    assert decide(seen, 20).start == 12  # epochs: the first mean over three looks that has only later ones


def test_a_start_may_lie_within_the_first_epoch_and_not_before_the_earliest() -> None:
    seen = in_two_steps(400, 300, 300, looks_per_epoch=4)
    assert decide(seen, 5).start == 0.25
    assert [decide(seen, 5, earliest=clock).start for clock in (0.25, 0.3, 2.0)] == [0.25, 0.5, 2.0]
    assert decide(seen, 5, earliest=2.0).last == decide(seen, 5).last == 19


def test_momentum_is_by_the_epochs_that_are_left_after_the_start() -> None:
    """Two of twenty are left, so a label can lose three quarters of its weight with a momentum of a half."""
    assert decide(in_two_steps(400, 300, 300), 20, earliest=18.0).alpha == pytest.approx(0.5)


def test_of_nothing_held_out_nothing_is_claimed() -> None:
    none = Decision.too_few()
    assert (none.start, none.reason, none.can_see) == (None, Reason.TOO_FEW, False)
    assert none.best == none.accuracy == none.fall == none.fall_error == none.alpha == none.first == none.last == 0


def test_few_rows_see_little_and_say_so() -> None:
    few, many = (decide(evidence(falling(30, rows, 8, 0.02), random_labels(rows, 2, 0), 2), 30) for rows in (24, 4000))
    assert not few.can_see
    assert many.can_see
    assert many.visible < few.visible


@pytest.mark.parametrize(("rows", "classes", "rare"), [(1000, 2, 50), (4000, 100, 40)])
def test_a_start_at_which_a_class_is_not_learnt_yet_is_not_taken(rows: int, classes: int, rare: int) -> None:
    """95 : 5, and one of a hundred classes: all others are learnt at look 5, this one at look 25."""
    labels = random_labels(rows, classes - 1, seed=0) if classes > 2 else torch.zeros(rows).long()
    labels[:rare] = classes - 1
    p = learning(40, rows, 0.95, slowness=1.5)
    p[:25, :rare] = 0.0
    p[25:, :rare] = 0.95
    decision = decide(evidence(p, labels, classes), 40)
    assert decision.start is not None
    assert decision.start > 24


def test_one_class_of_ten_may_lag_as_far_as_chance_takes_the_worst_of_ten() -> None:
    """So many rows of one class are learnt later than all others; the bound is the 99.5 % point of a normal one."""
    labels, found, between = torch.arange(2000) % 10, set(), 0
    for late in range(12):
        right = (torch.arange(2000) % 7 > 0).expand(20, 2000).clone()
        mine = (right[0] & (labels == 0)).nonzero().flatten()[:late]
        right[:10, mine] = False
        sure = torch.full((20, 2000), 0.8)
        seen = Evidence(labels, torch.where(right, labels, (labels + 1) % 10), sure, sure, 10, 1)
        behind, error = seen.behind(4, 15, labels == 0)
        assert fair_to_classes(seen, 4, 15) is (behind <= 2.5758293 * error)
        found.add(behind <= 2.5758293 * error)
        between += 1.7 * error < behind < 2.5 * error  # fair among ten, and not alone
    assert found == {True, False}
    assert between


def test_a_network_that_predicts_nothing_starts_nothing() -> None:
    labels = random_labels(500, 10, seed=0)
    decision = decide(evidence(torch.full((20, 500), 0.1), labels, 10), 20)
    assert (decision.reason, decision.start) == (Reason.NOT_LEARNT, None)


def test_the_majority_class_for_everything_is_no_better_than_chance() -> None:
    labels = (torch.rand(400, generator=rng(0)) < 0.05).long()
    assert not better_than_chance(torch.zeros(1, 400).long(), labels)
    assert better_than_chance(labels[None], labels)


def test_chance_is_what_labels_do_that_are_dealt_anew() -> None:
    """The share of shuffled labels that is predicted has the mean and the deviation of the test, written out."""
    labels = (random_labels(300, 10, seed=9) - 6).clamp(0, 2)  # of three classes the first is the most frequent
    predictions = torch.stack([random_labels(300, 4, seed=seed).clamp_max(2) for seed in range(3)])
    dealt = torch.stack([labels[torch.randperm(300, generator=rng(seed))] for seed in range(4000)])
    shares = (predictions[None] == dealt[:, None]).double().mean(dim=(1, 2))
    claimed = sum(better_than_chance(predictions, other) for other in dealt[:1000]) / 1000
    assert claimed == pytest.approx(CHANCE, abs=0.03)
    assert shares.quantile(1 - CHANCE) == pytest.approx(threshold(predictions, labels), abs=0.004)


def threshold(predictions: Tensor, labels: Tensor) -> float:
    """The largest share of hits that is still chance, by mean and variance over all ways to deal (Hoeffding 1951)."""
    votes = torch.nn.functional.one_hot(predictions.long()).double().mean(dim=0)
    said = votes[:, labels]  # [M, M]: the score of row i with the label of row j
    centred = said - said.mean(dim=0) - said.mean(dim=1, keepdim=True) + said.mean()
    error = math.sqrt(float(centred.square().sum()) / (len(labels) - 1)) / len(labels)
    return float(said.mean()) + NormalDist().inv_cdf(1 - CHANCE) * error


def test_another_training_is_worse_only_beyond_chance() -> None:
    labels = random_labels(400, 3, seed=0)
    seen = evidence(learning(20, 400, 0.9), labels, 3)
    assert not worse(seen, seen.predictions)
    spoilt = seen.predictions.clone()
    spoilt[:, :60] = (labels[:60] + 1) % 3
    assert worse(seen, spoilt)


def test_the_same_predictions_are_not_worse_also_where_nothing_wavers() -> None:
    labels = random_labels(400, 3, seed=0)
    sure = torch.full((20, 400), 0.8)
    seen = Evidence(labels, labels.expand(20, 400), sure, sure, 3, 1)
    assert seen.scatter == 0
    assert not worse(seen, seen.predictions)


def test_how_many_labels_fewer_are_beyond_chance_is_as_written_out() -> None:
    """By the means of the last three looks; those before them may be as bad as they like."""
    labels, found = random_labels(400, 3, seed=0), set()
    seen = evidence(learning(20, 400, 0.9), labels, 3, wobble=0.02)
    before = seen.hits[int(seen.curve.argmax())].double()
    for fewer in range(40):
        right = before > 0.5
        right[right.nonzero().flatten()[:fewer]] = False
        later = torch.where(right, labels, (labels + 1) % 3).expand(3, 400)
        apart = (before - right.double()).tolist()
        mean = math.fsum(apart) / 400
        variance = math.fsum((a - mean) ** 2 for a in apart) / 399 / 400
        expected = mean > 1.6448536 * math.sqrt(variance + 2 * seen.scatter**2)
        assert worse(seen, torch.cat([((labels + 1) % 3).expand(5, 400), later])) is expected
        found.add(expected)
    assert found == {True, False}


@pytest.mark.parametrize("left", [0.5, 1, 3, 10, 100])
def test_a_label_can_lose_three_quarters_of_its_weight_in_the_epochs_that_are_left(left: float) -> None:
    assert alpha_for(100.0, left) == pytest.approx(min(2 ** (-5 / 100), 0.25 ** (1 / left)))
    assert alpha_for(3.0, left) == pytest.approx(min(0.75, 0.25 ** (1 / left)))


def test_where_no_epoch_is_left_targets_follow_the_network_at_once() -> None:
    assert alpha_for(3.0, 0.0) == alpha_for(3.0, -1.0) == 0.0


def test_a_decision_comes_back_from_a_file_as_it_was() -> None:
    decision = decide(evidence(falling(20, 200, 6, 0.2), random_labels(200, 2, 0), 2), 20)
    assert Decision.from_dict(decision.as_dict()) == decision
    assert Decision.too_few().start is None


def numerals(*files: str) -> list[float]:
    """Numbers other than 0, 1 and 2 in the code of some files."""
    trees = [ast.parse((SOURCE / file).read_text()) for file in files]
    values = [node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    numbers = [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    return [number for number in numbers if number not in (0, 1, 2)]


def test_what_decides_when_to_start_has_five_numbers_at_most() -> None:
    assert len(numerals("turning/evidence.py", "turning/decision.py")) <= 5


def test_what_decides_about_labels_has_five_numbers_at_most() -> None:
    assert len(numerals("analysis/noise_rate.py", "analysis/label_analysis.py")) <= 5
