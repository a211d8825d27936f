"""SELCClassifier keeps the promises of scikit-learn, and says of the labels what it knows."""

from __future__ import annotations

import importlib
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import f1_score, log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator
from torch import nn

from selc.errors import ConfigError, InputError
from selc.estimator import SELCClassifier
from selc.methods import METHODS, create
from selc.nets import create as create_net
from selc.runs.predict import probabilities, rebuilt
from selc.training.metrics import usual
from tests.tiers import but_for, exhaustive

Array = np.ndarray[Any, np.dtype[Any]]
ROOT = Path(__file__).parents[1]


def quick(**changes: Any) -> SELCClassifier:
    """A cheap one: a small network, few epochs."""
    settings: dict[str, Any] = {"max_epochs": 12, "lr": 0.02, "batch_size": 16, "module_options": {"hidden": [32]}}
    return SELCClassifier(**{**settings, "random_state": 0, "device": "cpu", **changes})


# Where it does not matter when correction starts: to decide that takes five more trainings.
GIVEN: dict[str, Any] = {"start": 4}


def blobs(rows: int = 90, seed: int = 3) -> tuple[Array, Array]:
    x, y = make_blobs(rows, centers=[[0, 0, 0], [5, 0, 3], [0, 5, -3]], random_state=seed)
    return x, y


# Not one check is expected to fail. One is left out: for another kind of arrays, which it does not claim to take; it
# would skip itself.
CHECKS = {
    f"{getattr(check, 'func', check).__name__}-{k}": check
    for k, (_, check) in enumerate(estimator_checks_generator(quick()))
    if getattr(check, "func", check).__name__ != "check_array_api_input"
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", [4, *exhaustive("auto")])
@pytest.mark.parametrize("name", list(CHECKS))
def test_every_check_of_scikit_learn_passes(name: str, start: float | str) -> None:
    CHECKS[name](quick(method_options={"start": start}))


# As a part of scikit-learn


def test_it_works_at_the_end_of_a_pipeline_in_a_grid_and_in_cross_validation() -> None:
    x, y = blobs()
    pipeline = make_pipeline(StandardScaler(), quick(method_options=GIVEN))
    grid = GridSearchCV(pipeline, {"selcclassifier__lr": [1e-6, 0.02]}, cv=2).fit(x, y)
    assert grid.best_params_ == {"selcclassifier__lr": 0.02}
    assert cross_val_score(quick(method_options=GIVEN), x, y, cv=3).mean() > 0.95


def test_labels_may_be_names_or_numbers_with_gaps_and_stay_what_they_were() -> None:
    x, y = blobs()
    names = np.array(["rose", "tulip", "aster"])[y]
    by_name, by_number = (quick(method_options=GIVEN).fit(x, given) for given in (names, 7 * y - 7))
    assert by_name.classes_.tolist() == ["aster", "rose", "tulip"]
    assert by_number.classes_.tolist() == [-7, 0, 7]
    assert (by_name.predict(x) == names).mean() > 0.95
    assert (by_number.predict(x) == 7 * y - 7).mean() > 0.95
    assert by_number.corrected_labels_.dtype == (7 * y).dtype
    assert set(by_name.label_issues_["suggested_label"]) <= set(names)


@pytest.mark.exhaustive
def test_the_same_seed_gives_the_same_network_and_another_one_another() -> None:
    x, y = blobs()
    first, again, other = (quick(random_state=seed).fit(x, y).predict_proba(x) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_clone_and_pickle_keep_everything() -> None:
    x, y = blobs()
    module = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 3))
    before = [p.clone() for p in module.parameters()]
    fitted = quick(module=module, module_options=None, method="gce", method_options={"q": 0.5}).fit(x, y)
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))  # a copy was trained
    copied = clone(fitted)
    assert not hasattr(copied, "classes_")
    assert copied.method_options == {"q": 0.5}
    assert np.array_equal(copied.fit(x, y).predict_proba(x), fitted.predict_proba(x))
    again = pickle.loads(pickle.dumps(fitted))  # noqa: S301  our own bytes
    assert np.array_equal(again.predict_proba(x), fitted.predict_proba(x))
    assert again.label_issues_.keys() == fitted.label_issues_.keys()


