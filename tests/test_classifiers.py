"""Classifiers of scikit-learn in the place of a network: every label is judged by one that never saw it."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_blobs
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, PredefinedSplit, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import estimator_checks_generator

from selc._io.files import read_tensors, write_tensors
from selc.classifiers import FILE, Rows, create, fitted_again, folds, judge_labels
from selc.classifiers.folds import conclusion, last_look
from selc.errors import ConfigError, RunFolderError
from selc.estimator import SELCClassifier
from selc.runs import Config, RunFolder, execute, resume
from selc.runs.predict import predict
from selc.turning.decision import decide
from selc.turning.evidence import Evidence
from selc.turning.splits import deal_parts
from tests.own_data.miniature import write_csv
from tests.own_data.reviews import reviews
from tests.test_cli import call

Array = np.ndarray[Any, np.dtype[Any]]


def blobs(rows: int = 300, flipped: float = 0.2, spread: float = 1.5) -> tuple[Array, Array, Array]:
    """Rows of three classes, their true labels, and labels of which some are wrong."""
    x, true = make_blobs(rows, centers=[[0, 0], [5, 0], [0, 5]], cluster_std=spread, random_state=0)
    rng = np.random.default_rng(1)
    given = np.where(rng.random(rows) < flipped, (true + rng.integers(1, 3, rows)) % 3, true)
    return x, true, given


def rows_of(x: Array, given: Array, **more: Any) -> Rows:
    return Rows(x, torch.from_numpy(given.astype(np.int64)), int(given.max()) + 1, **more)


# Out-of-fold predictions


def test_predictions_are_those_of_cross_validation_on_the_same_folds() -> None:
    x, _, given = blobs()
    judged = judge_labels(GaussianNB(), rows_of(x, given), seed=4)
    folds = deal_parts(torch.from_numpy(given), 5, 4)
    expected = cross_val_predict(GaussianNB(), x, given, cv=PredefinedSplit(folds.numpy()), method="predict_proba")
    np.testing.assert_allclose(judged.believed.numpy(), expected)
    refitted = GaussianNB().fit(x, judged.analysis.corrected.numpy()).predict_proba(x)
    np.testing.assert_allclose(judged.probs.numpy(), refitted)


def test_rows_that_are_identical_or_of_a_group_never_judge_each_other() -> None:
    """One neighbour knows every row by heart: labels by chance are predicted by chance if nothing gives one away."""
    rng = np.random.default_rng(0)
    x, given = rng.normal(size=(200, 3)), rng.integers(0, 2, 200)
    twice, labels = np.concatenate([x, x]), np.concatenate([given, given])
    near = np.concatenate([x, x + 1e-6])
    groups = torch.arange(200).repeat(2)
    learner = KNeighborsClassifier(1)
    cases = {
        "identical": rows_of(twice, labels),
        "group": rows_of(near, labels, groups=groups),
        "none": rows_of(near, labels),
    }
    agreed = {
        name: float((judge_labels(learner, data, 0).believed.argmax(1).numpy() == labels).mean())
        for name, data in cases.items()
    }
    assert agreed["identical"] < 0.65
    assert agreed["group"] < 0.65
    assert agreed["none"] > 0.75  # four of five twins are seen


def test_a_class_with_few_rows_is_never_held_out_and_never_changed() -> None:
    x, _, given = blobs(200)
    given[given == 2] = 0
    given[:3] = 2
    judged = judge_labels(GaussianNB(), rows_of(x, given), 0)
    assert judged.evidence is not None
    assert judged.evidence.rows is not None
    assert set(judged.evidence.rows.tolist()) == set(range(3, 200))
    assert judged.analysis.corrected[:3].tolist() == [2, 2, 2]
    few = judge_labels(GaussianNB(), rows_of(x[:8], np.arange(8) % 2), 0)
    assert few.evidence is None
    assert str(few.analysis.why_unchanged) == "too few"


def test_boosting_is_looked_at_after_each_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    x, _, given = blobs(60)
    model = GradientBoostingClassifier(n_estimators=4, max_depth=1, random_state=0)
    judged = judge_labels(model, rows_of(x, given), 0)
    assert judged.evidence is not None
    assert judged.evidence.looks == 4
    sure, predicted = judged.believed.max(dim=1)
    torch.testing.assert_close(judged.evidence.confidences[-1], sure)
    torch.testing.assert_close(judged.evidence.predictions[-1], predicted)
    piped = judge_labels(make_pipeline(StandardScaler(), model), rows_of(x, given), 0)
    assert piped.evidence is not None
    assert piped.evidence.looks == 4
    monkeypatch.setattr(folds, "LOOKS", 2)
    some = judge_labels(model, rows_of(x, given), 0).evidence
    assert some is not None
    torch.testing.assert_close(some.confidences, judged.evidence.confidences[1::2])


def looks_of(accuracies: list[float], sure: float = 0.9) -> tuple[Evidence, torch.Tensor]:
    """Evidence of 400 rows of two classes of which such shares are predicted as given; others never are."""
    given = torch.arange(400) % 2
    hit = torch.stack([torch.arange(400) < share * 400 for share in accuracies])
    predictions = torch.where(hit, given, 1 - given)
    sureness = torch.full(hit.shape, sure, dtype=torch.float64)
    table = torch.where(hit, sureness, 1 - sureness)
    return Evidence(given, predictions, sureness, table, 2, 5, torch.arange(400)), given


def test_iterations_before_a_fall_count_and_else_only_the_last() -> None:
    fallen, given = looks_of([0.6, 0.8, 0.8, 0.7, 0.6, 0.6])
    judged = conclusion(fallen, given, None)
    assert judged.decision is not None
    assert str(judged.decision.reason) == "fall"
    late = slice(int(0.62 * 400), int(0.78 * 400))  # right at the best, forgotten at the end
    assert (judged.findings.predicted[late] == given[late]).all()
    risen, given = looks_of([0.5, 0.6, 0.7, 0.8, 0.8])
    plain = conclusion(risen, given, None)
    decision = decide(risen, risen.looks)
    torch.testing.assert_close(plain.findings.quality, risen.given[decision.first : decision.last + 1].mean(dim=0))
    alone = conclusion(last_look(risen), given, None)
    assert plain.as_dict() == alone.as_dict()


# As an estimator


def quick(module: Any = None, **changes: Any) -> SELCClassifier:
    return SELCClassifier(GaussianNB() if module is None else module, random_state=0, **changes)


CHECKS = {
    f"{getattr(check, 'func', check).__name__}-{k}": check
    for k, (_, check) in enumerate(estimator_checks_generator(quick()))
    if getattr(check, "func", check).__name__ != "check_array_api_input"
}


@pytest.mark.parametrize("name", CHECKS)
def test_it_is_an_estimator_like_any_other(name: str) -> None:
    CHECKS[name](quick())


@pytest.mark.parametrize(
    "module",
    [
        LogisticRegression(),
        LogisticRegression,
        "sklearn:LogisticRegression",
        make_pipeline(StandardScaler(), GaussianNB()),
    ],
    ids=["object", "class", "name", "pipeline"],
)
def test_wrong_labels_are_found_and_corrected(module: Any) -> None:
    x, true, given = blobs(spread=1.0)
    names = np.array(["a", "b", "c"])
    found = quick(module).fit(x, names[given], sample_ids=[f"s{k}" for k in range(300)])
    assert (found.corrected_labels_ == names[true]).mean() >= (given == true).mean()
    low, high = found.noise_rate_interval_
    assert low < (given != true).mean() < high
    issues = found.label_issues_
    assert issues["sample_id"][7] == "s7"
    worst = np.argsort(issues["label_quality"])[:40]
    assert (given != true)[worst].mean() > 0.9
    assert found.score(x, names[true]) > 0.95
    assert found.measure(x, names[true])["top1"] == pytest.approx(found.score(x, names[true]))
    again = pickle.loads(pickle.dumps(found))  # noqa: S301
    np.testing.assert_array_equal(again.predict_proba(x), found.predict_proba(x))
    assert (
        quick(module).fit(x, names[given]).label_issues_["label_quality"].tolist() == issues["label_quality"].tolist()
    )


def test_as_many_labels_are_wrong_as_are_said_and_right_ones_stay() -> None:
    x, true, given = blobs(spread=1.0)
    judged = judge_labels(LogisticRegression(), rows_of(x, given), seed=0).analysis
    assert (judged.corrected.numpy() == true).mean() > 0.95 > (given == true).mean()
    hard, true, _ = blobs(spread=2.5)
    clean = judge_labels(LogisticRegression(), rows_of(hard, true), seed=0)
    assert (clean.believed.argmax(1).numpy() != true).mean() > 0.05  # hard rows are contradicted, and yet
    assert str(clean.analysis.why_unchanged) == "clean"
    assert clean.analysis.noise_rate is not None
    assert clean.analysis.noise_rate.low == 0


def test_verified_labels_stay_and_count_as_good() -> None:
    x, true, given = blobs(spread=1.0)
    wrong = torch.from_numpy(given != true).nonzero().flatten()[:5]
    verified = torch.zeros(300, dtype=torch.bool).index_fill_(0, wrong, True)
    free, fixed = (
        judge_labels(LogisticRegression(), rows_of(x, given, verified=h), 0).analysis for h in (None, verified)
    )
    assert (free.corrected.numpy() == true)[wrong].sum() >= 3
    assert fixed.corrected[wrong].tolist() == given[wrong].tolist()
    assert (fixed.findings.quality[wrong] == 1).all()
    found = quick(LogisticRegression()).fit(x, given, verified=wrong.numpy())
    np.testing.assert_array_equal(found.corrected_labels_[wrong], given[wrong])


def test_a_network_keeps_verified_labels_too() -> None:
    x, true, given = blobs(90, 0.1, 0.5)
    wrong = np.flatnonzero(given != true)
    net = SELCClassifier(max_epochs=10, lr=0.05, method_options={"start": 2}, random_state=0, device="cpu")
    np.testing.assert_array_equal(net.fit(x, given, verified=wrong).corrected_labels_[wrong], given[wrong])


def test_a_pipeline_gets_its_frame_or_its_texts() -> None:
    x, _, given = blobs(spread=0.7)
    frame = pd.DataFrame({"a": x[:, 0], "b": np.where(x[:, 1] > 2.5, "high", "low")})
    columns = make_column_transformer((OneHotEncoder(), ["b"]), remainder="passthrough")
    fitted = quick(make_pipeline(columns, LogisticRegression())).fit(frame, given)
    assert fitted.feature_names_in_.tolist() == ["a", "b"]
    assert fitted.predict(frame).shape == (300,)
    texts, labels = reviews(60)
    read = quick(make_pipeline(TfidfVectorizer(), LogisticRegression(C=100))).fit(texts, labels)
    others = reviews(20, seed=1)
    assert (read.predict(others[0]) == np.array(others[1])).mean() >= 0.9


def test_settings_of_the_classifier_are_searched() -> None:
    x, _, given = blobs(120)
    search = GridSearchCV(quick(LogisticRegression()), {"module__C": [0.01, 1.0]}, cv=2).fit(x, given)
    assert search.best_params_["module__C"] in (0.01, 1.0)


def test_what_does_not_fit_is_told_in_a_sentence() -> None:
    x, _, given = blobs(60)
    with pytest.raises(ConfigError, match=r"module must have predict_proba.*got LinearSVC.*CalibratedClassifierCV"):
        quick(LinearSVC()).fit(x, given)
    with pytest.raises(ConfigError, match=r"module must be a network, or a classifier .*got StandardScaler"):
        quick(StandardScaler()).fit(x, given)
    with pytest.raises(ConfigError, match="max_epochs must be left out with a classifier of scikit-learn"):
        quick(max_epochs=3).fit(x, given)
    with pytest.raises(ConfigError, match=r"a classifier of scikit-learn .* got 'GausianNB'.*GaussianNB"):
        create("sklearn:GausianNB", {}, 0)
    with pytest.raises(ConfigError, match="an option of net sklearn:GaussianNB must be"):
        create("sklearn:GaussianNB", {"depth": 3}, 0)
    with pytest.raises(ConfigError, match="must be a classifier that needs no other one"):
        create("sklearn:StackingClassifier", {}, 0)
    with pytest.raises(ConfigError, match="HistGradientBoostingClassifier must fit these rows; got InvalidParameter"):
        quick("sklearn:HistGradientBoostingClassifier", module_options={"max_iter": -1}).fit(x, given)


# As a run


def write_table(path: Path, rows: int = 150) -> Path:
    x, _, given = blobs(rows, spread=1.0)
    names = ["red", "green", "blue"]
    lines = [[f"s{k}", *map(float, x[k]), names[given[k]], k // 3] for k in range(rows)]
    return write_csv(path, ["id", "u", "v", "label", "who"], lines)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    place = tmp_path_factory.mktemp("classifier")
    data = str(write_table(place / "t.csv"))
    result = call(
        *("train", data, "--test", data, "--net", "sklearn:LogisticRegression", "--set", "net.C=0.5"),
        *("--group-column", "who", "--out", str(place / "run")),
    )
    assert result.exit_code == 0, result.output
    assert "out-of-fold with sklearn:LogisticRegression, C 0.5" in result.output
    assert "fitted on all rows with the corrected labels" in result.output
    return RunFolder.open(place / "run")


def test_a_run_has_the_files_of_any_run_and_can_be_applied(run: RunFolder, tmp_path: Path) -> None:
    assert run.config.net.options == {"C": 0.5}
    _, true, given = blobs(150, spread=1.0)
    right = (run.corrected().numpy() == np.array([2, 1, 0])[true]).mean()  # in the order of their names
    assert right > (given == true).mean() + 0.05
    assert run.ids[7] == "s7"
    result = call("apply", str(run.path), "--out", str(tmp_path / "cleaned"))
    assert result.exit_code == 0, result.output
    for command in (("report", "--samples", "5"), ("review", "--top", "5")):
        assert call(command[0], str(run.path), *command[1:]).exit_code == 0
    page = (run.path / "report.html").read_text()
    assert "LogisticRegression of scikit-learn was fitted to 150 samples" in page
    assert '<h2 id="turning">How labels were judged</h2>' in page
    assert not {part.split('"')[0] for part in page.split(' id="')} & {"losses", "memory"}
    shown = json.loads(call("resume", str(run.path), "--json").stdout)
    assert shown["epoch"] is None  # there is none
    assert Path(shown["model"]).name == FILE
    assert Path(shown["model"]).is_file()
    assert "network" not in page.split("<main>")[1].split("Protocol, versions")[0]


def test_the_classifier_is_kept_without_a_pickle_and_is_the_same_again(run: RunFolder, tmp_path: Path) -> None:
    made = predict(run, write_table(tmp_path / "new.csv"))
    np.testing.assert_allclose(made.probs.numpy(), run.table("probs").full().numpy(), atol=1e-6)
    assert not list(run.path.glob("*.pickle"))
    kept = read_tensors(run.path / FILE)
    write_tensors(tmp_path / FILE, {**kept, "labels": kept["labels"].flip(0)})
    with pytest.raises(RunFolderError, match="must give the classifier of the run when it is fitted again"):
        fitted_again(tmp_path, create("sklearn:LogisticRegression", {"C": 0.5}, 0))


def test_an_interrupted_run_is_done_again_and_comes_to_the_same(run: RunFolder, tmp_path: Path) -> None:
    again = execute(run.config, tmp_path / "again")
    (again.path / "summary.json").unlink()
    (again.path / FILE).unlink()
    resumed = resume(again.path)
    assert torch.equal(resumed.findings().quality, run.findings().quality)
    assert (resumed.path / FILE).exists()


def test_verdicts_of_a_person_are_held_fixed(run: RunFolder) -> None:
    changed = (run.corrected() != run.given).nonzero().flatten()[:2].tolist()
    assert len(changed) == 2
    x, _, given = blobs(150, spread=1.0)
    verified = torch.zeros(150, dtype=torch.bool).index_fill_(0, torch.tensor(changed), True)
    judged = judge_labels(LogisticRegression(C=0.5), rows_of(x, given, verified=verified), 0)
    assert judged.analysis.corrected[changed].tolist() == given[changed].tolist()
    dropped = judge_labels(LogisticRegression(), rows_of(x, given, rows=(~verified).nonzero().flatten()), 0)
    assert dropped.evidence is not None
    assert dropped.evidence.rows is not None
    assert not set(changed) & set(dropped.evidence.rows.tolist())


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--net", "sklearn:LogisticRegression", "--epochs", "3"], "train.epochs must be left out"),
        (["--net", "sklearn:LogisticRegression", "--method", "elr"], "--method must be left out"),
        (["--net", "sklearn:LinearSVC"], "must have predict_proba"),
        (["--net", "sklearn:Nothing"], "a classifier of scikit-learn"),
    ],
)
def test_the_command_refuses_what_does_not_fit(more: list[str], message: str, tmp_path: Path) -> None:
    result = call("train", str(write_table(tmp_path / "t.csv")), *more, "--out", str(tmp_path / "run"))
    assert result.exit_code == 2
    assert message in result.output
    assert not (tmp_path / "run").exists()


def test_images_are_no_table(tmp_path: Path) -> None:
    x = np.zeros((20, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", x=x, y=np.arange(20) % 2)
    data = {"name": "npz", "path": str(tmp_path / "a.npz")}
    config = Config.resolve({"data": data, "net": {"name": "sklearn:GaussianNB"}})
    with pytest.raises(ConfigError, match="is for tables and other features; got inputs of shape"):
        execute(config, tmp_path / "run")


def test_boosting_with_the_defaults_of_scikit_learn_runs() -> None:
    x, true, given = blobs(120, spread=0.7)
    found = quick(HistGradientBoostingClassifier(max_iter=10)).fit(x, given)
    assert found.turning_point_ is not None
    assert found.score(x, true) > 0.8
