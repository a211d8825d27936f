"""Labels in files: what is read, what is refused, and that what was written is what comes back."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from selc.errors import ConfigError, InputError, SelcError
from selc.noise import Noise, draw_noise
from selc.noise.base import label_digest
from selc.noise.label_file import files_of, read_labels, write_labels
from selc.runs import Config, RunFolder
from tests.helpers import random_labels

N, C = 400, 10
TRUE = random_labels(N, C, seed=0)
GIVEN = random_labels(N, C, seed=1)


def read(path: Path, **options: Any) -> Noise:
    return draw_noise("file", TRUE, C, 0, {"path": str(path), **options})


def refused(path: Path, sentence: str, **options: Any) -> None:
    with pytest.raises(SelcError, match=sentence) as caught:
        read(path, **options)
    assert isinstance(caught.value, InputError | ConfigError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dtype", ["<i8", ">i4", "u1", "<f8"])
def test_an_npy_of_whole_numbers_is_read(tmp_path: Path, dtype: str) -> None:
    np.save(tmp_path / "labels.npy", GIVEN.numpy().astype(dtype))
    noise = read(tmp_path / "labels.npy")
    assert torch.equal(noise.labels, GIVEN)
    assert noise.rate == float((GIVEN != TRUE).double().mean())


@pytest.mark.parametrize(
    ("arrays", "options"),
    [
        (["anything"], {}),
        (["labels", "true"], {}),
        (["given", "classes", "true"], {}),
        (["a", "b"], {"key": "a"}),
    ],
)
def test_an_npz_is_read_by_key_or_where_there_is_no_doubt(
    tmp_path: Path, arrays: list[str], options: dict[str, str]
) -> None:
    content: dict[str, Any] = {name: GIVEN.numpy() if i == 0 else TRUE.numpy() for i, name in enumerate(arrays)}
    np.savez(tmp_path / "labels.npz", **content)
    assert torch.equal(read(tmp_path / "labels.npz", **options).labels, GIVEN)


@pytest.mark.parametrize(
    ("header", "row", "options"),
    [
        ("", "{y}", {}),
        ("label", "{y}", {}),
        ("\ufefflabel", "{y}", {}),
        ("anything", " {y} ", {}),
        ("name,label", "img{i}.png,{y}", {}),
        ("name;label", '"a;b";{y}', {}),
        ("true,noisy", "0,{y}", {"column": "noisy"}),
        ("\ufeffnoisy,true", "{y},0", {"column": "noisy"}),
        ("true,noisy", "0,{y}", {"column": "1"}),
        ("", "0,{y}", {"column": "1"}),
        ("", "img{i}.png\t{y}", {"column": "1"}),
        (",label,label_noisy", "{i},0,{y}", {"column": "label_noisy"}),
        ("label", "{y}.0", {}),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_csv_is_read_with_and_without_header_mark_and_quotes(
    tmp_path: Path, header: str, row: str, options: dict[str, str], newline: str
) -> None:
    lines = [header] * bool(header) + [row.format(i=i, y=y) for i, y in enumerate(GIVEN.tolist())]
    (tmp_path / "labels.csv").write_bytes((newline.join(lines) + newline).encode())
    assert torch.equal(read(tmp_path / "labels.csv", **options).labels, GIVEN)


@pytest.mark.parametrize(
    ("wrap", "options"),
    [
        (lambda y: y, {}),
        (lambda y: {"labels": y, "made by": "somebody"}, {}),
        (lambda y: {"worse_label": y, "clean_label": TRUE.tolist()}, {"key": "worse_label"}),
    ],
)
def test_a_json_is_read_as_a_list_or_by_key(tmp_path: Path, wrap: Any, options: dict[str, str]) -> None:
    (tmp_path / "labels.json").write_text(json.dumps(wrap(GIVEN.tolist())))
    assert torch.equal(read(tmp_path / "labels.json", **options).labels, GIVEN)


def save(path: Path, content: Any, form: str) -> None:
    """As torch.save does now, as it did before version 1.6, or as it did with numpy before version 2."""
    torch.save(content, path, _use_new_zipfile_serialization=form == "new")
    if form == "old numpy":
        path.write_bytes(path.read_bytes().replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n"))


HUMAN = {
    "clean_label": TRUE.numpy(),
    "aggre_label": TRUE.numpy(),
    "random_label1": TRUE.numpy().astype("int32"),
    "random_label2": TRUE.numpy(),
    "random_label3": TRUE.numpy(),
    "worse_label": GIVEN.numpy(),
}


@pytest.mark.parametrize("form", ["new", "old", "old numpy"])
def test_the_file_of_cifar10n_is_read_by_key(tmp_path: Path, form: str) -> None:
    save(tmp_path / "CIFAR-10_human.pt", HUMAN, form)
    assert torch.equal(read(tmp_path / "CIFAR-10_human.pt", key="worse_label").labels, GIVEN)
    assert torch.equal(read(tmp_path / "CIFAR-10_human.pt", key="random_label1").labels, TRUE)
    refused(tmp_path / "CIFAR-10_human.pt", "got clean_label, aggre_label, .*worse_label. Set noise.key=NAME")
    refused(tmp_path / "CIFAR-10_human.pt", "must have 'worst'; got clean_label, .*", key="worst")


def test_the_noisy_labels_of_cifar100n_need_no_key(tmp_path: Path) -> None:
    human = {"clean_label": TRUE.numpy(), "noisy_label": GIVEN.numpy(), "noisy_coarse_label": TRUE.numpy()}
    save(tmp_path / "CIFAR-100_human.pt", human, "new")
    assert torch.equal(read(tmp_path / "CIFAR-100_human.pt").labels, GIVEN)


@pytest.mark.parametrize(
    "content",
    [
        GIVEN,
        GIVEN.numpy(),
        GIVEN.int(),
        GIVEN.tolist(),
        tuple(GIVEN.tolist()),
        list(GIVEN.numpy()),  # of numpy's own integers
        torch.cat([TRUE, GIVEN])[N:],  # part of a larger storage
        {"labels": GIVEN.to(torch.uint8), "seed": 1, "about": ["x", 1.5, None, True, -(2**40)]},
        GIVEN.numpy().astype(">i8"),
    ],
)
def test_other_files_of_torch_with_numbers_are_read(tmp_path: Path, content: Any) -> None:
    save(tmp_path / "labels.pt", content, "new")
    assert torch.equal(read(tmp_path / "labels.pt").labels, GIVEN)


class Trap:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("form", ["new", "old"])
@pytest.mark.parametrize("wrap", [lambda trap: trap, lambda trap: {"labels": GIVEN.numpy(), "x": trap}])
def test_a_file_that_would_run_code_is_refused_and_nothing_runs(tmp_path: Path, wrap: Any, form: str) -> None:
    trapped = tmp_path / "trapped"
    save(tmp_path / "labels.pt", wrap(Trap(trapped)), form)
    refused(tmp_path / "labels.pt", r"got: the name posix\.mkdir, .* Nothing of it was run\. Save the labels as \.npy")
    assert not trapped.exists()
    torch.load(tmp_path / "labels.pt", weights_only=False)
    assert trapped.exists(), "the trap is a real one"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            {"net": torch.nn.Linear(2, 2)},
            "must be a pickle of plain values, .*got: the name torch.nn.modules.linear.Linear",
        ),
        (slice(1), "must be a pickle of plain values"),
        ({1, 2}, "must be a pickle of plain values"),
        (2 + 1j, "must be a pickle of plain values"),
        (torch.zeros(3, 2).T, r"must hold a non-empty list of labels; got shape \[2, 3\]"),
        (torch.zeros(N) + 0.5, "must hold whole numbers; got float32"),
        ("text", "must hold an array, a tensor or a list of numbers; got a str"),
        (["1"] * N, "must hold an array, a tensor or a list of numbers; got a list"),
        ([[1], [2]], "must hold an array, a tensor or a list of numbers; got a list"),
        ({"labels": ["1"] * N, "about": "text", 7: [1]}, "must hold one list of labels, .*; got none"),
    ],
)
def test_other_objects_in_a_file_of_torch_are_refused(tmp_path: Path, content: Any, sentence: str) -> None:
    save(tmp_path / "labels.pt", content, "new")
    refused(tmp_path / "labels.pt", sentence)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("labels.npy", GIVEN[1:].numpy(), "must hold a label for each of the 400 samples; got 399"),
        ("labels.npy", (GIVEN + 1).numpy(), r"must hold labels in 0\.\.9; got values from 1 to 10"),
        ("labels.npy", (GIVEN - 1).numpy(), r"must hold labels in 0\.\.9; got values from -1 to 8"),
        ("labels.npy", GIVEN.numpy() + 0.5, "must hold whole numbers; got float64"),
        ("labels.npy", np.full(N, np.nan), "must hold whole numbers; got float64"),
        ("labels.npy", np.full(N, 1e300), "must hold whole numbers; got float64"),
        ("labels.npy", GIVEN.numpy() > 3, "must hold whole numbers; got bool"),
        ("labels.npy", GIVEN.numpy()[:, None], r"must hold a non-empty list of labels; got shape \[400, 1\]"),
        ("labels.npy", b"no numpy file", "must be a file of numpy with numbers; got: "),
        ("labels.npy", b"", "must be a file of numpy with numbers; got: "),
        ("labels.npz", b"no zip file", "must be a file of numpy with numbers; got: "),
        ("labels.pt", b"no file of torch", "must be a pickle of plain values, arrays and tensors; got: "),
        ("labels.json", b"{", "must be a JSON file; got: "),
        ("labels.json", b"{}", "must hold one list of labels, .*; got none. Set noise.key=NAME"),
        ("labels.json", b'{"a": [1], "b": [2]}', "must hold one list of labels, .*; got a, b. Set noise.key=NAME"),
        ("labels.json", b"[[1], [2, 3]]", "must hold one label per sample; got rows of different length"),
        ("labels.json", b"7", "must hold a non-empty list of labels; got shape"),
        ("labels.json", b"[1, null]", "must hold whole numbers; got object"),
        ("labels.csv", b"", "must hold a non-empty list of labels"),
        ("labels.csv", b"a,b\n1,2\n", "must hold one list of labels, .*; got a, b. Set noise.column=NAME"),
        ("labels.csv", b"label\ncat\n", "must hold class numbers from 0; got 'cat'. Number the classes first"),
        ("labels.csv", b"x,label\n1,2\n3\n", "must have the same columns in each row; got only 1 in row 1"),
        ("labels.csv", b"\xff\xfe1\x00", "must be a CSV file in UTF-8; got: "),
        ("labels.txt", b"1\n", "a file of labels must end in .npy, .npz, .csv, .json, .pt; got 'labels.txt'"),
    ],
)
def test_a_file_that_does_not_fit_gets_one_sentence(tmp_path: Path, name: str, content: Any, sentence: str) -> None:
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with open(path, "wb") as file:
            np.save(file, content)
    refused(path, sentence)


def test_pickled_arrays_are_not_read(tmp_path: Path) -> None:
    np.save(tmp_path / "labels.npy", np.array([Trap(tmp_path / "trapped")], dtype=object), allow_pickle=True)
    refused(tmp_path / "labels.npy", "must be a file of numpy with numbers; got: Object arrays cannot be loaded")
    assert not (tmp_path / "trapped").exists()


def test_a_file_that_is_not_there_and_a_path_that_was_not_given_get_a_sentence(tmp_path: Path) -> None:
    for ending in ("npy", "npz", "csv", "json", "pt"):
        refused(tmp_path / f"nothing.{ending}", "must be a readable file( of labels)?; got: No such file")
    with pytest.raises(ConfigError, match="needs the path of a file of labels; got none"):
        draw_noise("file", TRUE, C, 0, {})


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("labels.csv", {"key": "a"}, "key does not apply to a CSV; got 'a'.*Use column"),
        ("labels.npz", {"column": "a"}, "column applies to a CSV only; got 'a'.*Use key"),
        ("labels.npy", {"key": "a"}, "key does not apply to .*labels.npy, which holds one array; got 'a'"),
    ],
)
def test_an_option_that_means_nothing_here_is_refused(
    tmp_path: Path, name: str, options: dict[str, str], sentence: str
) -> None:
    np.save(tmp_path / "labels.npy", GIVEN.numpy())
    refused(tmp_path / name, sentence, **options)


ENDINGS = ["npz", "npy", "csv", "json"]


def written(path: Path, labels: Tensor = TRUE) -> Noise:
    noise = draw_noise("symmetric", labels, C, 3, {"rate": 0.3})
    write_labels(path, noise, labels, {"data": "toy", "seed": 3})
    return noise


@pytest.mark.parametrize("ending", ENDINGS)
def test_labels_that_were_written_come_back_with_rate_matrix_and_hash(tmp_path: Path, ending: str) -> None:
    path = tmp_path / "new" / f"labels.{ending}"
    noise = written(path)
    again = read(path)
    assert (again.rate, again.digest) == (noise.rate, noise.digest)
    assert torch.equal(again.matrix, noise.matrix)
    _, about = read_labels(path)
    assert about["sha256"] == noise.digest == label_digest(noise.labels)
    assert about["true_sha256"] == label_digest(TRUE)
    assert about["rate"] == noise.rate
    assert about["transition_matrix"] == noise.matrix.tolist()
    assert about["seed"] == 3
    assert sorted(path.parent.iterdir()) == sorted(files_of(path)), "and nothing else is left behind"


@pytest.mark.parametrize("ending", ENDINGS)
def test_labels_that_were_changed_after_writing_are_noticed(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"labels.{ending}"
    changed = written(path).labels.clone()
    changed[7] = (changed[7] + 1) % C
    if ending == "npz":
        with np.load(path, allow_pickle=False) as arrays:
            content: dict[str, Any] = dict(arrays) | {"labels": changed.numpy()}
        np.savez(path, **content)
    elif ending == "npy":
        np.save(path, changed.numpy())
    elif ending == "json":
        path.write_text(json.dumps(json.loads(path.read_text()) | {"labels": changed.tolist()}))
    else:
        path.write_text("label\n" + "\n".join(map(str, changed.tolist())) + "\n")
    refused(path, "must hold the labels that its hash was made of; got others")


@pytest.mark.parametrize("ending", ENDINGS)
def test_labels_that_were_drawn_on_other_data_are_noticed(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"labels.{ending}"
    written(path, TRUE.flip(0))
    refused(
        path, r"must have been drawn on these data; got labels for others \(toy\), or for the same in another order"
    )


def test_the_true_labels_of_a_written_file_can_be_asked_for(tmp_path: Path) -> None:
    written(tmp_path / "labels.npz")
    assert torch.equal(read(tmp_path / "labels.npz", key="true").labels, TRUE)


def test_the_labels_of_a_run_folder_can_be_used_in_another_run(tmp_path: Path) -> None:
    noise = draw_noise("symmetric", TRUE, C, 0, {})
    config = Config.resolve({"data": "digits", "noise": {"name": "symmetric"}})
    RunFolder.create(tmp_path / "run", config, noise, TRUE, [str(c) for c in range(C)])
    assert read(tmp_path / "run" / "given_labels.npz").digest == noise.digest
    damaged = json.loads((tmp_path / "run" / "noise.json").read_text()) | {"sha256": "0" * 64}
    (tmp_path / "run" / "noise.json").write_text(json.dumps(damaged))
    refused(tmp_path / "run" / "given_labels.npz", "must hold the labels that its hash was made of")


def test_writing_to_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must end in \.npz, \.npy, \.csv, \.json; got 'labels\.pt'"):
        written(tmp_path / "labels.pt")
