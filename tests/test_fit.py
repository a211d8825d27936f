"""One call: ``selc.fit`` on arrays, and what it says about input that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import Dataset, IterableDataset, TensorDataset

import selc
from selc.data.inputs.torch_datasets import labels_of
from selc.errors import ConfigError, InputError, RunFolderError, TrainingError
from selc.methods import GCE, SELC
from selc.runs import Config
from selc.training.metrics import usual
from tests.own_data.miniature import write_csv
from tests.toy import BrokenOffError, StopAfter, assert_same_bits, blobs, results

PLAN: dict[str, Any] = {"epochs": 4, "lr": 0.05, "batch_size": 16, "schedule": "constant"}


def quick(x: Any, y: Any = None, **more: Any) -> selc.Outcome:
    settings: dict[str, Any] = {**PLAN, "options": {"start": 1}, "net_options": {"hidden": [16]}}
    return selc.fit(x, y, **(settings | more))


def test_numpy_tensors_and_datasets_give_the_same_result() -> None:
    x, y = blobs()
    by_tensor = results(quick(x, y))
    assert_same_bits(by_tensor, results(quick(x.numpy(), y.numpy())))
    assert_same_bits(by_tensor, results(quick(TensorDataset(x, y), y)))


def test_it_returns_the_model_targets_labels_and_history() -> None:
    x, y = blobs()
    outcome = quick(x, y, tests={"mine": (x, y)})
    assert outcome.model(x).shape == (90, 3)
    assert outcome.target.full().shape == (90, 3)
    assert outcome.corrected_labels.shape == (90,)
    assert outcome.losses.shape == outcome.predictions.shape == (4, 90)
    assert [e["epoch"] for e in outcome.history] == [0, 1, 2, 3]
    assert set(outcome.history[0]["mine"]) == set(usual()) - {"top5"}


def test_a_method_object_and_a_network_of_ones_own_are_taken_as_they_are() -> None:
    x, y = blobs()
    torch.manual_seed(0)
    net = nn.Linear(4, 3)
    before = net.weight.detach().clone()
    outcome = selc.fit(x, y, method=GCE(q=0.5), net=net, **PLAN)
    assert torch.equal(net.weight, before), "the module handed in must not change"
    assert not torch.equal(outcome.model.get_parameter("weight"), before)
    by_function = selc.fit(x, y, method=GCE(q=0.5), net=lambda outputs: nn.Linear(4, outputs), **PLAN)
    assert by_function.model(x).shape == (90, 3)


def test_the_callers_random_numbers_and_threads_are_left_alone() -> None:
    x, y = blobs()
    torch.manual_seed(4)
    expected = torch.rand(3)
    torch.manual_seed(4)
    threads = torch.get_num_threads()
    quick(x, y, threads=threads + 1)
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == threads


def test_a_run_from_arrays_can_be_saved_and_resumed(tmp_path: Path) -> None:
    x, y = blobs()
    method = SELC(start=1)
    settings: dict[str, Any] = {**PLAN, "net_options": {"hidden": [16]}, "out": tmp_path / "run"}
    whole = quick(x, y)
    with pytest.raises(BrokenOffError):
        selc.fit(x, y, method=method, callbacks=[StopAfter(2)], **settings)
    with pytest.raises(RunFolderError, match="new or an empty folder"):
        selc.fit(x, y, method=method, **settings)
    with pytest.raises(RunFolderError, match="resume=True"):
        selc.resume(tmp_path / "run")
    with pytest.raises(RunFolderError, match="must belong to this configuration"):
        selc.fit(x, y, method=SELC(start=2), resume=True, **settings)
    resumed = selc.fit(x, y, method=SELC(start=1), resume=True, **settings)
    assert torch.equal(resumed.target.full(), whole.target.full())
    assert (tmp_path / "run" / "corrected_labels.csv").exists()


def test_a_method_and_a_network_that_only_the_caller_has_are_saved_and_resumed(tmp_path: Path) -> None:
    class Mine(GCE):
        """Not registered anywhere."""

    x, y = blobs()
    settings: dict[str, Any] = {**PLAN, "net": nn.Linear(4, 3), "out": tmp_path / "run"}
    with pytest.raises(BrokenOffError):
        selc.fit(x, y, method=Mine(q=0.5), callbacks=[StopAfter(2)], **settings)
    selc.fit(x, y, method=Mine(q=0.5), resume=True, **settings)
    run = selc.RunFolder.open(tmp_path / "run")
    assert run.finished
    assert run.config.method.name.endswith("Mine")
    assert run.config.method.options == {"q": 0.5}
    assert run.config.net.name == "torch.nn.modules.linear.Linear"


def test_options_of_an_object_are_refused() -> None:
    with pytest.raises(ConfigError, match="options go with a method's name"):
        selc.fit(X, Y, method=GCE(), options={"q": 0.5}, **PLAN)
    with pytest.raises(ConfigError, match="net_options go with a network's name"):
        selc.fit(X, Y, net=nn.Linear(4, 3), net_options={"hidden": [1]}, **PLAN)


def sizes_of_batches(rows: int, batch_size: int) -> list[int]:
    """Of all epochs, as batch norm meets them."""
    sizes = []

    class Norm(nn.BatchNorm1d):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            if self.training:
                sizes.append(len(input))
            return super().forward(input)

    net = nn.Sequential(nn.Linear(4, 8), Norm(8), nn.Linear(8, 3))
    quick(*blobs(rows), net=net, net_options=None, batch_size=batch_size)
    return sizes


def test_fewer_samples_than_a_batch_shrink_it_with_a_notice() -> None:
    with pytest.warns(UserWarning, match="batch_size 128 is more than the 12 samples"):
        assert sizes_of_batches(12, 128) == [12] * PLAN["epochs"]


def test_a_last_batch_of_one_does_not_break_batch_norm() -> None:
    assert sizes_of_batches(33, 16) == [16, 17] * PLAN["epochs"]  # not 16 + 16 + 1


# Names as labels


def test_names_of_classes_are_numbered_in_their_order_and_kept() -> None:
    x, y = blobs()
    names = [("kiwi", "fig", "lime")[k] for k in y.tolist()]
    order = torch.tensor([1, 0, 2])  # fig, kiwi, lime
    by_number = results(quick(x, order[y]))
    for form in (names, np.array(names), np.array(names, dtype=object), tuple(f" {name} " for name in names)):
        outcome = quick(x, form)
        assert_same_bits(results(outcome), by_number)
        assert outcome.classes == ("fig", "kiwi", "lime")
    assert quick(x, y).classes == ("0", "1", "2")


def test_names_are_written_to_the_run_and_shared_by_test_sets(tmp_path: Path) -> None:
    x, y = blobs()
    names = [("kiwi", "fig", "lime")[k] for k in y.tolist()]
    outcome = quick(x, names, tests={"mine": (x[:3], names[:3])}, val=(x[3:5], names[3:5]), out=tmp_path / "run")
    assert set(outcome.history[0]["mine"]) == set(usual()) - {"top5"}
    run = selc.RunFolder.open(tmp_path / "run")
    assert run.classes == ("fig", "kiwi", "lime")
    assert (tmp_path / "run" / "corrected_labels.csv").read_text().splitlines()[1].startswith("0,kiwi,")
    with pytest.raises(InputError, match=r"labels of mine must be known classes, .*got 'plum' in 1 of 2 rows"):
        quick(x, names, tests={"mine": (x[:2], ["fig", "plum"])})
    with pytest.raises(InputError, match="labels of mine must be names like those of the data; got numbers"):
        quick(x, names, tests={"mine": (x[:2], [0, 1])})
    with pytest.raises(InputError, match="labels of mine must be numbers like those of the data; got names"):
        quick(x, y, tests={"mine": (x[:2], ["0", "1"])})


def test_more_classes_than_the_labels_show_may_be_asked_for() -> None:
    x, y = blobs()
    outcome = quick(x, [("kiwi", "fig", "lime")[k] for k in y.tolist()], num_classes=4)
    assert outcome.model(x).shape == (90, 4)
    assert outcome.classes == ("fig", "kiwi", "lime", "3")


# DataFrames


class Series:
    """A column of a DataFrame, as far as it is used."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def to_numpy(self) -> np.ndarray[Any, Any]:
        return np.array(self.values, dtype=object if None in self.values else None)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return self.to_numpy()

    def __len__(self) -> int:
        return len(self.values)


