"""Sentences about labels: what each case says, and that no number is told that is not known."""

from __future__ import annotations

from typing import Any

import pytest

from selc.analysis.words import decision_in_short, decision_sentence, no_sign, noise_sentence, noise_words, percent
from selc.turning import Decision, Reason


@pytest.mark.parametrize(
    ("share", "text"),
    [
        *((0, "0%"), (0.0002, "<0.1%"), (0.0007, "0.1%"), (0.004, "0.4%"), (0.099, "9.9%"), (0.365, "36%")),
        *((0.89, "89%"), (0.953, "95.3%"), (0.9993, "99.9%"), (0.99996, ">99.9%"), (1, "100%")),
    ],
)
def test_percents_say_neither_none_nor_all_where_that_is_wrong(share: float, text: str) -> None:
    assert percent(share) == text


def rate(estimate: float | None, low: float, high: float) -> dict[str, Any]:
    return {"estimate": estimate, "likely": 0.1, "low": low, "high": high}


@pytest.mark.parametrize(
    ("noise", "said"),
    [
        (None, ["cannot be told"]),
        (rate(0.12, 0.05, 0.19), ["About 12%", "between 5.0% and 19%"]),
        (rate(None, 0.0, 0.31), ["Between 0% and 31%", "cannot be told from samples that are merely hard"]),
        (rate(0.0004, 0.0, 0.03), ["no sign of wrong labels", "at most 3.0%"]),  # of 1,000 labels not even one
    ],
)
def test_the_noise_rate_is_told_as_far_as_it_is_known(noise: dict[str, Any] | None, said: list[str]) -> None:
    sentence = noise_sentence(noise, 1000)
    assert all(part in sentence for part in said), sentence
    assert ("About" in sentence) == ("About 12%" in said)
    assert no_sign(noise, 1000) == (said[0] == "no sign of wrong labels")


def test_one_wrong_label_of_two_thousand_is_a_sign() -> None:
    assert not no_sign(rate(0.0005, 0.0, 0.01), 2000)
    assert no_sign(rate(0.0002, 0.0, 0.01), 2000)


def test_in_a_table_the_range_always_stands_and_the_number_if_it_is_known() -> None:
    assert noise_words(rate(0.12, 0.05, 0.19)) == "about 12%, between 5.0% and 19%"
    assert noise_words(rate(None, 0.0, 0.31)).startswith("between 0% and 31%; ")


def decided(reason: Reason, **changes: Any) -> dict[str, Any]:
    """A decision after 12 of 40 epochs, the best after 20."""
    usual = {"start": 12.0, "best": 20.0, "accuracy": 0.613, "fall": 0.0, "fall_error": 0.01, "visible": 0.016}
    rest = {"first": 11, "last": 25, "alpha": 0.9}
    return Decision(**{**usual, **rest, **changes, "reason": reason}).as_dict()


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        (
            decided(Reason.FALL),
            ["From epoch 21 on", "memorise wrong labels", "From epoch 13 on", "its own predictions"],
        ),
        (decided(Reason.NO_FALL), ["No sign", "From epoch 13 on", "its own predictions"]),
        (decided(Reason.NO_FALL, alpha=0.0), ["still learning", "no epoch is left"]),
        (decided(Reason.NOT_LEARNT, start=None), ["no better than by chance", "no label will be changed"]),
        (Decision.too_few().as_dict(), ["Too few samples", "no label will be changed"]),
    ],
)
def test_each_decision_in_short(decision: dict[str, Any], said: list[str]) -> None:
    sentence = decision_in_short(decision)
    assert all(part in sentence for part in said), sentence


@pytest.mark.parametrize(
    ("decision", "parts", "not_parts"),
    [
        (
            decided(Reason.FALL, fall=0.072),
            ["epoch 20 (61%)", "7.2 points less", "learnt by heart", "in epoch 13"],
            ["no fall"],
        ),
        (
            decided(Reason.NO_FALL),
            ["no fall is seen (one of 1.6 points would have been)", "By epoch 12", "in epoch 13"],
            ["by heart"],
        ),
        (decided(Reason.NO_FALL, start=20.0), ["epoch 20", "in epoch 21"], ["By epoch"]),
        (decided(Reason.NO_FALL, visible=1.0), ["too few of them to see a fall"], ["points"]),
        (decided(Reason.NO_FALL, start=20.0, alpha=0.0), ["no epoch is left"], ["Correction starts"]),
        (decided(Reason.NOT_LEARNT, start=None), ["no better than by chance", "no label is changed"], ["epoch 20"]),
        (Decision.too_few().as_dict(), ["too few samples", "no label is changed"], ["epoch"]),
    ],
)
def test_each_decision_has_its_sentence(decision: dict[str, Any], parts: list[str], not_parts: list[str]) -> None:
    said = decision_sentence(decision)
    assert all(part in said for part in parts), said
    assert not any(part in said for part in not_parts), said
