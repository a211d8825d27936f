"""What can be drawn from a run folder. Nothing in training imports this; the first figure loads matplotlib."""

from selc.report.draw_evidence import held_out
from selc.report.draw_losses import loss_histograms
from selc.report.draw_matrix import confusion, confusion_matrix
from selc.report.draw_memory import memorisation, memorisation_curves
from selc.report.draw_turning import correction, correction_accuracy, metrics, sensitivity
from selc.report.style import save

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
