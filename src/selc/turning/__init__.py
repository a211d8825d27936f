"""When a network turns from learning the pattern to learning wrong labels by heart, and what follows from it."""

from selc.turning.decision import Decision, Reason, decide
from selc.turning.evidence import Evidence
from selc.turning.held_out import HeldOut
from selc.turning.paper import Metric, separation, separations, turning_point
from selc.turning.point import TurningPoint

__all__ = [
    "Decision",
    "Evidence",
    "HeldOut",
    "Metric",
    "Reason",
    "TurningPoint",
    "decide",
    "separation",
    "separations",
    "turning_point",
]