class Frame:
    """What pandas and polars have in common, as far as it is used."""

    def __init__(self, columns: dict[Any, list[Any]]) -> None:
        self.data = columns
        self.columns = list(columns)

    def __len__(self) -> int:
        return len(next(iter(self.data.values())))

    def __getitem__(self, name: Any) -> Series:
        return Series(self.data[name])

    def to_numpy(self) -> np.ndarray[Any, Any]:
        raise AssertionError("columns are read one by one, so that a bad one can be named")


def frame_of(x: torch.Tensor, **more: list[Any]) -> Frame:
    return Frame({**{f"f{k}": x[:, k].tolist() for k in range(x.shape[1])}, **more})


def test_a_frame_gives_the_same_result_as_its_numbers() -> None:
    x, y = blobs()
    expected = results(quick(x, y))
    labels = y.tolist()
    assert_same_bits(results(quick(frame_of(x), y)), expected)
    assert_same_bits(results(quick(frame_of(x), Series(labels))), expected)
    assert_same_bits(results(quick(frame_of(x, label=labels))), expected)
    assert_same_bits(results(quick(frame_of(x, kind=labels), "kind")), expected)
    tested = quick(frame_of(x, kind=labels), "kind", tests={"mine": frame_of(x[:9], kind=labels[:9])})
    assert "mine" in tested.history[0]


