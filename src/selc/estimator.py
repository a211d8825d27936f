"""SELCClassifier: every method by the conventions of scikit-learn.

The constructor stores, ``fit`` computes, and what it found ends in an underscore.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from selc.analysis import LabelAnalysis, analyse
from selc.analysis.words import WHY
from selc.callbacks import Callback, Callbacks, EpochRecord
from selc.classifiers import Fit, Rows, create, is_classifier_name, judge_labels, prepared
from selc.classifiers.folds import probabilities as class_probabilities
from selc.data import Bundle
from selc.data.dealing import groups_of, verified_rows
from selc.data.preprocess.coding import learnt_features
from selc.data.preprocess.features import FeatureInputs, Features, Numbers, Scale
from selc.data.preprocess.labels import notes_on
from selc.data.sources.feature_table import notes_on_table
from selc.data.sources.frames import cells_of, is_frame, is_texts, named_cells, new_cells
from selc.data.sources.objects import object_bundle
from selc.data.sources.recognise import suits
from selc.errors import ConfigError, InputError
from selc.methods import Method
from selc.methods import create as create_method
from selc.nets import create as create_net
from selc.nets.own import try_out
from selc.runs.config import resolve_plan
from selc.runs.predict import probabilities
from selc.runs.remarks import remarked
from selc.training import Trainer
from selc.training.metrics import chosen, measured, rows_of, usual, wanted
from selc.types import Labels, TrainSet

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import check_consistent_length, check_random_state, check_X_y, column_or_1d
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise ConfigError(
        "SELCClassifier needs scikit-learn 1.6 or newer; got none. Install it: pip install 'selc[sklearn]'."
    ) from None

Array = np.ndarray[Any, np.dtype[Any]]
Module = Any  # a name, an nn.Module, a classifier of scikit-learn, or a class or function that makes one
_NUMBERS = {"dtype": (np.float64, np.float32), "allow_nd": True}


class SELCClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A neural network, or any other classifier, for labels of which some are wrong; it corrects them.

    Parameters
    ----------
    module : str, nn.Module, callable or classifier of scikit-learn, default "mlp"
        A network: a name (``selc list nets``), an ``nn.Module`` (copied, not changed; it starts from its own weights),
        or a class or function that makes one. Such a function is called with the number of outputs; if it has
        parameters called ``num_classes`` and ``shape`` (of one input), with these by name. Or a classifier or pipeline
        of scikit-learn with ``predict_proba``, such as ``HistGradientBoostingClassifier()`` (also its class, or
        ``"sklearn:HistGradientBoostingClassifier"``): labels are then judged by five folds of it, and it is fitted
        again on all rows with the corrected labels. A pipeline gets ``X`` as it is.
    module_options : mapping, optional
        Keyword arguments for a name, a class or a function.
    method : str or Method, default "selc"
        Any method by name (``selc list methods``), or an object. It and the settings of a training are for networks.
    method_options : mapping, optional
        Options of a method that is given by name.
    max_epochs, lr, batch_size : optional
        Of the training; None is what suits the number of rows.
    train_options : mapping, optional
        Any other field of `selc.Plan`, such as ``{"optimizer": "Adam"}``.
    standardize : bool, default True
        Whether inputs are scaled to mean zero and variance one over the training rows; arrays
        [N, channels, height, width] by channel, others by column.
    device : str, default "auto"
        ``"auto"``, ``"cpu"``, ``"cuda"``, ...
    random_state : int, RandomState or None
        An integer for the same result each time.
    verbose : int, default 0
        1 prints a line per epoch.

    Attributes
    ----------
    classes_ : ndarray, shape [C]
        The labels, sorted.
    corrected_labels_ : ndarray, shape [N]
        The labels to go on with, of the kind of ``y``.
    label_issues_ : dict of ndarray, shape [N] each
        One row per sample in the order of the data: ``sample_id``, ``is_label_issue``, ``label_quality`` (low is bad),
        ``given_label``, ``predicted_label``, ``suggested_label``, ``suggested_confidence``, ``action`` (keep, review,
        relabel). ``pandas.DataFrame(label_issues_)`` is the table.
    soft_targets_ : ndarray, shape [N, C]
        What the method believes; rows sum to one. Of a classifier of scikit-learn the out-of-fold probabilities.
    pred_probs_ : ndarray, shape [N, C]
        What the trained network says of its own training rows.
    noise_rate_ : float
        The estimated share of wrong labels; NaN where wrong labels cannot be told from hard rows, or nothing was held
        out that would tell.
    noise_rate_interval_ : tuple of float
        The range of shares that the data allow, (low, high).
    why_unchanged_ : str or None
        Why no label was changed, in words; None if some were.
    transition_matrix_ : ndarray, shape [C, C]
        P(given = column | corrected = row); rows sum to one. cleanlab's ``noise_matrix`` is its transpose.
    turning_point_ : Decision or None
        When correction started and why; None if the method does not decide that by held-out rows.
    history_ : list of dict
        One dictionary per epoch; empty without a network.
    module_ : nn.Module or classifier
        The trained network, or the fitted classifier, whose classes are numbered.
    remarks_ : dict
        What was noticed about the rows: sentences under ``notes``, and what they are about; printed if ``verbose``.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    ``start`` is fixed here, which takes one training; leave it out, and held-out rows decide.

    >>> import numpy as np
    >>> from selc import SELCClassifier
    >>> true = np.array(["left", "right"] * 100)
    >>> x = np.random.RandomState(0).normal(size=(200, 2)) + 4 * (true == "right")[:, None]
    >>> y = true.copy()
    >>> y[:20] = true[1:21]  # twenty wrong labels
    >>> classifier = SELCClassifier(max_epochs=10, method_options={"start": 4}, random_state=0).fit(x, y)
    >>> bool((classifier.corrected_labels_ == true).mean() > 0.95)
    True
    >>> classifier.predict([[0.0, 0.0], [4.0, 4.0]]).tolist()
    ['left', 'right']
    """

    def __init__(
        self,
        module: Module = "mlp",
        *,
        module_options: Mapping[str, Any] | None = None,
        method: str | Method = "selc",
        method_options: Mapping[str, Any] | None = None,
        max_epochs: int | None = None,
        lr: float | None = None,
        batch_size: int | None = None,
        train_options: Mapping[str, Any] | None = None,
        standardize: bool = True,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.module = module
        self.module_options = module_options
        self.method = method
        self.method_options = method_options
        self.max_epochs = max_epochs
        self.lr = lr
        self.batch_size = batch_size
        self.train_options = train_options
        self.standardize = standardize
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_ids: Any = None, groups: Any = None, verified: Any = None) -> SELCClassifier:  # noqa: N803
        """Train on rows of which some labels are wrong.

        Parameters
        ----------
        X : array-like, DataFrame or list of str
            The rows, [N, ...].
        y : array-like, shape [N]
            Their labels, numbers or names.
        sample_ids : array-like, shape [N], optional
            Names of the rows in ``label_issues_``.
        groups : array-like, shape [N], optional
            Rows that belong together, such as photographs of one person: none of them is judged by what another one
            taught.
        verified : array of int or of bool [N], optional
            Rows whose labels a person has checked: these labels never change.
        """
        classifier = self._classifier()
        self.raw_ = hasattr(classifier, "steps")
        x, y = self._training_rows(X, y)
        self.classes_, given = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(f"y must name at least two classes; got 1 class, {self.classes_[0]!r}.")
        count, rows = len(self.classes_), len(given)
        labels = torch.from_numpy(given.astype(np.int64))
        kin, checked, ids = groups_of(groups, rows), verified_rows(verified, rows), _ids(sample_ids, rows)
        if not self.raw_:
            self.shape_ = tuple(x.x.shape[1:])
        self.remarks_ = self._remarked(X, x, labels, ids)
        if classifier is None:
            data = TrainSet(x, Labels(labels, count), verified=checked, groups=kin)
            found = self._trained(data, labels)
        else:
            inside = Rows(self._numbers(x), labels, count, verified=checked, groups=kin)
            found = self._fitted(judge_labels(classifier, inside, self._seed(), print if self.verbose else _unheard))
        self.corrected_labels_ = self.classes_[found.corrected.numpy()]
        self.turning_point_, rate = found.decision, found.noise_rate
        self.noise_rate_ = np.nan if rate is None or rate.estimate is None else rate.estimate
        self.noise_rate_interval_ = (np.nan, np.nan) if rate is None else (rate.low, rate.high)
        self.why_unchanged_ = None if found.why_unchanged is None else WHY[found.why_unchanged]
        self.transition_matrix_ = found.transition_matrix.double().numpy()
        self.label_issues_ = found.findings.columns(ids, self.classes_)
        return self

    def _remarked(self, X: Any, x: Any, labels: torch.Tensor, ids: Array) -> dict[str, Any]:  # noqa: N803
        """What `selc.fit` notices about the same rows; of what only a pipeline can read, nothing."""
        names = tuple(map(str, self.classes_.tolist()))
        try:
            if self.raw_:
                seen = object_bundle(X, [names[label] for label in labels.tolist()], {}, "tf-idf")
            else:
                cells = named_cells(X)
                notes = [] if cells is None else notes_on_table(self.how_.coding, cells, labels)
                notes += notes_on(labels, names)
                seen = Bundle(self._scaled(x), labels, names, self.shape_, notes=notes)
        except InputError:
            return {}
        told = Callbacks([_Printed() if self.verbose else _Silent()])
        return remarked(replace(seen, ids=list(map(str, ids.tolist()))), told, arrays=True)

    def _scaled(self, x: FeatureInputs) -> FeatureInputs:
        """Rows as they are told apart, whether or not the network gets them scaled."""
        if self.standardize or x.x.dim() != 2:
            return x
        numbers = x.x.double().numpy()
        measured = None if self.how_.coding is None else self.how_.coding.measured
        return FeatureInputs(Scale.of(numbers, measured).apply(numbers), self.how_)

    def _trained(self, data: TrainSet, labels: torch.Tensor) -> LabelAnalysis:
        """By a network."""
        plan = resolve_plan(self._settings(), suits(len(labels)))
        method = self._method()
        trainer = Trainer(plan, self._factory(self.shape_), callbacks=[_Printed()] if self.verbose else [])
        outcome = trainer.fit(copy.deepcopy(method), data)
        self.method_: Method | None = (
            method  # as it was before: what it remembers of the training rows is not needed any more
        )
        self.module_ = outcome.model.cpu()
        self.history_ = outcome.history
        self.soft_targets_ = outcome.target.full().cpu().numpy()
        self.pred_probs_ = outcome.probs.full().cpu().numpy()
        return analyse(outcome, labels, data.num_classes, data.verified)

    def _fitted(self, fit: Fit) -> LabelAnalysis:
        """By folds of a classifier."""
        self.method_, self.module_, self.history_ = None, fit.model, []
        self.soft_targets_, self.pred_probs_ = fit.believed.numpy(), fit.probs.numpy()
        return fit.analysis

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """The probability of each of ``classes_``, [N, C]."""
        check_is_fitted(self)
        x, count = self._new_rows(X), len(self.classes_)
        if self.method_ is None:
            return class_probabilities(self.module_, self._numbers(x), count)
        try:
            return np.asarray(probabilities(self.module_, self.method_, x, count, device=self.device).numpy())
        finally:
            self.module_.cpu()  # where it can be pickled for a machine without a GPU

    def predict(self, X: Any) -> Array:  # noqa: N803
        """The most probable label of each row, [N]."""
        probs = self.predict_proba(X)
        return np.asarray(self.classes_[probs.argmax(axis=1)])

    def measure(self, X: Any, y: Any) -> dict[str, float]:  # noqa: N803
        """All metrics on rows whose labels are known.

        Parameters
        ----------
        X : array-like, DataFrame or list of str
            The rows [N, ...], as for ``predict``.
        y : array-like, shape [N]
            Their labels, all of them among ``classes_``.

        Returns
        -------
        dict
            Values by the names of the metrics (``selc list metrics``); ``train_options={"metrics": [...]}`` chooses
            which, ``top1`` is always there and equals ``score(X, y)``.

        Examples
        --------
        >>> import numpy as np
        >>> x = np.array([[-1.0], [1.0]] * 20)
        >>> y = np.array(["left", "right"] * 20)
        >>> classifier = SELCClassifier(method="ce", max_epochs=20, lr=0.1, random_state=0).fit(x, y)
        >>> values = classifier.measure(x, y)
        >>> values["top1"], values["macro_f1"], values["log_loss"] < 0.1
        (1.0, 1.0, True)
        """
        probs = torch.from_numpy(self.predict_proba(X))
        y = np.asarray(y)
        if y.shape != (len(probs),):
            raise InputError(f"y must hold a label for each of the {len(probs)} rows; got shape {list(y.shape)}.")
        if len(new := np.setdiff1d(y, self.classes_)):
            raise InputError(f"y must hold labels that the classifier was trained on; got {new[0]!r}.")
        labels = torch.from_numpy(np.searchsorted(self.classes_, y).astype(np.int64))
        metrics = chosen((self.train_options or {}).get("metrics", usual()))
        rows = rows_of(probs.log(), labels, wanted(metrics))
        return measured(metrics, {**rows, "labels": labels}, len(self.classes_))

    # Rows as numbers

    def _training_rows(self, X: Any, y: Any) -> tuple[Any, Array]:  # noqa: N803
        if self.raw_:  # a pipeline knows what to make of its columns
            if not is_texts(X):
                validate_data(self, X, skip_check_array=True)
            y = column_or_1d(y, warn=True)
            check_consistent_length(X, y)
            check_classification_targets(y)
            return X, y
        cells = cells_of(X)
        if cells is None:
            x, y = validate_data(self, X, y, **_NUMBERS)
            self.how_ = Features(_scale(x.astype(np.float64)))
        else:
            if is_frame(X):
                validate_data(self, X, skip_check_array=True)  # names and number of the columns
            _, y = check_X_y(np.zeros((len(X), 1)), y, dtype=None)
            self.how_, inputs = learnt_features(cells)
        check_classification_targets(y)
        if not self.standardize:
            self.how_ = replace(self.how_, scale=self.how_.scale.none())
        elif cells is not None:
            return inputs, y
        return self._inputs(x if cells is None else cells), y

    def _new_rows(self, X: Any) -> Any:  # noqa: N803
        if self.raw_:
            if not is_texts(X):
                validate_data(self, X, reset=False, skip_check_array=True)
            return X
        coding = self.how_.coding
        if coding is None:
            x = np.asarray(validate_data(self, X, reset=False, **_NUMBERS))
            if x.shape[1:] != self.shape_:
                raise InputError(f"X must hold inputs of shape {list(self.shape_)}; got {list(x.shape[1:])}.")
            return self._inputs(x)
        if is_frame(X):
            validate_data(self, X, reset=False, skip_check_array=True)
        return self._inputs(new_cells(X, coding, "X"))

    def _inputs(self, items: Any) -> FeatureInputs:
        """Columns of a table, or an array [N, ...], as the network sees them."""
        return self.how_.scaled(items.astype(np.float64)) if isinstance(items, np.ndarray) else self.how_.apply(items)

    def _numbers(self, x: Any) -> Any:
        """Rows as a classifier of scikit-learn takes them: a table [N, D]; for a pipeline as they are."""
        return x if self.raw_ else x.x.flatten(1).numpy()

    # What was asked for

    def _classifier(self) -> Any:
        """The classifier of scikit-learn that was asked for, not fitted yet; None: it is a network."""
        module, options = self.module, dict(self.module_options or {})
        if isinstance(module, str):
            if not is_classifier_name(module):
                return None
            found = create(module, options, self._seed())
        elif isinstance(module, type) and issubclass(module, BaseEstimator):
            found = prepared(module(**options), self._seed(), "module")
        elif isinstance(module, BaseEstimator):
            if options:
                raise ConfigError(
                    "module_options go with a name, a class or a function; got a classifier that is made."
                )
            found = prepared(module, self._seed(), "module")
        else:
            return None
        settings = ("method_options", "max_epochs", "lr", "batch_size")
        given = [name for name in settings if getattr(self, name) is not None]
        given += ["method"] if self.method != "selc" else []
        given += [f"train_options[{key!r}]" for key in self.train_options or {} if key not in ("metrics", "seed")]
        if given:
            raise ConfigError(
                f"{given[0]} must be left out with a classifier of scikit-learn, which is fitted and not trained in "
                f"epochs; got {type(found).__name__}. Its own settings go into it, or into module_options."
            )
        return found

    def _seed(self) -> int:
        if "seed" in (self.train_options or {}):
            return int((self.train_options or {})["seed"])
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _settings(self) -> dict[str, Any]:
        given = {"epochs": self.max_epochs, "lr": self.lr, "batch_size": self.batch_size, "device": self.device}
        settings = {key: value for key, value in given.items() if value is not None}
        return {**settings, "seed": self._seed(), **(self.train_options or {})}

    def _method(self) -> Method:
        if isinstance(self.method, str):
            return create_method(self.method, self.method_options)
        if self.method_options:
            raise ConfigError("method_options go with a method's name; got a method object, which has its own.")
        return copy.deepcopy(self.method)

    def _factory(self, shape: tuple[int, ...]) -> Callable[[int], nn.Module]:
        module, options = self.module, dict(self.module_options or {})
        if isinstance(module, str):
            return lambda outputs: create_net(module, outputs, shape, options)
        if isinstance(module, nn.Module):
            if options:
                raise ConfigError("module_options go with a name, a class or a function; got a module that is made.")
            return lambda outputs: _checked(copy.deepcopy(module), shape, outputs)
        known = inspect.signature(module).parameters
        supplied = {"shape": shape} if "shape" in known else {}

        def make(outputs: int) -> nn.Module:
            if "num_classes" in known:
                return _checked(module(num_classes=outputs, **supplied, **options), shape, outputs)
            return _checked(module(outputs, **supplied, **options), shape, outputs)

        return make