def test_frames_are_known_by_their_columns() -> None:
    x, y = blobs()
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    fitted = quick(method_options=GIVEN).fit(frame, pd.Series(y))
    assert fitted.feature_names_in_.tolist() == ["a", "b", "c"]
    assert fitted.n_features_in_ == 3
    assert np.array_equal(fitted.predict_proba(frame), quick(method_options=GIVEN).fit(x, y).predict_proba(x))
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(frame[["b", "a", "c"]])


# Columns of text and gaps


def mixed(rows: int = 120) -> tuple[pd.DataFrame, Array]:
    rng = np.random.default_rng(0)
    y = np.arange(rows) % 2
    size = np.where(rng.random(rows) < 0.2, np.nan, rng.normal(size=rows))
    city = pd.Series(np.where(y == 1, "Rome", "Oslo")).mask(pd.Series(rng.random(rows) < 0.1))
    return pd.DataFrame({"size": size, "city": city, "sure": y.astype(bool)}), y


def test_a_frame_with_text_and_gaps_is_taken_as_it_is() -> None:
    frame, y = mixed()
    fitted = quick(method_options=GIVEN).fit(frame, y)
    assert fitted.n_features_in_ == 3
    assert (fitted.predict(frame) == y).mean() > 0.95
    strange = frame.head(4).assign(city=["Paris", None, "Rome", "Oslo"], size=np.nan)
    probs = fitted.predict_proba(strange)
    np.testing.assert_allclose(probs.sum(axis=1), 1)
    with pytest.raises(InputError, match=r"X must be a DataFrame .* like that of the training; got ndarray"):
        fitted.predict(np.zeros((2, 3)))
    with pytest.raises(InputError, match="column 'size' must be numeric; got 'big' in row 0"):
        fitted.predict(frame.head(1).astype({"size": object}).assign(size=["big"]))


def test_encoding_outside_gives_the_same_inputs_as_inside() -> None:
    """Seen by what one epoch of CE makes of them: too short for roundings to grow, and nothing is decided by them."""
    short: dict[str, Any] = {"method": "ce", "max_epochs": 1}
    frame, y = mixed()
    frame = frame.assign(size=frame["size"].fillna(0.0), city=frame["city"].fillna("Bonn"), sure=y * 1.0)
    inside = quick(**short).fit(frame, y)
    outside = make_column_transformer(
        (StandardScaler(), ["size", "sure"]), (OneHotEncoder(), ["city"]), sparse_threshold=0
    )
    x = outside.fit_transform(frame)
    again = quick(**short, standardize=False).fit(x, y)
    np.testing.assert_allclose(inside.predict_proba(frame), again.predict_proba(x), atol=1e-5)


# Networks and methods


class Named(nn.Module):
    """A network of a user's own, with the number of classes by name."""

    def __init__(self, num_classes: int, shape: tuple[int, ...], width: int = 8) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), width), nn.ReLU())
        self.head = nn.Linear(width, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.body(x))
        return out


@pytest.mark.parametrize(
    "changes",
    [
        {"module": Named, "module_options": {"width": 16}},
        {"module": lambda outputs: nn.Linear(3, outputs), "module_options": None},
        {"module": nn.Linear(3, 3), "module_options": None},
        {"module": "mlp", "module_options": {"hidden": [8]}},
    ],
)
def test_a_network_may_be_a_name_a_module_a_class_or_a_function(changes: dict[str, Any]) -> None:
    x, y = blobs()
    fitted = quick(method_options=GIVEN, **changes).fit(x, y)
    assert fitted.score(x, y) > 0.9