@pytest.mark.parametrize(
    ("more", "labels", "sentence"),
    [
        (
            {"remark": [f"number {k}" for k in range(90)], "label": [0, 1, 2] * 30},
            None,
            "column 'remark' must hold numbers or categories, which repeat; got 90 different texts in 90 rows",
        ),
        (
            {"void": [None] * 90, "label": [0, 1, 2] * 30},
            None,
            "column 'void' must have a value in some row; got none",
        ),
        ({"kind": [0, 1, 2] * 30}, None, "must have a column label, labels, class, target or y; got 'f0', 'f1'"),
        ({"kind": [0, 1, 2] * 30}, "sort", "labels must name a column; got 'sort', and there are 'f0'"),
        ({"label": ["a", None, "b"] * 30}, None, "every row of the data must have a label; got 30 of 90 without"),
    ],
)
def test_a_frame_that_cannot_be_used_gets_its_sentence(more: dict[str, Any], labels: str | None, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        quick(frame_of(blobs()[0], **more), labels)


@pytest.mark.filterwarnings("ignore:column")  # what is made of them is a note
def test_a_frame_with_text_and_gaps_is_coded_as_the_same_table_is(tmp_path: Path) -> None:
    from selc.data.preprocess.features import FeatureInputs
    from selc.data.sources.recognise import choice_for
    from selc.runs.job import load

    x = blobs()[0].numpy().round(3)
    y = [0, 1, 2] * 30
    columns: dict[str, list[Any]] = {
        "length": [None if k % 9 == 4 else float(x[k, 0]) for k in range(90)],
        "width": x[:, 1].astype(float).tolist(),
        "city": [["Rome", "Oslo", None][k % 3] for k in range(90)],
        "label": [f"class {k}" for k in y],
    }
    rows = [["" if cell is None else str(cell) for cell in row] for row in zip(*columns.values(), strict=True)]
    table = load(Config.resolve({"data": choice_for(str(write_csv(tmp_path / "t.csv", list(columns), rows)))}))
    half = {name: cells[:45] for name, cells in columns.items()}
    first = quick(Frame(columns), out=tmp_path / "run", tests={"mine": Frame(half)})
    assert "mine" in first.history[0]
    assert isinstance(table.inputs, FeatureInputs)
    state = json.loads((tmp_path / "run" / "inputs.json").read_text())
    assert state["coding"] == table.inputs.how.state()["coding"]
    assert next(iter(first.model.parameters())).shape[1] == table.shape[0] == 6  # 2 numbers, 1 flag, 3 levels
    with pytest.raises(InputError, match="a test set must be a DataFrame with columns of text or gaps"):
        quick(Frame(columns), tests={"mine": (x[:9, :3], y[:9])})
    with pytest.raises(InputError, match="got no 'city'"):
        quick(Frame(columns), tests={"mine": Frame({k: v for k, v in half.items() if k != "city"})})


def test_a_frame_needs_columns_that_can_be_told_apart() -> None:
    with pytest.raises(InputError, match="columns of numbers, each with a name of its own; got none"):
        quick(Frame({"label": [0, 1, 2] * 30}))
    twice = frame_of(blobs()[0], label=[0, 1, 2] * 30)
    twice.columns.append("f0")
    with pytest.raises(InputError, match="got one name twice"):
        quick(twice)


# Datasets that bring their labels


class Pairs(Dataset[Any]):
    """A dataset of (x, y) that counts how often it is read."""

    def __init__(self, x: torch.Tensor, y: list[Any], targets: Any = None) -> None:
        self.x, self.y, self.reads = x, y, 0
        if targets is not None:
            self.targets = targets

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, Any]:
        self.reads += 1
        return self.x[row], self.y[row]


