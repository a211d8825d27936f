"""One loop, and stages of it."""

from selc.train.plan import Plan
from selc.train.stages import Trainer

__all__ = ["Plan", "Trainer"]
