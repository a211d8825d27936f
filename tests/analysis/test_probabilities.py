"""Probabilities from elsewhere: the noise rate that was put in, cleanlab's label quality, and what is refused."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

from selc.analysis import Why, analyse_probabilities
from selc.analysis.findings import COLUMNS, RELABEL
from selc.cli.findings import findings
from selc.errors import InputError

Array = np.ndarray[Any, np.dtype[Any]]
N, C = 3000, 4
app = typer.Typer()
app.command()(findings)


def drawn(wrong: float, seed: int = 0, rows: int = N) -> tuple[Array, Array, Array]:
    """Probabilities, true labels and given ones, of which a share is any other class, by the equation of `Noise`.

    The prediction is wrong with probability h(z) = (1 - 1 / C) sigmoid(a - b z), z the log odds of its confidence.
    """
    rng = np.random.default_rng(seed)
    z = rng.normal(0.0, 0.6, rows).clip(-1)  # above 1 / C
    confidence = 1 / (1 + np.exp(-z))
    h = (1 - 1 / C) / (1 + np.exp(2.5 + 5 * z))
    predicted = rng.integers(0, C, rows)
    p = np.repeat((1 - confidence)[:, None] / (C - 1), C, axis=1)
    p[np.arange(rows), predicted] = confidence
    true, given = predicted.copy(), predicted.copy()
    for labels, share in ((true, h), (given, wrong)):
        other = rng.random(rows) < share
        labels[:] = np.where(other, (true + rng.integers(1, C, rows)) % C, true)
    return p, true, given


@pytest.mark.parametrize("wrong", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_the_noise_rate_that_was_put_in_lies_in_the_range(wrong: float, seed: int) -> None:
    p, _, given = drawn(wrong, seed)
    rate = analyse_probabilities(p, given).noise_rate
    assert rate is not None
    assert rate.low <= wrong <= rate.high
    assert rate.high - rate.low < 0.1


def test_what_is_relabelled_is_right_more_often_than_not() -> None:
    p, true, given = drawn(0.3)
    found = analyse_probabilities(p, given)
    changed = found.findings.action.numpy() == RELABEL
    assert changed.sum() > N / 10
    assert (found.corrected.numpy() == true)[changed].mean() > 0.8
    assert (found.corrected.numpy() == true).mean() > (given == true).mean() + 0.1
    np.testing.assert_array_equal(found.corrected.numpy()[~changed], given[~changed])
    assert found.decision is None  # nothing was trained


def test_label_quality_is_cleanlabs_self_confidence() -> None:
    rank = pytest.importorskip("cleanlab.rank")
    p, _, given = drawn(0.2)
    expected = rank.get_label_quality_scores(given, p, method="self_confidence")
    np.testing.assert_allclose(analyse_probabilities(p, given).findings.quality.numpy(), expected, atol=1e-12)


def test_the_order_of_rows_and_of_classes_does_not_matter() -> None:
    p, _, given = drawn(0.2)
    before = analyse_probabilities(p, given)
    rows, classes = np.random.default_rng(1).permutation(N), np.array([2, 0, 3, 1])  # old class -> new class
    after = analyse_probabilities(p[rows][:, classes.argsort()], classes[given[rows]])
    assert after.noise_rate == pytest.approx(before.noise_rate, abs=1e-9)
    np.testing.assert_array_equal(after.corrected.numpy(), classes[before.corrected.numpy()[rows]])
    np.testing.assert_array_equal(after.findings.action.numpy(), before.findings.action.numpy()[rows])


def test_a_model_that_is_surer_than_it_is_right_changes_no_label() -> None:
    p, _, given = drawn(0.2)
    sharp = p**6 / (p**6).sum(axis=1, keepdims=True)
    found = analyse_probabilities(sharp, given)
    assert found.why_unchanged is Why.CANNOT_TELL
    np.testing.assert_array_equal(found.corrected.numpy(), given)


def test_probabilities_of_chance_say_nothing_of_labels() -> None:
    p, _, given = drawn(0.0)
    found = analyse_probabilities(p, np.random.default_rng(5).permutation(given))
    assert found.why_unchanged is Why.NOT_LEARNT
    assert found.noise_rate is None


def test_a_few_rows_are_enough_to_answer() -> None:
    found = analyse_probabilities([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], [0, 1, 1])
    assert found.corrected.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("pred_probs", "labels", "said"),
    [
        ([0.5, 0.5], [0, 1], "must be numbers [N, C]"),
        (np.full((2, 3, 2), 0.5), [0, 1], "Labels of tokens"),
        ([[1.0], [1.0]], [0, 0], "at least two classes"),
        (np.zeros((0, 2)), [], "must be numbers [N, C]"),
        ([["a", "b"]], [0], "must be numbers [N, C]"),
        ([[0.5, np.nan], [0.5, 0.5]], [0, 1], "finite"),
        ([[2.0, -1.0], [0.5, 0.5]], [0, 1], "softmax"),
        ([[0.7, 0.5, -0.2], [0.2, 0.3, 0.5]], [0, 1], "from -0.2 to 0.7"),
        ([[0.9, 0.8], [0.5, 0.5]], [0, 1], "multi-label"),
        ([[0.5, 0.5], [0.5, 0.5]], [0, 1, 1], "one class for each of the 2 rows"),
        ([[0.5, 0.5], [0.5, 0.5]], [[0, 1], [1, 0]], "multi-label"),
        ([[0.5, 0.5], [0.5, 0.5]], [0.25, 1.5], "regression"),
        ([[0.5, 0.5], [0.5, 0.5]], [[0, 1], [1]], "multi-label"),
        ([[0.5, 0.5], [0.5, 0.5]], ["cat", "dog"], "got 'cat'"),
        ([[0.5, 0.5], [0.5, 0.5]], [1, 2], "from 1 to 2"),
        ([[0.5, 0.5], [0.5, 0.5]], [1, 1], "at least two classes"),
    ],
)
def test_what_is_not_such_an_array_is_refused_with_a_sentence(pred_probs: Any, labels: Any, said: str) -> None:
    with pytest.raises(InputError) as error:
        analyse_probabilities(pred_probs, labels)
    assert said in str(error.value)


# The command


def call(folder: Path, pred_probs: str, labels: str, *more: str) -> Result:
    given = ["--pred-probs", str(folder / pred_probs), "--labels", str(folder / labels)]
    return CliRunner().invoke(app, [*given, *(() if "--out" in more else ("--out", str(folder / "out.csv"))), *more])


def refused(folder: Path, *arguments: str) -> str:
    result = call(folder, *arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert result.stderr.startswith("error: "), result.stderr
    assert not (folder / "out.csv").exists()
    return result.stderr


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Array]:
    """Probabilities in p.npz; the given labels."""
    p, _, given = drawn(0.3, rows=600)
    np.savez(tmp_path / "p.npz", pred_probs=p)
    return tmp_path, given


def table(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_command_writes_the_same_table_from_every_form_of_labels(files: tuple[Path, Array]) -> None:
    folder, given = files
    names = np.array(["ash", "beech", "cedar", "date"])
    (folder / "one.csv").write_text("label\n" + "\n".join(map(str, given)))
    rows = "\n".join(f"s{row},{name}" for row, name in enumerate(names[given]))
    (folder / "two.csv").write_text("id,tree\n" + rows)
    np.savez(folder / "named.npz", labels=names[given])
    np.savez(folder / "counted.npz", labels=given, classes=names, ids=[f"s{row}" for row in range(len(given))])
    np.save(folder / "plain.npy", given)
    options: dict[str, tuple[str, ...]] = {"two.csv": ("--label-column", "tree")}
    found = {}
    for name in ("one.csv", "two.csv", "named.npz", "counted.npz", "plain.npy"):
        out = folder / f"{name}.out.csv"
        result = call(folder, "p.npz", name, "--out", str(out), *options.get(name, ()))
        assert result.exit_code == 0, result.output
        assert "wrong labels      about" in result.output
        assert ("'ash', 'beech', 'cedar', 'date', in this order" in result.stderr) == (name in ("two.csv", "named.npz"))
        found[name] = table(out)
        assert tuple(found[name][0]) == COLUMNS
    assert [row["sample_id"] for row in found["two.csv"]] == [f"s{row}" for row in range(len(given))]
    assert found["two.csv"] == found["counted.npz"]
    assert [row["given_label"] for row in found["named.npz"]] == names[given].tolist()
    assert found["one.csv"] == found["plain.npy"]
    for name in found:
        assert [row["action"] for row in found[name]] == [row["action"] for row in found["one.csv"]]
    assert sum(row["action"] == "relabel" for row in found["one.csv"]) > 60


def test_classes_beside_the_probabilities_say_which_column_is_which(files: tuple[Path, Array]) -> None:
    folder, given = files
    names = np.array(["z", "a", "m", "k"])
    with np.load(folder / "p.npz", allow_pickle=False) as arrays:
        np.savez(folder / "q.npz", pred_probs=arrays["pred_probs"], classes=names)
    np.savez(folder / "named.npz", labels=names[given])
    np.save(folder / "plain.npy", given)
    assert call(folder, "q.npz", "named.npz", "--out", str(folder / "a.csv")).exit_code == 0
    assert call(folder, "p.npz", "plain.npy", "--out", str(folder / "b.csv")).exit_code == 0
    named, counted = table(folder / "a.csv"), table(folder / "b.csv")
    assert [row["suggested_label"] for row in named] == [names[int(row["suggested_label"])] for row in counted]


def test_what_does_not_fit_together_is_refused_with_a_sentence(files: tuple[Path, Array]) -> None:
    folder, given = files

    def with_labels(text: str, *more: str) -> str:
        (folder / "labels.csv").write_text(text)
        return refused(folder, "p.npz", "labels.csv", *more)

    def column(values: Any) -> str:
        return "label\n" + "\n".join(map(str, values))

    assert "for each of the 600 rows" in with_labels(column(given[:-1]))
    assert "measurements" in with_labels(column(given + 0.25))
    assert "must name the 4 classes" in with_labels(column([f"{k};{(k + row) % 4}" for row, k in enumerate(given)]))
    assert "multi-label" in with_labels(column(["a", "b"] * 300))
    assert "without" in with_labels(column(["0", "nan"] * 300))
    assert "at least two classes; got only '1'" in with_labels(column([1] * 600))
    assert "--label-column must be a column" in with_labels(column(given), "--label-column", "no")
    np.savez(folder / "two.npz", labels=np.eye(4, dtype=int)[given])
    assert "multi-label" in refused(folder, "p.npz", "two.npz")
    np.savez(folder / "many.npz", a=given, b=given)
    assert "must hold the array 'labels'; got a, b" in refused(folder, "p.npz", "many.npz")
    assert "must hold the array 'pred_probs'" in refused(folder, "many.npz", "many.npz")
    assert "No such file" in refused(folder, "nothing.npz", "many.npz")
    (folder / "bad.npz").write_bytes(b"PK\3\4 nothing")
    assert "--labels must be a table, or an .npz" in refused(folder, "p.npz", "bad.npz")
    np.savez(folder / "classes.npz", labels=given, classes=["a", "b"])
    assert "each of the 4 columns" in refused(folder, "p.npz", "classes.npz")
    with np.load(folder / "p.npz", allow_pickle=False) as arrays:
        np.savez(folder / "ids.npz", pred_probs=arrays["pred_probs"], ids=np.arange(600))
        np.savez(folder / "short.npz", pred_probs=arrays["pred_probs"], ids=np.arange(5))
    np.savez(folder / "others.npz", labels=given, ids=np.arange(600)[::-1])
    assert "same order" in refused(folder, "ids.npz", "others.npz")
    np.save(folder / "plain.npy", given)
    assert "got 5 in" in refused(folder, "short.npz", "plain.npy")
    assert ".csv or .parquet" in refused(folder, "p.npz", "plain.npy", "--out", str(folder / "x.txt"))
    (folder / "there.csv").write_text("work")
    assert "must be new" in refused(folder, "p.npz", "plain.npy", "--out", str(folder / "there.csv"))
    assert (folder / "there.csv").read_text() == "work"