def test_a_dataset_of_pairs_brings_its_labels() -> None:
    x, y = blobs()
    expected = results(quick(x, y))
    assert_same_bits(results(quick(TensorDataset(x, y))), expected)
    assert_same_bits(results(quick(Pairs(x, y.tolist()))), expected)
    assert_same_bits(results(quick(Pairs(x, [np.int64(k) for k in y.tolist()]))), expected)
    names = [("a", "b", "c")[k] for k in y.tolist()]
    assert_same_bits(results(quick(Pairs(x, names))), expected)
    tested = quick(Pairs(x, names), tests={"mine": Pairs(x[:9], names[:9])}, val=Pairs(x[9:], names[9:]))
    assert "mine" in tested.history[0]


def test_labels_that_a_dataset_keeps_are_used_only_if_it_yields_the_same() -> None:
    x, y = blobs()
    kept = Pairs(x, y.tolist(), targets=y.tolist())
    assert labels_of(kept) == y.tolist()
    assert kept.reads < 90, "the inputs need not be computed for the labels"
    other = Pairs(x, y.tolist(), targets=((y + 1) % 3).tolist())
    assert labels_of(other) == y.tolist(), "what it yields counts"
    assert labels_of(Pairs(x, y.tolist(), targets=y)) == y.tolist()


class Odd(Dataset[Any]):
    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, row: int) -> Any:
        return self.items[row]


class Walk(IterableDataset[Any]):
    def __iter__(self) -> Any:
        yield torch.zeros(3), 0