def test_images_go_through_convolutions_and_are_scaled_by_channel() -> None:
    x, y = load_digits(return_X_y=True)
    images, y = x[y < 2].reshape(-1, 1, 8, 8)[:120], y[y < 2][:120]
    fitted = quick(module="cnn", module_options={"width": 8}, max_epochs=6, method_options={"start": 2}).fit(images, y)
    assert fitted.score(images, y) > 0.9
    assert fitted.how_.coding is None
    assert fitted.how_.scale.mean.shape == (1, 1, 1)
    np.testing.assert_allclose(fitted.how_.scale.mean.item(), images.mean())
    with pytest.raises(ValueError, match=r"inputs of shape \[1, 8, 8\]; got \[1, 4, 4\]"):
        fitted.predict(images[:, :, :4, :4])


@pytest.mark.filterwarnings("ignore::UserWarning")  # some methods warn that so short a training makes no sense
@pytest.mark.parametrize("name", but_for(set(METHODS) - {"selc", "co-teaching", "dmi"}, METHODS))
def test_every_method_predicts_what_its_training_measured(name: str) -> None:
    """The probabilities of the training rows, worked out by the training loop and by ``predict_proba``."""
    x, y = blobs(60)
    fitted = quick(method=name, max_epochs=4).fit(x, y)
    np.testing.assert_allclose(fitted.predict_proba(x), fitted.pred_probs_, atol=1e-5)
    net = lambda outputs: create_net("mlp", outputs, (3,), {"hidden": [32]})  # noqa: E731
    model, method = rebuilt(create(name), net, 3, fitted.module_.state_dict())
    again = probabilities(model, method, fitted._inputs(x), 3, device="cpu")
    np.testing.assert_allclose(again.numpy(), fitted.pred_probs_, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"method": "co-teeching"}, "method must be one of .* Did you mean 'co-teaching'"),
        ({"method": create("gce"), "method_options": {"q": 0.5}}, "method_options go with a method's name"),
        ({"module": nn.Linear(3, 2), "module_options": None}, r"module must map 2 inputs .*\[2, 3\]; got \[2, 2\]"),
        ({"module": nn.Linear(3, 3)}, "module_options go with a name"),
        ({"max_epochs": 0}, "epochs must be greater than or equal to 1"),
        ({"train_options": {"optimiser": "Adam"}}, "optimiser"),
    ],
)
def test_a_setting_that_is_wrong_gets_its_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        quick(**changes).fit(*blobs(30))


# What it says of the labels


@pytest.fixture(scope="module")
def digits() -> tuple[SELCClassifier, Array, Array, Array]:
    """Fitted on the digits, of which every fifth label is wrong."""
    x, true = load_digits(return_X_y=True)
    names = np.array([f"digit {k}" for k in range(10)])
    noisy = true.copy()
    noisy[::5] = (noisy[::5] + 1) % 10
    ids = np.array([f"scan-{k}" for k in range(len(x))])
    classifier = SELCClassifier(max_epochs=20, module_options={"hidden": [64]}, random_state=0)
    fitted = classifier.fit(x, names[noisy], sample_ids=ids)
    return fitted, x, names[true], names[noisy]


def test_wrong_labels_are_found_and_corrected(digits: tuple[SELCClassifier, Array, Array, Array]) -> None:
    fitted, _, true, noisy = digits
    assert (noisy == true).mean() == pytest.approx(0.8, abs=0.001)
    assert (fitted.corrected_labels_ == true).mean() > 0.92
    assert (fitted.classes_[fitted.soft_targets_.argmax(axis=1)] == true).mean() > 0.94
    table = pd.DataFrame(fitted.label_issues_)
    assert table.columns.tolist()[:5] == [
        "sample_id",
        "is_label_issue",
        "label_quality",
        "given_label",
        "predicted_label",
    ]
    wrong = noisy != true
    assert table["sample_id"].tolist()[:2] == ["scan-0", "scan-1"]
    assert table["given_label"].tolist() == noisy.tolist()
    assert table.loc[wrong, "label_quality"].mean() < 0.5 * table.loc[~wrong, "label_quality"].mean()
    assert table.loc[wrong, "is_label_issue"].mean() > 0.8
    assert table.loc[~wrong, "is_label_issue"].mean() < 0.1


