"""What can be drawn from a run folder. Nothing in training imports this; the first figure loads matplotlib."""

from selc.report.evidence import held_out
from selc.report.losses import loss_histograms
from selc.report.matrix import confusion, confusion_matrix
from selc.report.memory import memorisation, memorisation_curves
from selc.report.style import save
from selc.report.turning import correction, correction_accuracy, metrics, sensitivity

__all__ = [
    "confusion",
    "confusion_matrix",
    "correction",
    "correction_accuracy",
    "held_out",
    "loss_histograms",
    "memorisation",
    "memorisation_curves",
    "metrics",
    "save",
    "sensitivity",
]
