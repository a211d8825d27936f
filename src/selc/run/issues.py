"""What a training says about its labels at its end: the findings, and the estimates behind them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from selc.core.judgement import noise_rate
from selc.core.turning import Turn
from selc.noise.base import measured
from selc.run.findings import Findings, find
from selc.run.maturity import judging
from selc.types import Outcome


@dataclass(frozen=True)
class Issues:
    """The findings of a training, and the estimates behind them."""

    findings: Findings
    corrected: Tensor  # [N]
    turning_point: Turn | None  # None: the method did not look for one
    noise_rate: float  # share of wrong labels: by the turning point, else the share of corrected labels; NaN: no idea
    transition_matrix: Tensor  # [C, C] P(given = column | corrected = row); rows sum to one
    unlearnt: str | None  # why the network cannot judge labels; then none of them is changed
    ranks: bool  # whether it can tell which ones to look at first


def issues_of(outcome: Outcome, given: Tensor, num_classes: int, settled: Tensor | None = None) -> Issues:
    """What to do with each sample. ``given`` are its labels [N], ``settled`` [N] those that a person has judged."""
    outcome, reason, ranks = judging(outcome, given, num_classes)
    given, turn = given.cpu(), outcome.turning_point
    rate = None if turn is None or reason is not None else noise_rate(turn, len(given))
    corrected = outcome.corrected_labels.cpu()
    losses = outcome.losses if outcome.recorded is None else outcome.recorded.losses
    findings = find(losses.cpu(), outcome.target, outcome.probs, given, corrected, turn, rate, settled)
    share = float((corrected != given).double().mean()) if rate is None else rate[0]
    matrix = measured(corrected, given, num_classes).matrix
    findings = findings if ranks else findings.all_kept()
    return Issues(findings, corrected, turn, share if reason is None else math.nan, matrix, reason, ranks)
