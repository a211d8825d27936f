"""Classifiers of scikit-learn in the place of a network: findings and corrected labels from out-of-fold predictions."""

from selc.classifiers.folds import Judged, Rows, judge_labels
from selc.classifiers.names import PREFIX, checked, create, is_classifier_name, prepared
from selc.classifiers.stored import FILE, read_model, write_model

__all__ = [
    "FILE",
    "PREFIX",
    "Judged",
    "Rows",
    "checked",
    "create",
    "is_classifier_name",
    "judge_labels",
    "prepared",
    "read_model",
    "write_model",
]
