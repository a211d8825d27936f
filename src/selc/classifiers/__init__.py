"""Classifiers of scikit-learn in the place of a network: findings and corrected labels from out-of-fold predictions."""

from selc.classifiers.folds import Fit, Rows, judge_labels
from selc.classifiers.names import PREFIX, checked, create, is_classifier_name, prepared
from selc.classifiers.stored import FILE, fitted_again, write_fit

__all__ = [
    "FILE",
    "PREFIX",
    "Fit",
    "Rows",
    "checked",
    "create",
    "fitted_again",
    "is_classifier_name",
    "judge_labels",
    "prepared",
    "write_fit",
]
