"""A folder with a sub-folder of images per class."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from selc.data import ImageInputs
from selc.data.preprocess.imagery import Reading, size_for
from selc.data.sources.image_folder import folder as load
from selc.data.sources.recognise import check_outside
from selc.errors import ConfigError, InputError, RunFolderError
from selc.runs import Config, execute, resume
from tests.own_data.miniature import COLOURS, Array, encoded, folder, in_order, picture
from tests.toy import BrokenOffError, StopAfter


def pixels_of(inputs: object) -> Array:
    assert isinstance(inputs, ImageInputs)
    return torch.cat(list(inputs.pixels.stream([torch.arange(len(inputs))]))).numpy()


def test_a_folder_is_images_labels_and_names(tmp_path: Path) -> None:
    bundle = load(path=str(folder(tmp_path / "data")))
    assert bundle.classes == tuple(COLOURS)
    assert bundle.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert bundle.ids is not None
    assert list(bundle.ids) == [f"{name}/{k}.png" for name in COLOURS for k in range(4)]
    assert bundle.shape == (3, 10, 10)
    assert bundle.true is None
    assert bundle.notes == []
    assert np.array_equal(pixels_of(bundle.inputs), in_order())


def test_inputs_are_normalised_by_the_training_images_and_so_are_test_images(tmp_path: Path) -> None:
    folder(tmp_path / "data")
    folder(tmp_path / "other", each=2, first=50)
    bundle = load(path=str(tmp_path / "data"), test=str(tmp_path / "other"))
    values = in_order() / 255
    mean, std = values.mean((0, 2, 3)), values.std((0, 2, 3))
    x = next(iter(bundle.inputs.stream([torch.arange(12)], None))).numpy()
    expected = (values - mean[:, None, None]) / std[:, None, None]
    np.testing.assert_allclose(x, expected, atol=1e-5)
    test = next(iter(bundle.tests["test"].inputs.stream([torch.arange(6)], None))).numpy()
    first = picture("blue", 50).transpose(2, 0, 1) / 255
    np.testing.assert_allclose(test[0], (first - mean[:, None, None]) / std[:, None, None], atol=1e-5)
    assert bundle.tests["test"].labels.tolist() == [0, 0, 1, 1, 2, 2]


def test_training_images_move_and_mirror_unless_told_otherwise(tmp_path: Path) -> None:
    path = str(folder(tmp_path / "data"))
    plain = next(iter(load(path=path).inputs.stream([torch.arange(12)], None)))
    for augment, moved, mirrored in (("crop-flip", True, True), ("crop", True, False), ("none", False, False)):
        bundle = load(path=path, augment=augment)
        assert isinstance(bundle.inputs, ImageInputs)
        assert bundle.inputs.view.flip == mirrored
        trained = next(iter(bundle.inputs.stream([torch.arange(12)], seed=1)))
        assert torch.equal(trained, plain) != moved


@pytest.mark.parametrize("names", [("train", "val", "test"), ("Training", "validation", "testing")])
def test_parts_of_a_divided_dataset_are_no_classes(tmp_path: Path, names: tuple[str, str, str]) -> None:
    for name, each in zip(names, (4, 2, 3), strict=True):
        folder(tmp_path / name, each=each)
    bundle = load(path=str(tmp_path))
    assert bundle.classes == tuple(COLOURS)
    assert len(bundle.labels) == 12
    assert bundle.val is not None
    assert len(bundle.val.labels) == 6
    assert len(bundle.tests["test"].labels) == 9
    assert "the training images are those in" in bundle.notes[0]


def test_folders_called_train_and_test_are_classes_if_they_hold_images(tmp_path: Path) -> None:
    for name, colour in (("test", "red"), ("train", "blue")):
        (tmp_path / name).mkdir()
        for k in range(3):
            (tmp_path / name / f"{k}.png").write_bytes(encoded(picture(colour, k)))
    assert load(path=str(tmp_path)).classes == ("test", "train")


def test_images_may_lie_deeper_and_hidden_files_are_not_seen(tmp_path: Path) -> None:
    root = folder(tmp_path / "data", each=2)
    (root / "red" / "2024" / "may").mkdir(parents=True)
    shutil.copy(root / "red" / "0.png", root / "red" / "2024" / "may" / "a.PNG")
    (root / ".git").mkdir()
    (root / "red" / ".DS_Store").write_bytes(b"x")
    (root / "__MACOSX").mkdir()
    bundle = load(path=str(root))
    assert bundle.ids is not None
    assert "red/2024/may/a.PNG" in bundle.ids
    assert bundle.labels.bincount().tolist() == [2, 2, 3]
    assert bundle.notes == []


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    root = folder(tmp_path / "data", each=2)
    (root / "empty").mkdir()
    (root / "red" / "notes.txt").write_text("hello")
    (root / "loose.jpg").write_bytes(b"")
    notes = " | ".join(load(path=str(root)).notes)
    assert "1 folder of data without images left out: empty" in notes
    assert "1 images of data in no class folder left out, first loose.jpg" in notes
    assert "1 files of data that are no images by their names left out (1 .txt)" in notes


def test_classes_that_are_numbers_are_sorted_as_numbers(tmp_path: Path) -> None:
    for name in ("10", "9", "2"):
        (tmp_path / name).mkdir()
        for k in range(2):
            (tmp_path / name / f"{k}.png").write_bytes(encoded(picture("red", k)))
    bundle = load(path=str(tmp_path))
    assert bundle.classes == ("2", "9", "10")
    assert bundle.ids is not None
    for label, name in zip(bundle.labels.tolist(), bundle.ids, strict=True):
        assert bundle.classes[label] == name.split("/")[0]


# One size for all


@pytest.mark.parametrize(
    ("sizes", "side", "resize"),
    [
        ([(28, 28)] * 3, 28, "stretch"),  # all alike: not resized
        ([(30, 30), (33, 33), (50, 50)], 32, "stretch"),  # the median, rounded to a multiple of 8
        ([(480, 640)] * 3, 224, "shorter"),  # not square, and larger than the largest
        ([(100, 110)] * 3, 100, "stretch"),  # nearly square
        ([(5, 5)] * 3, 8, "stretch"),
    ],
)
def test_the_size_is_the_median_of_the_shorter_sides(sizes: list[tuple[int, int]], side: int, resize: str) -> None:
    items = [encoded(np.zeros((*size, 3), dtype=np.uint8)) for size in sizes]
    assert size_for(items, Reading()) == (side, resize)
    assert size_for(items, Reading(size=20, resize="shorter")) == (20, "shorter")


def test_mixed_sizes_are_brought_to_one_and_that_is_said(tmp_path: Path) -> None:
    for name, size in (("red", (20, 30)), ("blue", (40, 24)), ("green", (24, 24))):
        (tmp_path / name).mkdir()
        for k in range(2):
            (tmp_path / name / f"{k}.png").write_bytes(encoded(picture(name, k, size)))
    bundle = load(path=str(tmp_path))
    assert bundle.shape == (3, 24, 24)
    assert any("mixed sizes, 20 x 24 to 40 x 30; all are brought to 24 x 24" in note for note in bundle.notes)
    assert load(path=str(tmp_path), size=16).shape == (3, 16, 16)


def test_large_images_come_with_advice_where_there_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    bundle = load(path=str(folder(tmp_path / "data", each=2, size=(80, 80))))
    assert bundle.shape == (3, 80, 80)
    assert any("train slowly without a GPU" in note for note in bundle.notes)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"size": 2}, "size must be at least 4 pixels"),
        ({"workers": -1}, "workers must be 0"),
        ({"cache_gb": -1.0}, "cache_gb must be 0 or more"),
    ],
)
def test_options_that_cannot_be_are_refused(tmp_path: Path, options: dict[str, float], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        load(path=str(folder(tmp_path / "data")), **options)


# Files as they are found


def test_grey_transparent_and_strangely_named_images_go_together(tmp_path: Path) -> None:
    root = folder(tmp_path / "data", each=2)
    Image.new("L", (10, 10), 7).save(root / "red" / "grey.png")
    Image.new("RGBA", (10, 10), (1, 2, 3, 0)).save(root / "red" / "clear.png")
    Image.new("RGB", (10, 10), (1, 2, 3)).save(root / "red" / "a b;c,d\"e'f\n%20é.png")
    bundle = load(path=str(root))
    assert bundle.ids is not None
    images = dict(zip(bundle.ids, pixels_of(bundle.inputs), strict=True))
    assert (images["red/grey.png"] == 7).all()
    assert (images["red/clear.png"] == 255).all()
    assert images["red/a b;c,d\"e'f\n%20é.png"][:, 0, 0].tolist() == [1, 2, 3]


def test_names_that_are_no_text_are_spelled_out_so_that_they_can_be_written(tmp_path: Path) -> None:
    root = folder(tmp_path / "data", each=2)
    os.rename(os.fsencode(root / "red"), os.fsencode(root) + b"/caf\xe9")
    bundle = load(path=str(root))
    assert bundle.classes == ("blue", "caf\\xe9", "green")
    assert bundle.ids is not None
    assert bundle.ids[2] == "caf\\xe9/0.png"
    assert np.array_equal(pixels_of(bundle.inputs)[2], picture("red", 0).transpose(2, 0, 1))


def test_a_folder_that_cannot_be_read_gets_a_sentence(tmp_path: Path) -> None:
    root = folder(tmp_path / "data")
    (root / "loop").symlink_to(root / "loop")
    with pytest.raises(InputError, match=r"must be readable; got .*loop': Too many levels of symbolic links"):
        load(path=str(root))


def test_bad_images_are_left_out_with_their_labels_and_recorded(tmp_path: Path) -> None:
    root = folder(tmp_path / "data")
    (root / "blue" / "1.png").write_bytes(b"")
    with pytest.raises(InputError, match=r"blue/1.png \(the file is empty\)"):
        load(path=str(root))
    bundle = load(path=str(root), skip_bad=True)
    assert bundle.labels.tolist() == [0] * 3 + [1] * 4 + [2] * 4
    assert bundle.ids is not None
    assert "blue/1.png" not in bundle.ids
    assert "1 bad sample was left out: blue/1.png (the file is empty)" in bundle.notes


def test_a_class_of_which_every_image_is_bad_is_gone(tmp_path: Path) -> None:
    root = folder(tmp_path / "data")
    for file in (root / "blue").iterdir():
        file.write_bytes(b"")
    bundle = load(path=str(root), skip_bad=True)
    assert bundle.classes == ("green", "red")
    assert bundle.labels.tolist() == [0] * 4 + [1] * 4


def test_a_link_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    root = folder(tmp_path / "data")
    secret = tmp_path / "secret.png"
    secret.write_bytes(encoded(picture("red", 0)))
    (root / "red" / "link.png").symlink_to(secret)
    with pytest.raises(InputError, match=r"must stay inside .*got the link 'red/link.png', which leaves it"):
        load(path=str(root))
    (root / "red" / "link.png").unlink()
    (root / "red" / "more").symlink_to(tmp_path)
    with pytest.raises(InputError, match="got the link 'red/more', which leaves it"):
        load(path=str(root), skip_bad=True)


def test_a_part_that_is_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder(tmp_path / "private")
    folder(tmp_path / "data" / "test")
    (tmp_path / "data" / "train").symlink_to(tmp_path / "private")
    with pytest.raises(InputError, match="got the link 'train', which leaves it"):
        load(path=str(tmp_path / "data"))


def test_a_link_to_another_image_or_folder_inside_would_count_twice(tmp_path: Path) -> None:
    root = folder(tmp_path / "data")
    (root / "red" / "link.png").symlink_to(root / "blue" / "0.png")
    with pytest.raises(InputError, match=r"listed once; got 'red/link.png', a link to 'blue/0.png'"):
        load(path=str(root))
    (root / "red" / "link.png").unlink()
    (root / "red" / "loop").symlink_to(root)
    with pytest.raises(InputError, match="got 'red/loop', a link to another folder in it"):
        load(path=str(root))


def test_links_to_files_that_are_listed_nowhere_else_are_fine(tmp_path: Path) -> None:
    root = folder(tmp_path / "data", each=2)
    (root / ".store").mkdir()
    (root / "red" / "0.png").rename(root / ".store" / "x")
    (root / "red" / "0.png").symlink_to(root / ".store" / "x")
    assert len(load(path=str(root)).labels) == 6


def test_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    folder(tmp_path / "data")
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert len(load(path=str(tmp_path / "link")).labels) == 12


# Runs


def test_the_digest_follows_the_files_and_not_the_place_of_the_folder(tmp_path: Path) -> None:
    root = folder(tmp_path / "data")
    before = load(path=str(root)).digest
    shutil.copytree(root, tmp_path / "copy", copy_function=shutil.copy2)
    assert load(path=str(tmp_path / "copy")).digest == before
    os.utime(root / "red" / "0.png", ns=(0, 5))
    assert load(path=str(root)).digest != before


def test_a_run_on_a_folder_finds_the_colours_and_calls_samples_by_their_files(tmp_path: Path) -> None:
    folder(tmp_path / "data" / "train", each=8)
    folder(tmp_path / "data" / "test", each=4, first=20)
    settings = {
        "data": {"name": "folder", "path": str(tmp_path / "data"), "augment": "none"},
        "method": {"name": "ce"},
        "net": {"name": "mlp", "hidden": [16]},
        "train": {"epochs": 10, "batch_size": 8, "lr": 0.02, "schedule": "constant"},
    }
    with pytest.warns(UserWarning, match="the training images are those in train; test kept apart"):
        run = execute(Config.resolve(settings), tmp_path / "run")
    assert run.summary["accuracy"]["test"]["top1"] == 1.0
    lines = (tmp_path / "run" / "corrected_labels.csv").read_text().splitlines()
    assert lines[1].startswith("blue/0.png,blue,blue")
    assert resume(tmp_path / "run").finished


def test_a_run_is_not_resumed_on_a_folder_that_changed(tmp_path: Path) -> None:
    root = folder(tmp_path / "data")
    settings = {
        "data": {"name": "folder", "path": str(root)},
        "method": {"name": "ce"},
        "net": {"name": "mlp", "hidden": [8]},
        "train": {"epochs": 3, "batch_size": 8},
    }
    with pytest.raises(BrokenOffError):
        execute(Config.resolve(settings), tmp_path / "run", [StopAfter(1)])
    content = (root / "red" / "0.png").read_bytes()
    state = os.stat(root / "red" / "0.png")
    (root / "red" / "0.png").write_bytes(encoded(picture("red", 50)))
    with pytest.raises(RunFolderError, match=r"the data must be the same .* but not the same ones"):
        resume(tmp_path / "run")
    (root / "red" / "0.png").write_bytes(content)
    os.utime(root / "red" / "0.png", ns=(state.st_atime_ns, state.st_mtime_ns))
    assert resume(tmp_path / "run").finished


# Runs beside the images


def leave_a_run(out: Path) -> None:
    """A run folder as it is left behind, with figures as `selc figures` writes them."""
    settings = {"data": "moons", "method": {"name": "ce"}, "train": {"epochs": 1}}
    execute(Config.resolve(settings), out)
    (out / "figures").mkdir()
    (out / "figures" / "losses.png").write_bytes(encoded(picture("red", 99)))


@pytest.mark.parametrize(
    ("out", "left_out"),
    [("runs/data-ce-1", "runs"), ("runs/demo/ce", "runs"), ("mine", "mine"), ("blue/first", "blue/first")],
)
def test_the_run_folders_in_the_data_are_no_class(tmp_path: Path, out: str, left_out: str) -> None:
    before = load(path=str(folder(tmp_path / "data")))
    leave_a_run(tmp_path / "data" / out)
    after = load(path=str(tmp_path / "data"))
    assert after.ids is not None
    assert list(after.ids) == list(before.ids or [])
    assert after.classes == before.classes
    assert after.digest == before.digest, "a run there can be resumed"
    assert after.notes == [f"1 folder of data with runs of selc left out: {left_out}"]


def test_run_folders_do_not_hide_that_the_data_are_divided(tmp_path: Path) -> None:
    for part in ("train", "test"):
        folder(tmp_path / "data" / part)
    leave_a_run(tmp_path / "data" / "runs" / "data-ce-1")
    bundle = load(path=str(tmp_path / "data"))
    assert bundle.classes == tuple(COLOURS)
    assert list(bundle.tests) == ["test"]


def test_a_class_that_is_called_runs_is_a_class(tmp_path: Path) -> None:
    folder(tmp_path / "data")
    (tmp_path / "data" / "runs" / "morning").mkdir(parents=True)
    (tmp_path / "data" / "runs" / "morning" / "0.png").write_bytes(encoded(picture("red", 7)))
    (tmp_path / "data" / "runs" / "config.toml").write_text("about = 'runners'")
    assert load(path=str(tmp_path / "data")).classes == (*sorted(COLOURS), "runs")


def test_a_run_folder_inside_the_images_is_refused_with_a_place_beside_them(tmp_path: Path) -> None:
    data, beside = tmp_path / "data", tmp_path / "runs" / "new"
    data.mkdir()
    (tmp_path / "link").symlink_to(data)
    options = {"path": str(data), "test": str(tmp_path / "other"), "val": ""}
    for out in (data, data / "runs" / "new", tmp_path / "link" / "new", tmp_path / "other" / "new"):
        with pytest.raises(InputError, match=r"^out must not lie inside the data"):
            check_outside(out, "folder", options)
    with pytest.raises(InputError, match=f"such as out {beside}"):
        check_outside(data / "new", "folder", options)
    check_outside(beside, "folder", options)
    check_outside(data / "new", "table", options)


# The same file twice


@pytest.mark.parametrize("options", [{"workers": 0}, {"workers": 2}, {"cache": "off"}, {"cache_gb": 0.0}])
def test_a_file_under_two_labels_is_noted_also_from_the_cache(tmp_path: Path, options: dict[str, Any]) -> None:
    data = folder(tmp_path / "data")
    shutil.copyfile(data / "blue" / "1.png", data / "blue" / "copy.png")  # one label: nothing to decide
    expected = "2 images are the same file as another one with a different label, such as green/2.png (green) and "
    assert not [note for note in load(path=str(data), **options).notes if "the same file" in note]
    shutil.copyfile(data / "green" / "2.png", data / "red" / "copy.png")
    for _ in range(2):
        (note,) = [note for note in load(path=str(data), **options).notes if "the same file" in note]
        assert note == expected + "red/copy.png (red): at most one can be right"


def test_files_that_cannot_be_read_are_bad_and_not_alike(tmp_path: Path) -> None:
    data = folder(tmp_path / "data")
    for name in ("blue", "red"):
        (data / name / "empty.png").write_bytes(b"")
    notes = load(path=str(data), skip_bad=True).notes
    assert not [note for note in notes if "the same file" in note]
    # What is left out moves no row of the others.
    shutil.copyfile(data / "green" / "0.png", data / "red" / "z.png")
    notes = load(path=str(data), skip_bad=True).notes
    assert [note for note in notes if "green/0.png (green) and red/z.png (red)" in note]
