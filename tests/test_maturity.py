"""A network that has learnt nothing says so, and leaves the labels alone."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from selc.core.store import Store
from selc.core.turning import Turn
from selc.report.page import write_report
from selc.run import RunFolder
from selc.analysis.findings import KEEP, RELABEL, REVIEW
from selc.run.issues import issues_of
from selc.run.maturity import fickle, unlearnt
from selc.types import Outcome, Pass
from tests.helpers import random_labels, rng
from tests.test_cli import call


def shown(predicted: Tensor, confidence: Tensor | None = None) -> Pass:
    """A training of one epoch."""
    p = torch.rand(len(predicted), generator=rng(9)) if confidence is None else confidence
    return Pass(torch.zeros(1, len(predicted)), predicted[None], p[None], torch.full((1, len(predicted)), -1))


@pytest.mark.parametrize("seed", range(3))
def test_predictions_without_a_connection_to_the_labels_are_no_judge(seed: int) -> None:
    given = random_labels(2000, 10, seed=seed)
    reason = unlearnt(shown(random_labels(2000, 10, seed=seed + 50)), given, 10, None)
    assert reason is not None
    assert "no better than chance" in reason
    constant = unlearnt(shown(torch.full((2000,), 3)), given, 10, None)
    assert constant is not None


def test_a_frequent_class_that_is_always_predicted_is_no_judge_and_one_that_is_told_apart_is() -> None:
    """98 % are of one class, so always to predict it agrees with 98 % of the labels."""
    given = (torch.arange(5000) % 50 == 0).long()
    assert unlearnt(shown(torch.zeros(5000, dtype=torch.long)), given, 2, None) is not None
    noisy = torch.where(torch.rand(5000, generator=rng(1)) < 0.1, 1 - given, given)
    assert unlearnt(shown(given), noisy, 2, None) is None  # the network knows the truth


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.4, 0.6])
def test_a_network_that_knows_the_classes_may_judge_noisy_labels(rate: float) -> None:
    true = random_labels(3000, 10, seed=1)
    drawn = torch.rand(3000, generator=rng(2)) < rate
    given = torch.where(drawn, random_labels(3000, 10, seed=3), true)
    assert unlearnt(shown(true), given, 10, None) is None


def test_a_network_that_is_mostly_wrong_where_it_is_surest_is_no_judge() -> None:
    """A fifth of the predictions is right; the others are of the class after the true one."""
    given = random_labels(3000, 10, seed=1)
    right = torch.rand(3000, generator=rng(2)) < 0.2
    reason = unlearnt(shown(torch.where(right, given, (given + 1) % 10)), given, 10, None)
    assert reason is not None
    assert re.search(r"predicted (19|20|21)% of them, and even where it was surest it contradicted", reason)


TURN = Turn(peak=0.5, start=0.5, alpha=0.7, dispute=0.2, dispute_half=0.2, dispute_fifth=0.2, reason="")
MEMORISED, SAME, OTHER = 0, 1, 2


def contradictions(later: int, share: float = 1.0, wrong: int = 400) -> str | None:
    """A network that knows all classes of 2,000 samples and contradicts labels that are wrong; what it says of a share
    of these in the end, when it has memorised the given ones, says the same, or names another class again."""
    true = random_labels(2000, 10, seed=1)
    given = true.clone()
    given[:wrong] = (true[:wrong] + 1) % 10
    end = true.clone()
    changed = slice(0, round(share * wrong))
    end[changed] = {MEMORISED: given, SAME: true, OTHER: (true + 2) % 10}[later][changed]
    sure = torch.arange(2000).float() / -2000  # those in question are the surest
    both = torch.stack([true, true, end])
    seen = Pass(torch.zeros(3, 2000), both, sure.expand(3, -1) + 1, torch.full((3, 2000), -1))
    return fickle(seen, given, 10, TURN)


def test_a_network_that_changes_its_mind_is_no_judge() -> None:
    assert contradictions(SAME) is None
    assert contradictions(MEMORISED) is None  # a contradiction that ended says nothing
    reason = contradictions(OTHER, share=0.2)
    assert reason is not None
    assert "in 20% of the cases in which it was surer" in reason
    assert contradictions(OTHER, share=0.04) is None
    assert contradictions(OTHER, share=0.4, wrong=10) is None  # four of ten are a handful
    assert contradictions(OTHER, share=0.6, wrong=10) is not None


def test_a_network_that_changes_its_mind_changes_no_label_but_says_where_to_look() -> None:
    N, C = 2000, 10
    true = random_labels(N, C, seed=1)
    given = torch.where(torch.arange(N) < 400, (true + 1) % C, true)
    end = torch.where(torch.arange(N) < 100, (true + 2) % C, true)
    p = torch.full((N, C), 0.01).scatter_(1, end[:, None], 0.91)
    seen = Pass(
        torch.where(given == true, 0.1, 3.0).expand(3, -1),
        torch.stack([true, true, end]),
        torch.linspace(1, 0.1, N).expand(3, -1),
        torch.full((3, N), -1),
    )
    store = Store(N, C)
    store.write(torch.arange(N), p)
    outcome = Outcome(nn.Linear(1, 1), store, store, *seen, turning_point=TURN, recorded=seen)
    found = issues_of(outcome, given, C)
    assert torch.equal(found.corrected, given)
    assert found.unlearnt is not None
    assert math.isnan(found.noise_rate)
    assert bool((found.findings.action[:400] == REVIEW).all())
    assert not bool((found.findings.action == RELABEL).any())


def test_changes_of_mind_do_not_count_where_nothing_is_to_be_corrected() -> None:
    true = random_labels(2000, 10, seed=1)
    given = torch.where(torch.arange(2000) < 100, (true + 1) % 10, true)
    both = torch.stack([true, true, torch.where(given != true, (true + 2) % 10, true)])
    seen = Pass(torch.zeros(3, 2000), both, torch.ones(3, 2000), torch.full((3, 2000), -1))
    assert fickle(seen, given, 10, TURN) is not None
    assert fickle(seen, given, 10, TURN._replace(start=None)) is None


@pytest.mark.parametrize("method", ["selc", "ce"])
def test_a_training_that_came_to_nothing_changes_no_label_and_says_why(method: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    noise = ["--noise", "symmetric", "--rate", "0.2", "--epochs", "4", "--lr", "0.00001", "--set", "net.hidden=[32]"]
    result = call("train", "digits", *noise, "--method", method, "--out", str(out))
    assert result.exit_code == 0, result.output
    assert "warning: The network has not learnt enough to judge labels" in result.stderr
    assert "labels changed    0.00%" in result.stdout
    assert "estimated" not in result.stdout
    run = RunFolder.open(out)
    assert "noise_rate" not in run.summary
    assert torch.equal(run.corrected(), run.given)
    assert bool((run.findings().action == KEEP).all())
    assert run.summary["actions"] == {"keep": len(run.given), "review": 0, "relabel": 0}
    page = write_report(run, tmp_path / "report.html", samples=0)[0].read_text()
    assert "The network has not learnt enough to judge labels" in page
    assert "larger learning rate" in page
    assert "are probably wrong" not in page


def test_the_estimator_has_no_noise_rate_then() -> None:
    from selc import SELCClassifier

    x, y = torch.randn(300, 4, generator=rng(0)).numpy(), random_labels(300, 3, seed=0).numpy()
    model = SELCClassifier(max_epochs=3, lr=1e-6, random_state=0).fit(x, y)
    assert math.isnan(model.noise_rate_)
    assert model.unlearnt_ is not None
    assert "not learnt enough" in model.unlearnt_
    assert (model.corrected_labels_ == y).all()
    assert set(model.label_issues_["action"]) == {"keep"}
