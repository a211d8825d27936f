"""Trackers of experiments by name. Each is one file, and imports its library when a training begins."""

import pkgutil
from importlib import import_module

from selc.integrations.trackers.base import TRACKERS, Tracker
from selc.integrations.trackers.tracking import Tracking, tracking

for _module in pkgutil.iter_modules(__path__):  # a file in this folder is a tracker; importing it registers it
    import_module(f"{__name__}.{_module.name}")

__all__ = ["TRACKERS", "Tracker", "Tracking", "tracking"]