def test_estimates_have_the_shapes_and_sums_that_their_names_promise(
    digits: tuple[SELCClassifier, Array, Array, Array],
) -> None:
    fitted, x, true, noisy = digits
    assert fitted.turning_point_ is not None
    assert 0.1 < fitted.noise_rate_ < 0.35
    np.testing.assert_allclose(fitted.transition_matrix_.sum(axis=1), 1, atol=1e-6)
    low, high = fitted.noise_rate_interval_
    assert low < fitted.noise_rate_ < high
    really = ((noisy == "digit 3") & (true == "digit 2")).sum() / (true == "digit 2").sum()
    assert fitted.transition_matrix_[2, 3] == pytest.approx(really, abs=0.1)
    assert fitted.soft_targets_.shape == fitted.pred_probs_.shape == (1797, 10)
    np.testing.assert_allclose(fitted.soft_targets_.sum(axis=1), 1, atol=1e-5)
    assert fitted.history_[0]["epoch"] == 0
    assert fitted.predict_proba(x[:7]).shape == (7, 10)


def test_sample_ids_must_name_every_row_and_pass_through_a_pipeline() -> None:
    x, y = blobs(30)
    with pytest.raises(InputError, match=r"sample_ids must name each of the 30 rows; got shape \(29,\)"):
        quick().fit(x, y, sample_ids=range(29))
    pipeline = make_pipeline(StandardScaler(), quick(method_options=GIVEN))
    pipeline.fit(x, y, selcclassifier__sample_ids=np.arange(30) + 100)
    assert pipeline[-1].label_issues_["sample_id"][0] == 100


def test_it_measures_what_scikit_learn_does_by_its_probabilities() -> None:
    x, y = blobs()
    names = np.array(["a", "b", "c"])[y]
    classifier = quick(train_options={"val_fraction": 0.2}).fit(x, names)
    values = classifier.measure(x, names)
    probs, predicted = classifier.predict_proba(x), classifier.predict(x)
    assert values["top1"] == pytest.approx(classifier.score(x, names), abs=1e-7)
    assert values["macro_f1"] == pytest.approx(f1_score(names, predicted, average="macro"), abs=1e-12)
    assert values["log_loss"] == pytest.approx(log_loss(names, probs), abs=1e-12)
    assert set(classifier.history_[-1]["val"]) == set(values) == set(usual()) - {"top5"}
    assert set(quick(train_options={"metrics": ["log_loss"]}).fit(x, names).measure(x, names)) == {"top1", "log_loss"}
    with pytest.raises(InputError, match=r"y must hold labels that the classifier was trained on; got .*'d'"):
        classifier.measure(x[:2], ["a", "d"])
    with pytest.raises(InputError, match=r"y must hold a label for each of the 2 rows; got shape \[3\]"):
        classifier.measure(x[:2], ["a", "b", "c"])


def test_verbose_prints_a_line_per_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    quick(verbose=1, method="ce", max_epochs=3).fit(*blobs(30))
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_without_scikit_learn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "selc.estimator")
    for name in ("sklearn", "sklearn.base"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=r"pip install 'selc\[sklearn\]'"):
        importlib.import_module("selc.estimator")


@pytest.mark.exhaustive
def test_the_example_corrects_labels_and_predicts_new_rows() -> None:
    command = [sys.executable, str(ROOT / "examples" / "estimator.py")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    given, corrected, test, estimated = map(float, re.findall(r"([\d.]+)%", result.stdout))
    assert given == 80.0
    assert corrected > 88
    assert test > 88
    assert 10 < estimated < 35


@pytest.mark.parametrize("epochs", [2, *exhaustive(None)])  # None: as many as the page says
@pytest.mark.exhaustive
def test_what_the_page_shows_runs(epochs: int | None) -> None:
    pytest.importorskip("cleanlab")
    pages = [(ROOT / "docs" / name).read_text() for name in ("scikit-learn.md", "cleanlab.md")]
    blocks = [block for page in pages for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL)]
    assert len(blocks) == 4
    for block in blocks:
        if epochs is not None:
            block, found = re.subn(r"max_epochs=\d+", f"max_epochs={epochs}", block)
            assert found <= 1  # probabilities from elsewhere need none
        exec(block, {})
