"""Classifiers of scikit-learn by name: ``sklearn:HistGradientBoostingClassifier``.

A name stands for a class of scikit-learn itself and for nothing else, so that a file which holds one runs no code of
somebody else's.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from selc.errors import ConfigError, unknown

PREFIX = "sklearn:"


def is_classifier_name(name: str) -> bool:
    return name.startswith(PREFIX)


def checked(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """``options`` if the classifier has them, or an error that says which one it has not."""
    create(name, options, 0)
    return dict(options)


def create(name: str, options: Mapping[str, Any], seed: int) -> Any:
    """A fresh classifier by name; ``seed`` is what it draws by, unless the options say otherwise."""
    kind = _classes().get(name.removeprefix(PREFIX))
    if kind is None:
        raise unknown("a classifier of scikit-learn (sklearn:NAME)", name.removeprefix(PREFIX), _classes())
    try:
        made = kind()
    except TypeError as error:  # some are made of another classifier
        raise ConfigError(
            f"net {name} must be a classifier that needs no other one; got {error}. Make it in Python: "
            "SELCClassifier(module=...)."
        ) from None
    known = made.get_params(deep=False)
    for key in options:
        if key not in known:
            raise unknown(f"an option of net {name}", key, known)
    return prepared(made.set_params(**options), seed, f"net {name}")


def prepared(classifier: Any, seed: int, what: str) -> Any:
    """A copy of a classifier or pipeline that is not fitted and draws by ``seed`` where it has no seed of its own."""
    base = _sklearn(what)
    if not (hasattr(classifier, "fit") and hasattr(classifier, "get_params") and base.is_classifier(classifier)):
        raise ConfigError(
            f"{what} must be a network, or a classifier or pipeline of scikit-learn; got {type(classifier).__name__}."
        )
    if not hasattr(classifier, "predict_proba"):
        raise ConfigError(
            f"{what} must have predict_proba, by which labels are judged; got {type(classifier).__name__}, which has "
            "none. Wrap it: sklearn.calibration.CalibratedClassifierCV(...)."
        )
    fresh = base.clone(classifier)
    drawing = {
        key: value for key, value in fresh.get_params(deep=True).items() if key.split("__")[-1] == "random_state"
    }
    return fresh.set_params(**{key: seed % 2**32 for key, value in drawing.items() if value is None})


def _sklearn(what: str) -> Any:
    try:
        from sklearn import base
    except ImportError:
        raise ConfigError(
            f"{what} needs scikit-learn; got no such package. Install it: pip install 'selc[sklearn]'."
        ) from None
    return base


@cache
def _classes() -> dict[str, Any]:
    _sklearn("a classifier of scikit-learn")
    from sklearn.utils import all_estimators

    return dict(all_estimators(type_filter="classifier"))
