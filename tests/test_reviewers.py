"""Two reviewers: verdicts are merged, a disagreement decides nothing, and kappa is Cohen's."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from sklearn.metrics import cohen_kappa_score

from selc.errors import InputError
from selc.runs.decisions import Decisions, Verdict
from selc.runs.reviewers import kappa, merged


def file(**verdicts: tuple[str, str | None]) -> Decisions:
    made = {name: Verdict(name, "cat", verdict, label) for name, (verdict, label) in verdicts.items()}
    return Decisions(Path("decisions.json"), "run", 9, made)


def test_kappa_equals_scikit_learns() -> None:
    draw = random.Random(0)
    for _ in range(20):
        pairs = [(draw.choice("abc"), draw.choice("abcd")) for _ in range(draw.randint(2, 60))]
        pairs += [(label, label) for label in draw.choices("ab", k=draw.randint(0, 40))]
        found = kappa(pairs)
        first, second = zip(*pairs, strict=True)
        assert found == pytest.approx(cohen_kappa_score(first, second))
    assert kappa([]) is None
    assert kappa([("a", "a")] * 5) is None  # nothing could have differed: 0 / 0


def test_verdicts_of_both_count_and_a_disagreement_decides_nothing() -> None:
    one = file(a=("keep", "cat"), b=("suggested", "dog"), c=("drop", None), d=("skip", None), e=("keep", "cat"))
    two = file(a=("keep", "cat"), b=("keep", "cat"), c=("drop", None), d=("other", "cow"), f=("suggested", "dog"))
    both, agreement = merged([one, two])
    assert {name: (d.verdict, d.label) for name, d in both.made.items()} == {
        "a": ("keep", "cat"),
        "b": ("skip", None),
        "c": ("drop", None),
        "d": ("other", "cow"),
        "e": ("keep", "cat"),
        "f": ("suggested", "dog"),
    }
    assert agreement is not None
    assert (agreement.both, agreement.agreed) == (3, 2)
    again, same = merged([two, one])
    assert {n: (d.verdict, d.label) for n, d in again.made.items()} == {
        n: (d.verdict, d.label) for n, d in both.made.items()
    }
    assert same == agreement


def test_one_file_is_taken_as_it_is_and_three_are_refused() -> None:
    one = file(a=("keep", "cat"))
    assert merged([one]) == (one, None)
    with pytest.raises(InputError, match="one or two files; got 3"):
        merged([one, one, one])