def _scale(x: Numbers) -> Scale:
    """Of each column; of images [N, K, H, W] of each channel."""
    if x.ndim != 4:
        return Scale.of(x)
    channels = Scale.of(np.moveaxis(x, 1, 3).reshape(-1, x.shape[1]))
    return Scale(channels.mean[:, None, None], channels.std[:, None, None])


def _checked(net: nn.Module, shape: tuple[int, ...], outputs: int) -> nn.Module:
    if next(net.parameters(), torch.empty(0)).device.type == "meta":
        return net
    got = try_out(net, shape, "module")
    if got != [2, outputs]:
        raise ConfigError(f"module must map 2 inputs of shape {list(shape)} to outputs {[2, outputs]}; got {got}.")
    return net


def _ids(given: Any, count: int) -> Array:
    ids = np.arange(count) if given is None else np.asarray(given)
    if ids.shape != (count,):
        raise InputError(f"sample_ids must name each of the {count} rows; got shape {ids.shape}.")
    return ids


def _unheard(text: str) -> None:
    """What happens next is told to nobody."""


class _Silent(Callback):
    """Notes are kept, and no warning in each fold of a cross-validation."""

    def on_notice(self, text: str) -> bool:
        return True


class _Printed(Callback):
    """A line per epoch, and what should be known."""

    def on_notice(self, text: str) -> bool:
        print(f"note: {text}")
        return True

    def on_epoch_saved(self, record: EpochRecord) -> None:
        entry = record.entry
        relabel = f"  would relabel {entry['would_relabel']:.1%}" if "would_relabel" in entry else ""
        print(f"stage {entry['stage']}  epoch {entry['epoch'] + 1}  loss {entry['loss']:.4f}{relabel}")
