"""The turning point as it passes: what the rule sees, when it speaks, and what it says."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from selc.core.judgement import contested, noise_rate, trust, unknown
from selc.core.turning import Turn, alpha_for, halving_time, recognise
from selc.core.window import Window, changed_mind, gap, look


def course(gaps: list[float], dispute: float = 0.4, fifth: float = 0.3) -> list[Window]:
    """A training whose losses lie ``gaps`` apart, epoch by epoch, and whose dispute becomes less pure as they fall."""
    drawn = [(1 + 2 * value / max(*gaps[: epoch + 1], 1e-9)) / 3 for epoch, value in enumerate(gaps)]
    return [
        Window(epoch + 0.5, value, dispute, part * (dispute + fifth) / 2, part * fifth)
        for epoch, (value, part) in enumerate(zip(gaps, drawn, strict=True))
    ]


def first_word(gaps: list[float], epochs: int, **shares: float) -> tuple[int, Turn]:
    """After how many epochs the rule speaks for the first time, and what it says."""
    whole = course(gaps, **shares)
    for now in range(1, len(gaps) + 1):
        turn = recognise(whole[:now], now, epochs)
        if turn is not None:
            return now, turn
    raise AssertionError("it never spoke")


def test_a_peak_is_recognised_once_the_gap_has_fallen_by_a_tenth() -> None:
    now, turn = first_word([0.5, 1.0, 2.0, 1.9, 1.85, 1.7, 1.0], epochs=60)
    assert now == 6  # 1.7 is the first below 0.9 * 2.0
    assert turn.peak == turn.start == 2.5
    assert turn.reason == "the losses drew together again"


def test_the_first_epoch_does_not_count() -> None:
    _, turn = first_word([9.0, 1.0, 2.0, 1.0], epochs=60)
    assert turn.peak == 2.5


def fickle_course(shares: list[float], lasting: int = 500) -> list[Window]:
    """A training whose gap and purity fall from the second epoch on, and that changes its mind so often."""
    falling = course([0.5, 2.0, *(2.0 * 0.85**epoch for epoch in range(1, len(shares) - 1))])
    return [w._replace(fickle=share, lasting=lasting) for w, share in zip(falling, shares, strict=True)]


def starts(windows: list[Window], epochs: int = 60) -> tuple[int, float | None]:
    """After how many epochs the rule speaks, and the start."""
    for now in range(1, len(windows) + 1):
        if (turn := recognise(windows[:now], now, epochs)) is not None:
            return now, turn.start
    return 0, None


def test_a_network_that_changes_its_mind_is_still_learning() -> None:
    """The losses draw together and purity falls from the third epoch on; nothing is said before the network is steady,
    and then it is not sent back to its youth."""
    assert starts(fickle_course([0.5, 0.0, 0.0, 0.0])) == (3, 1.5)
    assert starts(fickle_course([0.5, 0.4, 0.3, 0.2, 0.15, 0.11, 0.09, 0.08])) == (7, 6.5 - 2)
    assert starts(fickle_course([0.5, 0.4, 0.3, 0.25, 0.2, 0.2, 0.2, 0.2])) == (0, None)
    now, start = starts(fickle_course([0.5, 0.4, 0.3, *(0.2 for _ in range(12))]), epochs=16)
    assert (now, start) == (12, 12.0)  # three quarters of the epochs


def test_a_network_that_wavers_no_less_for_long_does_not_learn_any_more() -> None:
    """Of 20 epochs, 15 % are three; a wait is renewed by whoever comes within a standard error, 0.018 here."""
    assert starts(fickle_course([0.5, 0.4, 0.3, 0.2, 0.25, 0.25, 0.25, 0.25, 0.25]), epochs=20) == (8, 7.5 - 2)
    assert starts(fickle_course([0.5, 0.4, 0.3, 0.2, 0.25, 0.25, 0.215, 0.25, 0.25]), epochs=20) == (0, None)
    assert starts(fickle_course([0.5, 0.4, 0.3, 0.2, 0.25, 0.25, 0.25, 0.25, 0.25]), epochs=60) == (0, None)


def test_a_network_that_never_was_steady_is_waited_for_until_half_of_its_contradictions_are_gone() -> None:
    windows = fickle_course([0.5, 0.4, 0.3, 0.2, 0.2, 0.2, 0.2])
    fewer = [w._replace(lasting=lasting) for w, lasting in zip(windows, (0, 500, 400, 300, 260, 240, 230), strict=True)]
    assert starts(windows) == (0, None)
    assert starts(fewer) == (6, 5.5 - 2)


def test_a_change_of_mind_is_another_contradiction_of_the_same_label() -> None:
    labels = torch.tensor([0, 0, 0, 0, 0, 0])
    before = torch.tensor([1, 1, 1, 0, 0, -1])
    now = torch.tensor([1, 2, 0, 1, 0, 1])
    assert changed_mind(now, before, labels, 3).tolist() == [0, 1, -1, -1, -1, -1]


def test_of_two_classes_a_change_of_mind_is_a_contradiction_that_is_new() -> None:
    labels, before = torch.tensor([0, 0, 0, 0, 1]), torch.tensor([1, 0, 1, -1, 0])
    assert changed_mind(torch.tensor([1, 1, 0, 1, 0]), before, labels, 2).tolist() == [0, 1, -1, -1, 0]


def test_changes_of_mind_are_counted_among_the_surer_half() -> None:
    changed = torch.tensor([1, 1, 1, 1, 0, 1, 0, 0, -1, -1], dtype=torch.int8)
    window = look(torch.rand(10), torch.zeros(10, dtype=torch.bool), torch.linspace(0, 1, 10), 2, changed)
    assert window.lasting == 3  # of the last five
    assert window.fickle == pytest.approx(1 / 3)
    assert window.steady  # one of three is a handful
    assert not window._replace(lasting=100, fickle=0.1).steady
    assert window._replace(lasting=101, fickle=10 / 101).steady
    assert window._replace(lasting=4, fickle=1.0).steady


def plateau(purities: list[float]) -> list[Window]:
    """Losses that neither draw apart nor together, while the dispute is so pure."""
    return [Window(e + 0.5, 2.0 if e else 0.5, 0.4, 0.4 * part, 0.4 * part) for e, part in enumerate(purities)]


def test_purity_rises_as_a_network_learns_and_falls_as_it_memorises() -> None:
    """Wrong labels fall on sure predictions as on others, own errors on unsure ones, and the surest memorise first."""
    agrees, confidence, wrong = simulated(noise=0.2, errors=0.3)
    learnt = look(torch.rand(len(agrees)), ~wrong, confidence, 1)
    young = look(torch.rand(len(agrees)), agrees, confidence, 1)
    memorising = look(torch.rand(len(agrees)), ~(wrong & (confidence < 0.8)), confidence, 1)
    assert learnt.purity == pytest.approx(1.0, abs=0.05)
    assert young.purity < 0.9 * learnt.purity
    assert memorising.purity < 0.7 * learnt.purity
    assert Window(1.5, 1.0, 0.0, 0.0, 0.0).purity == 0.0


def test_a_plateau_is_the_turning_point_where_the_dispute_has_become_less_pure() -> None:
    seen = plateau([0.75] * 4 + [0.65] * 20)
    assert recognise(seen[:7], 7, 40) is None  # 7 - 1.5 does not exceed 0.15 * 40
    turn = recognise(seen[:8], 8, 40)
    assert turn is not None
    assert turn.start == turn.peak == 1.5
    assert "memorised" in turn.reason


def test_a_network_that_still_learns_on_a_plateau_is_left_alone() -> None:
    """The surest contradict as many labels as ever, so nothing is memorised; in the end SELC starts where it is."""
    seen = plateau([0.75] * 40)
    assert all(recognise(seen[:now], now, 40) is None for now in range(1, 30))
    turn = recognise(seen[:30], 30, 40)
    assert turn is not None
    assert turn.start == 30
    assert "nothing was memorised" in turn.reason


def test_losses_that_draw_together_while_the_dispute_becomes_purer_are_hard_samples_being_learnt() -> None:
    gaps = [0.5, 1.4, 1.3, 1.2, 1.1, 1.0, 1.0, 1.0]
    disputes = [0.8, 0.6, 0.55, 0.5, 0.45, 0.4, 0.4, 0.4]
    learning = [Window(e + 0.5, g, d, d / 2 + 0.1, 0.2) for e, (g, d) in enumerate(zip(gaps, disputes, strict=True))]
    assert all(recognise(learning[:now], now, 60) is None for now in range(1, 9))
    memorising = [window._replace(dispute_half=0.2, dispute_fifth=0.1) for window in learning[-2:]]
    assert recognise(learning[:-2] + memorising, 8, 60) is not None


def test_of_few_samples_purity_must_fall_farther_than_by_chance() -> None:
    """Three hundred samples: the surest sixty contradict 23 labels, then 19, and the gap jumps. That says nothing."""
    course = [(0.2, 0.6, 0.6, 0.6), (0.25, 0.58, 0.5, 0.38), (0.49, 0.54, 0.5, 0.38), (0.35, 0.53, 0.43, 0.32)]
    few = [Window(e + 0.5, *at, samples=300) for e, at in enumerate(course)]
    many = [window._replace(samples=300_000) for window in few]
    assert recognise(few, 4, 100) is None
    assert recognise(many, 4, 100) is not None


def test_the_error_of_purity_is_that_of_two_shares() -> None:
    """Drawn anew ten thousand times: labels of 400 samples of which the surer are contradicted less often."""
    rng = torch.Generator().manual_seed(0)
    draws = torch.rand(10_000, 400, generator=rng) < torch.linspace(0.2, 0.4, 400)
    every, half, fifth = (draws[:, :n].double().mean(1) for n in (400, 200, 80))
    window = Window(1.5, 1.0, float(every.mean()), float(half.mean()), float(fifth.mean()), samples=400)
    spread = float(((half + fifth) / 2 / every.mean()).std())
    assert window.error == pytest.approx(spread, rel=0.3)


def test_a_long_plateau_is_not_left_at_its_beginning_and_is_judged_by_where_it_is_left() -> None:
    seen = plateau([0.75] * 20 + [0.9, 0.75, 0.75, 0.5, 0.5])
    turn = recognise(seen, 25, 40)
    assert turn is not None
    assert turn.start == 25 - 0.15 * 40
    assert turn.best == 19
    assert turn.dispute_fifth == pytest.approx(0.4 * 0.9)


def test_a_later_false_peak_does_not_count_because_the_first_was_recognised_before() -> None:
    now, turn = first_word([0.5, 1.0, 2.0, 1.0, 0.5, 3.0, 4.0], epochs=60)
    assert (now, turn.peak) == (4, 2.5)


def test_without_a_peak_it_starts_at_three_quarters_and_says_so() -> None:
    now, turn = first_word([0.1 * e for e in range(40)], epochs=40)
    assert now == 30
    assert turn.start == 30
    assert "three quarters" in turn.reason
    assert turn.alpha ** (40 - 30) < 0.5, "labels must be able to change in the epochs that are left"


def test_the_cost_of_stepping_back_is_bounded_by_a_quarter_of_the_epochs() -> None:
    """Whatever the course: epochs watched, and after the step back the rest, exceed the plan by at most a quarter."""
    for seed in range(300):
        rng = torch.Generator().manual_seed(seed)
        epochs = int(torch.randint(8, 200, (1,), generator=rng))
        gaps = (torch.rand(epochs, generator=rng).cumsum(0) * torch.rand(epochs, generator=rng)).tolist()
        now, turn = first_word(gaps, epochs)
        assert turn.start is not None
        assert now + epochs - math.floor(turn.start) <= 1.25 * epochs + 1


def test_there_is_nothing_to_correct_where_a_sure_network_does_not_contradict_the_labels() -> None:
    _, turn = first_word([0.5, 1.0, 0.5], epochs=60, dispute=0.08, fifth=0.0)
    assert turn.start is None
    assert turn.reason == "there is nothing to correct"


def test_hard_samples_are_not_taken_for_wrong_labels_and_wrong_labels_not_for_none() -> None:
    hard = first_word([0.5, 1.0, 0.5], epochs=60, dispute=0.25, fifth=0.005)[1]
    assert hard.start is None, "the surest are contradicted a fiftieth as often as all"
    both = first_word([0.5, 1.0, 0.5], epochs=60, dispute=0.25, fifth=0.018)[1]
    assert both.start is not None
    noisy = first_word([0.5, 1.0, 0.5], epochs=60, dispute=0.08, fifth=0.05)[1]
    assert noisy.start is not None


def test_of_very_few_samples_none_in_dispute_may_be_chance() -> None:
    assert Window(1.5, 1.0, 0.25, 0.1, 0.0, samples=1000).hard()
    assert not Window(1.5, 1.0, 0.25, 0.1, 0.0, samples=51).hard()  # two or three of the surest ten would be


def test_there_is_less_hurry_where_the_surest_are_hardly_contradicted() -> None:
    def alpha(fifth: float) -> float:
        course = [(0.5, 0.6, 0.3), (1.0, 0.3, 0.15), (0.5, 0.24, 0.05)]
        turn = recognise([Window(e + 0.5, *at, fifth) for e, at in enumerate(course)], 3, 60)
        assert turn is not None
        assert turn.start == (1.5 if fifth >= 0.02 else 3.0), "and there is no need to step back"
        return turn.alpha

    assert alpha(0.05) == alpha(0.02) == 0.7  # the dispute halves in three epochs
    assert 0.7 < alpha(0.012) < 1 - 0.24 / 2


def test_alpha_is_the_papers_at_the_papers_scale_and_never_freezes_a_young_network() -> None:
    assert alpha_for(33) == pytest.approx(0.9, abs=0.001)
    assert 0.89 < alpha_for(40) < 0.93
    assert alpha_for(1, 0.4) == alpha_for(5, 0.4) == 0.8
    assert alpha_for(2, 0.2, halving=8) == pytest.approx(0.5 ** (2 / 8))
    assert alpha_for(2, 0.2, halving=2) == 0.7
    assert alpha_for(2, 0.2, epochs_left=6) == pytest.approx(2**-0.5)


def test_the_pace_of_memorisation_is_read_off_the_dispute() -> None:
    first, last = Window(2.5, 1, 0.4, 0, 0), Window(6.5, 1, 0.1, 0, 0)
    assert halving_time(first, last) == pytest.approx(2.0)  # a quarter of it in four epochs
    assert halving_time(last, first) == math.inf
    assert halving_time(first, first) == math.inf
    assert alpha_for(200) ** (200 / 5) == pytest.approx(0.5)


def test_the_gap_is_in_the_unit_of_the_losses_and_blind_to_a_few_huge_ones() -> None:
    rng = torch.Generator().manual_seed(0)
    low, high = 0.2 + 0.1 * torch.rand(700, generator=rng), 3.2 + 0.5 * torch.rand(300, generator=rng)
    losses = torch.cat([low, high])
    by_hand = float(high.mean() - low.mean())
    assert gap(losses) == pytest.approx(by_hand, abs=0.05)
    assert gap(10 * losses + 3) == pytest.approx(10 * by_hand, abs=0.5)
    losses[0] = 1e6
    assert gap(losses) == pytest.approx(by_hand, abs=0.1)
    assert gap(torch.full((50,), 2.0)) == pytest.approx(0.0, abs=1e-9)


def test_a_look_counts_who_contradicts_among_all_and_among_the_confident() -> None:
    confidences = torch.linspace(0, 1, 100)
    agrees = torch.ones(100, dtype=torch.bool)
    agrees[:30] = False  # the thirty least confident
    agrees[95:] = False  # and the five most confident
    window = look(torch.rand(100), agrees, confidences, epoch=3)
    assert window.clock == 3.5
    assert window.dispute == pytest.approx(0.35)
    assert window.dispute_half == pytest.approx(5 / 50)
    assert window.dispute_fifth == pytest.approx(5 / 20)


def simulated(noise: float, errors: float, count: int = 20_000, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """A network that errs more the less it is confident, and labels that are wrong at random.

    Returns whether prediction and label agree, the confidence, and whether the label is wrong.
    """
    rng = torch.Generator().manual_seed(seed)
    confidence = torch.rand(count, generator=rng)
    mistaken = torch.rand(count, generator=rng) < 2 * errors * (1 - confidence) ** 2
    wrong = torch.rand(count, generator=rng) < noise
    return ~(mistaken | wrong), confidence, wrong


@pytest.mark.parametrize(("noise", "errors"), [(0.1, 0.05), (0.3, 0.05), (0.2, 0.3), (0.0, 0.2)])
def test_the_noise_rate_lies_in_its_interval(noise: float, errors: float) -> None:
    agrees, confidence, _ = simulated(noise, errors)
    window = look(torch.rand(len(agrees)), agrees, confidence, 1)
    turn = Turn(1.5, 1.5, 0.7, window.dispute, window.dispute_half, window.dispute_fifth, "")
    rate, low, high = noise_rate(turn, len(agrees))
    assert low <= noise <= high
    assert low <= rate <= high
    assert rate == pytest.approx(noise, abs=0.1)


def test_trust_is_near_the_share_of_disputed_labels_that_really_are_wrong() -> None:
    agrees, confidence, wrong = simulated(noise=0.2, errors=0.3)
    trusted = trust(agrees, confidence)
    for part in confidence.argsort(descending=True).chunk(5):
        disputed = part[~agrees[part]]
        assert float(trusted[part].mean()) == pytest.approx(float(wrong[disputed].float().mean()), abs=0.1)


def test_nothing_is_trusted_where_the_labels_of_confident_samples_are_right() -> None:
    agrees, confidence, _ = simulated(noise=0.0, errors=0.3)
    assert float(trust(agrees, confidence).max()) == 0.0


def test_two_classes_contest_each_other_where_the_data_cannot_say_which_is_true() -> None:
    """Noise that moves 40 % of a class to the next looks as noise that moves 60 %; 20 % does not."""
    predicted = torch.arange(4).repeat_interleave(100)
    moved = torch.tensor([0, 40, 0, 20])
    given = torch.cat([torch.where(torch.arange(100) < moved[k], (k + 1) % 4, k) for k in range(4)])
    assert contested(predicted, given, 4).tolist() == [False, True, True, False]
    assert not bool(contested(predicted, predicted, 4).any())


def test_classes_are_contested_by_a_third_only_where_it_may_be_a_half() -> None:
    """Thirty of a hundred moved: 30 / 70 is less than a half, by two standard errors only where there are more."""
    predicted = torch.tensor([0] * 100 + [1] * 100 + [2] * 100)
    given = torch.tensor([1] * 30 + [0] * 70 + [1] * 100 + [2] * 100)
    assert contested(predicted, given, 3).tolist() == [True, True, False]
    assert not bool(contested(predicted.repeat(20), given.repeat(20), 3).any())


def test_a_handful_of_samples_says_nothing_of_a_large_class() -> None:
    """A class that is predicted five times, twice where the label is another, which a hundred others have."""
    predicted = torch.tensor([0] * 100 + [1] * 5)
    given = torch.tensor([0] * 100 + [1] * 3 + [0] * 2)
    assert contested(predicted, given, 2).tolist() == [False, True]


def test_a_class_that_is_never_predicted_right_is_unknown_and_its_labels_cannot_be_judged() -> None:
    given = torch.tensor([0] * 50 + [1] * 50 + [2] * 6 + [3] * 20)
    predicted = given.clone()
    predicted[100:106] = 0  # a rare class that the network has not learnt
    predicted[106:120] = 1  # a class of which most labels are wrong: it is known by the rest
    assert unknown(predicted, given, 4).tolist() == [False, False, True, False]
