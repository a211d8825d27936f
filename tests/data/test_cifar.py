"""CIFAR in every layout that it comes in: the same images, labels and classes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import selc.data.published.cifar  # noqa: F401 - registers the datasets
from selc.data import DATASETS, Bundle, ImageInputs
from selc.errors import ConfigError, InputError
from tests.counting import instructions
from tests.data import miniatures
from tests.data.miniatures import (
    Array,
    Cifar,
    cifar_binary,
    cifar_human,
    cifar_parquet,
    cifar_png,
    cifar_python,
    packed,
)

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)  # the paper, appendix A.1
MEAN_100, STD_100 = (0.507, 0.487, 0.441), (0.267, 0.256, 0.276)  # its code


def python_packed(folder: Path) -> Cifar:
    made = cifar_python(folder)
    packed(folder, "cifar-10-batches-py", "cifar-10-python.tar.gz")
    return made


def binary_packed(folder: Path) -> Cifar:
    made = cifar_binary(folder)
    packed(folder, "cifar-10-batches-bin", "cifar-10-binary.tar.gz")
    return made


def hundred_packed(folder: Path) -> Cifar:
    made = cifar_python(folder, 100)
    packed(folder, "cifar-100-python", "cifar-100-python.tar.gz")
    return made


LAYOUTS: dict[str, tuple[str, Callable[[Path], Cifar]]] = {
    "python": ("cifar10", cifar_python),
    "python.tar.gz": ("cifar10", python_packed),
    "binary": ("cifar10", cifar_binary),
    "binary.tar.gz": ("cifar10", binary_packed),
    "png": ("cifar10", cifar_png),
    "npm": ("cifar10", lambda folder: cifar_png(folder / "package")),
    "parquet": ("cifar10", cifar_parquet),
    "100 python": ("cifar100", lambda folder: cifar_python(folder, 100)),
    "100 python.tar.gz": ("cifar100", hundred_packed),
    "100 binary": ("cifar100", lambda folder: cifar_binary(folder, 100)),
}


def seen(inputs: object) -> Array:
    """All inputs in evaluation, back in bytes."""
    assert isinstance(inputs, ImageInputs)
    x = next(iter(inputs.stream([torch.arange(len(inputs))], None))).double()
    mean, std = (torch.tensor(v, dtype=torch.float64).view(3, 1, 1) for v in (inputs.view.mean, inputs.view.std))
    return ((x * std + mean) * 255).round().to(torch.uint8).numpy()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_images_labels_and_classes_that_are_in_it(layout: str, data: Path) -> None:
    name, make = LAYOUTS[layout]
    made = make(data / name)
    for _ in range(2):  # the second time from the cache, where there is one
        bundle = DATASETS[name]()
        np.testing.assert_array_equal(seen(bundle.inputs), made.train)
        np.testing.assert_array_equal(seen(bundle.tests["test"].inputs), made.test)
        assert bundle.labels.tolist() == made.labels.tolist()
        assert bundle.true is not None
        assert bundle.true.tolist() == made.labels.tolist()
        assert bundle.tests["test"].labels.tolist() == made.test_labels.tolist()
        assert bundle.classes == made.classes
        assert bundle.shape == (3, 32, 32)


@pytest.mark.parametrize(("num_classes", "mean", "std"), [(10, MEAN, STD), (100, MEAN_100, STD_100)])
def test_pixels_are_normalised_as_in_the_paper(
    num_classes: int, mean: tuple[float, ...], std: tuple[float, ...], data: Path
) -> None:
    name = f"cifar{num_classes}"
    made = cifar_python(data / name, num_classes)
    x = next(iter(DATASETS[name]().inputs.stream([torch.arange(4)], None)))
    shape = (3, 1, 1)
    expected = (made.train[:4] / 255 - np.array(mean).reshape(shape)) / np.array(std).reshape(shape)
    torch.testing.assert_close(x.double(), torch.from_numpy(expected), atol=1e-5, rtol=1e-5)


def test_training_sees_crops_after_a_padding_of_four_and_flips_unless_switched_off(data: Path) -> None:
    """In a window of 32 out of 40, each image is found again, shifted by up to 4 and perhaps mirrored."""
    made = cifar_python(data / "cifar10")
    bundle = DATASETS["cifar10"]()
    assert isinstance(bundle.inputs, ImageInputs)
    rows = torch.arange(16)
    black = -torch.tensor(MEAN).view(3, 1, 1) / torch.tensor(STD).view(3, 1, 1)
    plain = next(iter(bundle.inputs.stream([rows], None)))
    shifts, mirrored = set(), 0
    for x, original in zip(next(iter(bundle.inputs.stream([rows], 5))), plain, strict=True):
        padded = black.repeat(1, 40, 40)
        padded[:, 4:36, 4:36] = original
        places = [
            (top, left, flip)
            for top in range(9)
            for left in range(9)
            for flip in (False, True)
            if torch.allclose(
                padded[:, top : top + 32, left : left + 32].flip(2)
                if flip
                else padded[:, top : top + 32, left : left + 32],
                x,
                atol=1e-5,
            )
        ]
        assert len(places) == 1
        shifts.add(places[0][:2])
        mirrored += places[0][2]
    assert len(shifts) > 8
    assert 2 <= mirrored <= 14
    still = DATASETS["cifar10"](augment=False)
    assert torch.equal(next(iter(still.inputs.stream([rows], 5))), plain)
    assert len(made.train) == len(still.inputs)


def test_original_pixels_go_before_the_lossy_ones_and_the_lossy_ones_are_called_so(data: Path) -> None:
    cifar_parquet(data / "cifar10")
    assert any("lossy" in note for note in DATASETS["cifar10"]().notes)
    made = cifar_png(data / "cifar10")
    bundle = DATASETS["cifar10"]()
    np.testing.assert_array_equal(seen(bundle.inputs), made.train)
    assert not any("lossy" in note for note in bundle.notes)


def test_a_set_that_is_smaller_than_published_says_so(data: Path) -> None:
    cifar_python(data / "cifar10")
    assert DATASETS["cifar10"]().notes == [
        "data 'cifar10' was published with 50,000 and 10,000 images; 40 and 10 here."
    ]


# Labels


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize(
    ("name", "labels", "key"),
    [
        ("cifar10", "aggre", "aggre_label"),
        ("cifar10", "random1", "random_label1"),
        ("cifar10", "random2", "random_label2"),
        ("cifar10", "random3", "random_label3"),
        ("cifar10", "worse", "worse_label"),
        ("cifar100", "noisy", "noisy_label"),
    ],
)
def test_the_labels_of_people_replace_the_clean_ones_which_stay_known(
    name: str, labels: str, key: str, old: bool, data: Path
) -> None:
    num_classes = int(name[5:])
    made = cifar_python(data / name, num_classes)
    wrong = (made.labels + 1) % num_classes
    cifar_human(data / name / f"CIFAR-{num_classes}_human.pt", made.labels, old=old, **{key: wrong, "x": made.labels})
    bundle = DATASETS[name](labels=labels)
    assert bundle.labels.tolist() == wrong.tolist()
    assert bundle.true is not None
    assert bundle.true.tolist() == made.labels.tolist()


def test_a_column_of_the_table_gives_the_labels_also_for_other_pixels(data: Path) -> None:
    made = cifar_parquet(data / "cifar10")
    expected = (made.labels + (np.arange(len(made.labels)) % 4 == 0)) % 10
    assert DATASETS["cifar10"](labels="human_random1").labels.tolist() == expected.tolist()
    cifar_python(data / "cifar10")
    assert DATASETS["cifar10"](labels="human_random1").labels.tolist() == expected.tolist()


def test_labels_of_other_images_are_refused(data: Path) -> None:
    made = cifar_python(data / "cifar10")
    other = made.labels.copy()
    other[7] = (other[7] + 1) % 10
    cifar_human(data / "cifar10/CIFAR-10_human.pt", other, worse_label=made.labels)
    with pytest.raises(InputError, match=r"same order; got another clean label in row 7 and 0 more"):
        DATASETS["cifar10"](labels="worse")
    cifar_human(data / "cifar10/CIFAR-10_human.pt", made.labels[:5], worse_label=made.labels)
    with pytest.raises(InputError, match="a label for each of 40 images; got 5 labels"):
        DATASETS["cifar10"](labels="worse")
    cifar_human(data / "cifar10/CIFAR-10_human.pt", made.labels, worse_label=made.labels + 1)
    with pytest.raises(InputError, match="labels from 0 to 9; got 1 to 10"):
        DATASETS["cifar10"](labels="worse")
    cifar_human(data / "cifar10/CIFAR-10_human.pt", made.labels, aggre_label=made.labels)
    with pytest.raises(InputError, match="must hold worse_label and clean_label; got aggre_label, clean_label"):
        DATASETS["cifar10"](labels="worse")


def test_labels_that_are_not_there_are_named_with_what_to_do(data: Path) -> None:
    cifar_python(data / "cifar10")
    with pytest.raises(
        InputError, match=r"CIFAR-10_human\.pt; got no such file\. Put it there, from http://www\.noisy"
    ):
        DATASETS["cifar10"](labels="worse")
    with pytest.raises(ConfigError, match="must be one of aggre, clean, random1, random2, random3, worse; got 'worst'"):
        DATASETS["cifar10"](labels="worst")


# A part of the rows


def test_a_part_of_the_rows_is_always_the_same_one_and_lies_in_larger_ones(data: Path) -> None:
    made = cifar_python(data / "cifar10")
    some, more = DATASETS["cifar10"](rows=12), DATASETS["cifar10"](rows=25)
    assert some.ids is not None
    assert more.ids is not None
    assert some.ids == DATASETS["cifar10"](rows=12).ids
    assert set(some.ids) < set(more.ids)
    rows = [int(row) for row in some.ids]
    assert rows == sorted(set(rows))
    np.testing.assert_array_equal(seen(some.inputs), made.train[rows])
    assert some.labels.tolist() == made.labels[rows].tolist()
    assert some.digest != more.digest
    for wrong in (-1, 1, 41):
        with pytest.raises(ConfigError, match=f"from 2 to 40; got {wrong}"):
            DATASETS["cifar10"](rows=wrong)


def test_the_digest_follows_the_pixels_and_not_where_they_lie(data: Path, tmp_path: Path) -> None:
    cifar_python(data / "cifar10")
    digest = DATASETS["cifar10"]().digest
    cifar_binary(tmp_path / "elsewhere")
    assert DATASETS["cifar10"](root=str(tmp_path / "elsewhere")).digest == digest
    path = data / "cifar10/cifar-10-batches-py/data_batch_3"
    changed = bytearray(path.read_bytes())
    changed[len(changed) // 2] ^= 1  # in the pixels
    path.write_bytes(bytes(changed))
    assert DATASETS["cifar10"]().digest != digest


# What is not there, and what is broken


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_a_set_that_is_not_there_says_what_to_put_where(name: str, data: Path) -> None:
    with pytest.raises(InputError) as error:
        DATASETS[name]()
    said = str(error.value)
    assert str(data / name) in said
    assert f"cifar-{name[5:]}-python.tar.gz" in said
    assert "https://www.cs.toronto.edu/~kriz/cifar.html" in said
    assert "SELC_DATA" in said


def test_the_folder_is_the_option_then_the_variable_then_data_here(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cifar_python(data)  # right in the folder, without one of its own
    assert len(DATASETS["cifar10"]().labels) == 40
    with pytest.raises(InputError, match="elsewhere"):
        DATASETS["cifar10"](root=str(tmp_path / "elsewhere"))
    monkeypatch.delenv("SELC_DATA")
    monkeypatch.chdir(tmp_path)
    assert len(DATASETS["cifar10"]().labels) == 40


def broken_data(folder: Path) -> None:
    path = folder / "cifar-10-batches-py/data_batch_2"
    path.write_bytes(miniatures.batch2(np.zeros((3, 100), np.uint8), [1, 2, 3], "labels"))


def broken_labels(folder: Path) -> None:
    path = folder / "cifar-10-batches-py/data_batch_2"
    path.write_bytes(miniatures.batch2(np.zeros((3, 3072), np.uint8), [1, 2, 10], "labels"))


def no_labels(folder: Path) -> None:
    path = folder / "cifar-10-batches-py/data_batch_2"
    path.write_bytes(miniatures.batch2(np.zeros((3, 3072), np.uint8), [1, 2, 3], "others"))


def few_names(folder: Path) -> None:
    (folder / "cifar-10-batches-py/batches.meta").write_bytes(miniatures.meta2("label_names", ["cat"]))


def program(folder: Path) -> None:
    (folder / "cifar-10-batches-py/data_batch_2").write_bytes(b"cos\nsystem\n(S'true'\ntR.")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (broken_data, r"'data', bytes \[N, 3072\]"),
        (broken_labels, "labels from 0 to 9; got 1 to 10"),
        (no_labels, "a label for each of 3 images; got 0 labels"),
        (few_names, "must have 10 names of classes in its archive; got 1"),
        (program, r"got: the name os\.system"),
        (lambda folder: (folder / "cifar-10-batches-py/test_batch").unlink(), "test_batch must be there"),
    ],
)
def test_a_broken_python_version_is_named_in_a_sentence(
    damage: Callable[[Path], object], said: str, data: Path
) -> None:
    cifar_python(data / "cifar10")
    damage(data / "cifar10")
    with pytest.raises(InputError, match=said):
        DATASETS["cifar10"]()


def test_other_broken_versions_are_named_too(data: Path) -> None:
    made = cifar_binary(data / "a")
    path = data / "a/cifar-10-batches-bin/data_batch_1.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"records of 3073 bytes; got 24583 bytes"):
        DATASETS["cifar10"](root=str(data / "a"))

    cifar_png(data / "b")
    (data / "b/train_lables.json").write_text(json.dumps(made.labels.tolist()[:-1]))
    with pytest.raises(InputError, match="a label for each of 40 images; got 39"):
        DATASETS["cifar10"](root=str(data / "b"))
    (data / "b/data_batch_4.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"data_batch_4\.png must be a picture"):
        DATASETS["cifar10"](root=str(data / "b"))
    (data / "b/test_batch.png").unlink()
    with pytest.raises(InputError, match=r"got no test_batch\.png"):
        DATASETS["cifar10"](root=str(data / "b"))

    import pyarrow as pa
    import pyarrow.parquet as pq

    cifar_parquet(data / "c")
    pq.write_table(pa.table({"image": [b"no image"], "label": [0]}), data / "c/test.parquet")
    with pytest.raises(InputError, match="got 1 bad ones, row 0: it is no image"):
        DATASETS["cifar10"](root=str(data / "c"))
    pq.write_table(pa.table({"image": [miniatures.photo(0, 40, 32)], "label": [0]}), data / "c/test.parquet")
    with pytest.raises(InputError, match="32 by 32 pixels"):
        DATASETS["cifar10"](root=str(data / "c"))
    (data / "c/test.parquet").write_bytes(b"no table")
    with pytest.raises(InputError, match="must be a table with image, label"):
        DATASETS["cifar10"](root=str(data / "c"))


def test_a_damaged_cache_is_made_again_and_one_that_cannot_be_written_is_done_without(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = cifar_png(data / "cifar10")
    DATASETS["cifar10"]()
    files = list((tmp_path / "cache").glob("*.npy"))
    assert len(files) == 2
    for file in files:
        file.write_bytes(file.read_bytes()[:1000])
    np.testing.assert_array_equal(seen(DATASETS["cifar10"]().inputs), made.train)
    (tmp_path / "a-file").write_text("")
    monkeypatch.setenv("SELC_CACHE", str(tmp_path / "a-file" / "cache"))
    np.testing.assert_array_equal(seen(DATASETS["cifar10"]().inputs), made.train)


# Features


def test_features_come_with_the_labels_of_the_same_rows(data: Path) -> None:
    miniatures.features(data / "cifar10")
    written = np.load(data / "cifar10/features.npz", allow_pickle=False)
    made = miniatures.cifar()
    bundle: Bundle = DATASETS["cifar10-features"](labels="human_random1")
    x = next(iter(bundle.inputs.stream([torch.arange(40)], None)))
    assert x.dtype == torch.float32
    np.testing.assert_array_equal(x.numpy(), written["train"].astype(np.float32))
    assert bundle.true is not None
    assert bundle.true.tolist() == made.labels.tolist()
    assert bundle.labels.tolist() == ((made.labels + (np.arange(40) % 4 == 0)) % 10).tolist()
    test = bundle.tests["test"]
    np.testing.assert_array_equal(next(iter(test.inputs.stream([torch.arange(10)], None))).numpy(), written["test"])
    assert test.labels.tolist() == made.test_labels.tolist()
    for part in ("train", "test"):
        (data / f"cifar10/{part}.parquet").unlink()
    cifar_binary(data / "cifar10")  # the labels may also come from there
    assert DATASETS["cifar10-features"]().labels.tolist() == made.labels.tolist()
    assert DATASETS["cifar10-features"](rows=9).inputs.x.shape == (9, 6)  # type: ignore[attr-defined]


def test_features_that_do_not_fit_are_named(data: Path) -> None:
    with pytest.raises(InputError, match=r"got no features\.npz there"):
        DATASETS["cifar10-features"]()
    miniatures.features(data / "cifar10")
    np.savez(data / "cifar10/features.npz", train=np.zeros((3, 2)), test=np.zeros((10, 2)))
    with pytest.raises(InputError, match="got 3 and 10 rows for 40 and 10 images"):
        DATASETS["cifar10-features"]()
    np.savez(data / "cifar10/features.npz", train=np.zeros((3, 2)))
    with pytest.raises(InputError, match="must hold the arrays train and test"):
        DATASETS["cifar10-features"]()
    np.savez(data / "cifar10/features.npz", train=np.array([{}]), test=np.array([{}]))  # objects would be pickles
    with pytest.raises(InputError, match="must hold the arrays train and test"):
        DATASETS["cifar10-features"]()


def test_pixels_of_the_python_version_are_not_read_one_by_one(data: Path) -> None:
    cifar_python(data / "cifar10")

    def cost(images: int) -> int:
        batch = miniatures.batch2(np.zeros((images, 3072), dtype=np.uint8), [1] * images, "labels")
        (data / "cifar10/cifar-10-batches-py/data_batch_1").write_bytes(batch)
        return instructions(lambda: DATASETS["cifar10"]())

    cost(1)  # what it imports does not count
    assert cost(40) - cost(20) < 20 * 3072  # an instruction for each byte would be more