@pytest.mark.parametrize(
    ("dataset", "labels", "sentence"),
    [
        (Odd([torch.zeros(2)] * 4), None, r"must yield \(x, y\); got Tensor in row 0. Give the labels as the second"),
        (Odd([(Image.new("RGB", (4, 4)), 0)] * 4), [0, 1, 0, 1], "with x an array of numbers; got Image in row"),
        (
            Odd([(torch.zeros(2), 0), (torch.zeros(3), 1)] * 2),
            None,
            r"must yield inputs of one shape; got \[2\] and \[3\]",
        ),
        (Walk(), None, "must give rows by number; got one that can only be walked through"),
    ],
)
def test_a_dataset_that_cannot_be_used_gets_its_sentence(dataset: Any, labels: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        quick(dataset, labels, batch_size=4)


def test_labels_must_come_from_somewhere() -> None:
    with pytest.raises(InputError, match="labels must be given, one per sample; got none beside x, which is Tensor"):
        selc.fit(blobs()[0])


X, Y = blobs()


@pytest.mark.parametrize(
    ("x", "y", "sentence"),
    [
        (X, Y + 0.5, r"labels must be integers or names; got \d.5 in row 0"),
        (X, np.where(np.arange(90) == 4, np.inf, Y), "labels must be integers or names; got inf in row 4"),
        (
            X,
            Y.to(torch.complex64),
            "labels must be integers or names, one per sample; got values of type torch.complex",
        ),
        (X, [2**70, *Y[1:].tolist()], "labels must be integers or names, one per sample; got list"),
        (X, [{}, *Y[1:].tolist()], "labels must be integers or names, one per sample; got values of type dict"),
        (X, Y - 1, r"labels must be in 0..\d for \d classes; got values from -1"),
        (X, Y[:50], "inputs and labels must have the same length; got 90 and 50"),
        (X, torch.zeros(90, dtype=torch.long), "at least two classes; got only class 0"),
        (X, Y[:, None], r"labels must be a non-empty vector \[N\]; got shape \(90, 1\)"),
        (X[:0], Y[:0], "inputs must be a non-empty array"),
        (X[:, 0], Y, r"inputs must be a non-empty array \[N, ...\]; got shape \(90,\)"),
        (torch.where(X > 4, torch.nan, X), Y, r"inputs must be finite numbers; got NaN or infinity in \d+ of 90 rows"),
        (X, ["a"] * 90, "at least two classes; got only class 0"),
        (np.array([["a"]] * 90), Y, "x must be an array of numbers or a torch dataset; got ndarray"),
    ],
)
def test_input_that_cannot_be_used_gets_its_sentence(x: Any, y: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        quick(x, y)


def with_gap(gap: Any, labels: list[Any]) -> list[Any]:
    return [gap if row in (3, 8) else label for row, label in enumerate(labels)]


@pytest.mark.parametrize(
    "labels",
    [
        np.array(with_gap(np.nan, Y.tolist()), dtype=np.float64),
        torch.tensor(with_gap(float("nan"), Y.tolist())),
        with_gap(None, Y.tolist()),
        with_gap(None, [f"kind {k}" for k in Y.tolist()]),
        with_gap(float("nan"), [f"kind {k}" for k in Y.tolist()]),
        with_gap("", [f"kind {k}" for k in Y.tolist()]),
        pd.Series(with_gap(None, Y.tolist()), dtype="Int64"),
        pd.Series(with_gap(None, [f"kind {k}" for k in Y.tolist()]), dtype="string"),
    ],
)
def test_a_label_that_is_not_there_is_counted_and_placed(labels: Any) -> None:
    with pytest.raises(InputError) as error:
        quick(X, labels)
    assert str(error.value) == (
        "every row of the data must have a label; got 2 of 90 without, first in row 3. "
        "Fill it in, or leave such rows out."
    )


@pytest.mark.parametrize(
    "labels",
    [
        Y.float(),
        Y.double().numpy(),
        Y.numpy().astype(np.uint64),
        np.array(Y.tolist(), dtype=object),
        [float(k) for k in Y.tolist()],
        pd.Series(Y.tolist()),
        pd.Series(Y.tolist(), dtype="Int64"),
        pd.Series([float(k) for k in Y.tolist()], dtype=object),
    ],
)
def test_whole_numbers_of_any_kind_are_classes(labels: Any) -> None:
    assert_same_bits(results(quick(X, labels)), results(quick(X, Y)))


@pytest.mark.parametrize("form", [torch.tensor, np.array, list, pd.Series])
def test_true_and_false_are_the_classes_1_and_0(form: Any) -> None:
    two = (Y > 0).long()
    outcome = quick(X, form([bool(k) for k in two.tolist()]))
    assert_same_bits(results(outcome), results(quick(X, two)))


def test_a_series_that_may_not_be_written_to_gives_no_warning() -> None:
    values = Y.numpy().copy()
    values.flags.writeable = False
    quick(X, values)  # a warning would be an error
    assert values.tolist() == Y.tolist()


def test_labels_beyond_the_number_of_classes_are_refused() -> None:
    with pytest.raises(InputError, match=r"labels must be in 0..1 for 2 classes; got values from 0 to 2"):
        quick(X, Y, num_classes=2)


def test_settings_that_cannot_be_used_get_their_sentence() -> None:
    with pytest.raises(ConfigError, match="epochs must be greater than or equal to 1; got 0"):
        quick(X, Y, epochs=0)
    with pytest.raises(ConfigError, match="Did you mean 'epochs'"):
        quick(X, Y, epoch=3)


def test_a_loss_that_is_not_finite_stops_the_training_with_advice() -> None:
    with pytest.raises(TrainingError, match=r"must stay finite; got nan in epoch .* Lower the learning rate"):
        quick(1e20 * X, Y, lr=1e6)
