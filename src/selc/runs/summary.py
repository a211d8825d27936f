"""What a finished run says of its labels, whatever it was trained by."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from selc.analysis import LabelAnalysis
from selc.analysis.findings import ACTIONS
from selc.runs.folder import RunFolder


def label_summary(run: RunFolder, corrected: Tensor, analysis: LabelAnalysis) -> dict[str, Any]:
    """The analysis, how often each action is suggested, and the score where the true labels are known."""
    true, given = run.true, run.given
    actions = torch.bincount(analysis.findings.action, minlength=len(ACTIONS)).tolist()
    summary = analysis.as_dict() | {"actions": dict(zip(ACTIONS, actions, strict=True))}
    if true is not None:
        summary["right_before"] = float((given == true).float().mean())
        summary["right_after"] = float((corrected == true).float().mean())
    return summary
