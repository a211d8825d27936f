"""One loop, and stages of it."""

from selc.training.plan import Plan
from selc.training.stages import Trainer

__all__ = ["Plan", "Trainer"]
