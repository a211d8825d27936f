"""cleanlab takes what we hand it, and what it hands back is read: by its own functions, not by our idea of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from selc.errors import InputError
from selc.estimator import SELCClassifier
from selc.integrations.cleanlab import from_cleanlab, to_cleanlab, transition_matrix
from selc.runs import fit as selc_fit

cleanlab = pytest.importorskip("cleanlab")
Array = np.ndarray[Any, np.dtype[Any]]
NAMES = np.array(["ash", "birch", "cedar"])


def quick(**changes: Any) -> SELCClassifier:
    settings: dict[str, Any] = {"max_epochs": 20, "lr": 0.005, "batch_size": 32, "module_options": {"hidden": [64]}}
    return SELCClassifier(**settings, random_state=0, device="cpu", **changes)


@pytest.fixture(scope="module")
def trees() -> tuple[SELCClassifier, Array, Array, Array]:
    """A fitted classifier, its inputs, the true and the given labels; every sixth label is the next class."""
    x, true = make_blobs(300, centers=[[0, 0], [5, 0], [0, 5]], random_state=2)
    given = true.copy()
    given[::6] = (given[::6] + 1) % 3
    return quick().fit(x, NAMES[given]), x, true, given


def test_cleanlab_finds_the_wrong_labels_with_our_probabilities(
    trees: tuple[SELCClassifier, Array, Array, Array],
) -> None:
    from cleanlab.filter import find_label_issues

    fitted, _, true, given = trees
    handed = to_cleanlab(fitted)
    assert handed.labels.tolist() == given.tolist()
    assert handed.classes.tolist() == NAMES.tolist()
    found = find_label_issues(handed.labels, handed.pred_probs, n_jobs=1)
    wrong = given != true
    assert (handed.pred_probs.argmax(axis=1) == true)[wrong].mean() > 0.9
    assert found[wrong].mean() > 0.85  # cleanlab does not take up every contradiction
    assert found[~wrong].mean() < 0.05


def test_cleanlab_takes_our_matrix_as_its_noise_matrix(trees: tuple[SELCClassifier, Array, Array, Array]) -> None:
    from cleanlab.benchmarking.noise_generation import noise_matrix_is_valid
    from cleanlab.internal.util import value_counts

    fitted, _, true, given = trees
    handed = to_cleanlab(fitted)
    np.testing.assert_allclose(handed.noise_matrix.sum(axis=0), 1, atol=1e-6)
    assert noise_matrix_is_valid(handed.noise_matrix, value_counts(true).flatten() / len(true))
    # P(given = 1 | true = 0), by counting; row and column are cleanlab's.
    assert handed.noise_matrix[1, 0] == pytest.approx(((given == 1) & (true == 0)).sum() / (true == 0).sum(), abs=0.05)
    np.testing.assert_allclose(transition_matrix(handed.noise_matrix), fitted.transition_matrix_)


def test_cleanlab_trains_on_by_our_table_of_issues(trees: tuple[SELCClassifier, Array, Array, Array]) -> None:
    from cleanlab.classification import CleanLearning

    fitted, x, true, given = trees
    handed = to_cleanlab(fitted)
    assert handed.label_issues.columns.tolist() == ["is_label_issue", "label_quality", "given_label", "predicted_label"]
    learner = CleanLearning(LogisticRegression())
    learner.fit(x, given, label_issues=handed.label_issues, noise_matrix=handed.noise_matrix)
    assert (learner.predict(x) == true).mean() > 0.97


def test_a_table_of_cleanlab_comes_back_with_our_columns_and_names(
    trees: tuple[SELCClassifier, Array, Array, Array],
) -> None:
    from cleanlab.classification import CleanLearning

    fitted, x, true, given = trees
    probs = cross_val_predict(LogisticRegression(), x, given, method="predict_proba")
    theirs = CleanLearning(seed=0).find_label_issues(labels=given, pred_probs=probs)
    ours = from_cleanlab(theirs, NAMES, sample_ids=[f"tree {k}" for k in range(300)])
    assert list(ours) == list(fitted.label_issues_)
    assert ours["given_label"].tolist() == NAMES[given].tolist()
    assert ours["sample_id"][5] == "tree 5"
    issue = theirs["is_label_issue"].to_numpy()
    assert (ours["suggested_label"] == NAMES[true])[issue].mean() > 0.9
    assert (ours["suggested_label"] == ours["given_label"])[~issue].all()
    assert set(ours["action"][issue]) == {"review"}


def test_what_goes_there_and_back_is_the_same(trees: tuple[SELCClassifier, Array, Array, Array]) -> None:
    fitted = trees[0]
    back = from_cleanlab(to_cleanlab(fitted).label_issues, fitted.classes_)
    for name in ("is_label_issue", "label_quality", "given_label", "predicted_label"):
        assert np.array_equal(back[name], fitted.label_issues_[name])


def test_cleanlab_can_wrap_the_classifier(trees: tuple[SELCClassifier, Array, Array, Array]) -> None:
    from cleanlab.classification import CleanLearning

    _, x, true, given = trees
    given_start = quick(method_options={"start": 6})  # to decide on it takes five more trainings, three times
    learner = CleanLearning(given_start, cv_n_folds=2, seed=0)
    learner.fit(x, given)
    assert (learner.predict(x) == true).mean() > 0.95


def test_a_finished_run_is_handed_on_like_a_classifier(tmp_path: Path) -> None:
    x, y = make_blobs(90, centers=[[0, 0], [5, 0], [0, 5]], random_state=2)
    out = tmp_path / "run"
    settings: dict[str, Any] = {"epochs": 4, "lr": 0.02, "batch_size": 16, "schedule": "constant"}
    outcome = selc_fit(x, NAMES[y], out=out, method="ce", **settings)
    handed = to_cleanlab(out)
    assert handed.classes.tolist() == NAMES.tolist()
    assert handed.labels.tolist() == y.tolist()
    np.testing.assert_allclose(handed.pred_probs, outcome.probs.full().numpy(), atol=1e-6)
    np.testing.assert_allclose(handed.noise_matrix.sum(axis=0), 1, atol=1e-6)


def test_what_does_not_fit_gets_its_sentence(trees: tuple[SELCClassifier, Array, Array, Array]) -> None:
    with pytest.raises(InputError, match="must be fitted"):
        to_cleanlab(quick())
    with pytest.raises(InputError, match=r"pred_probs must be of shape \[300, 3\]; got \[300, 2\]"):
        to_cleanlab(trees[0], pred_probs=np.zeros((300, 2)))
    with pytest.raises(InputError, match="got none called 'label_quality'"):
        from_cleanlab(pd.DataFrame({"is_label_issue": [True]}), NAMES)
    with pytest.raises(InputError, match=r"columns that sum to one.*column sums \[0.9, 1.1\]"):
        transition_matrix([[0.8, 0.3], [0.1, 0.8]])
    strange = to_cleanlab(trees[0]).label_issues.assign(given_label=7)
    with pytest.raises(InputError, match="given_label must count the 3 classes from 0; got 7 to 7"):
        from_cleanlab(strange, NAMES)
