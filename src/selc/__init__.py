"""Train on noisy labels; get a robust model and the corrected labels.

The names below are loaded when they are first used: ``import selc`` alone does not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from selc.analysis import LabelAnalysis as LabelAnalysis
    from selc.analysis import analyse_probabilities as analyse_probabilities
    from selc.callbacks import Callback as Callback
    from selc.callbacks import EpochRecord as EpochRecord
    from selc.errors import ConfigError as ConfigError
    from selc.errors import InputError as InputError
    from selc.errors import RunFolderError as RunFolderError
    from selc.errors import SelcError as SelcError
    from selc.errors import TrainingError as TrainingError
    from selc.estimator import SELCClassifier as SELCClassifier
    from selc.losses import IndexedDataset as IndexedDataset
    from selc.losses import SELCLoss as SELCLoss
    from selc.losses import Watcher as Watcher
    from selc.losses import soft_cross_entropy as soft_cross_entropy
    from selc.memory import Store as Store
    from selc.methods import Method as Method
    from selc.recorder import Recorder as Recorder
    from selc.runs import Config as Config
    from selc.runs import RunFolder as RunFolder
    from selc.runs import fit as fit
    from selc.runs import resume as resume
    from selc.training import Plan as Plan
    from selc.turning import HeldOut as HeldOut
    from selc.turning import separation as separation
    from selc.turning import turning_point as turning_point
    from selc.types import Outcome as Outcome

__version__ = "0.2.0"  # the one source: the build reads it here

_HOME = {
    "LabelAnalysis": "selc.analysis",
    "analyse_probabilities": "selc.analysis",
    "Callback": "selc.callbacks",
    "EpochRecord": "selc.callbacks",
    "IndexedDataset": "selc.losses",
    "SELCLoss": "selc.losses",
    "Store": "selc.memory",
    "Watcher": "selc.losses",
    "HeldOut": "selc.turning",
    "separation": "selc.turning",
    "turning_point": "selc.turning",
    "soft_cross_entropy": "selc.losses",
    "ConfigError": "selc.errors",
    "InputError": "selc.errors",
    "RunFolderError": "selc.errors",
    "SelcError": "selc.errors",
    "TrainingError": "selc.errors",
    "SELCClassifier": "selc.estimator",
    "Method": "selc.methods",
    "Recorder": "selc.recorder",
    "Config": "selc.runs",
    "RunFolder": "selc.runs",
    "fit": "selc.runs",
    "resume": "selc.runs",
    "Plan": "selc.training",
    "Outcome": "selc.types",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'selc' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
