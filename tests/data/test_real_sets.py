"""ANIMAL-10N, Clothing1M and WebVision in their official layouts."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from selc.data import DATASETS, FACTS, RECIPES, Bundle
from selc.data.published import animal10n, clothing1m, webvision  # noqa: F401
from selc.errors import InputError
from selc.runs.new_data import Ids, new_samples
from selc.runs.preprocessing import state_of
from tests.data import miniatures
from tests.data.miniatures import MAKERS, put
from tests.tiers import exhaustive

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CLOTHING = ((0.6959, 0.6537, 0.6371), (0.3113, 0.3192, 0.3214))
REAL = ["animal10n", "clothing1m", "webvision"]


def first(bundle: Bundle, seed: int | None = None) -> torch.Tensor:
    return next(iter(bundle.inputs.stream([torch.arange(len(bundle.inputs))], seed)))


def by_pillow(path: Path, side: int, window: int, mean: tuple[float, ...], std: tuple[float, ...]) -> torch.Tensor:
    """The shorter side to ``side``, the middle ``window``, normalised: step by step, by Pillow."""
    with Image.open(path) as image:
        scale = side / min(image.size)
        width, height = (round(n * scale) for n in image.size)
        small = image.convert("RGB").resize((width, height), Image.Resampling.BILINEAR)
        left, top = (width - window) // 2, (height - window) // 2
        pixels = np.asarray(small.crop((left, top, left + window, top + window)))
    shape = (1, 1, 3)
    x = (pixels / 255 - np.array(mean).reshape(shape)) / np.array(std).reshape(shape)
    return torch.from_numpy(x.transpose(2, 0, 1)).float()


# What all three promise


@pytest.mark.parametrize("name", REAL)
def test_a_set_that_is_not_there_says_what_to_put_where(name: str, data: Path) -> None:
    pages = {"animal10n": "dm.kaist.ac.kr", "clothing1m": "Cysu/noisy_label", "webvision": "vision.ee.ethz.ch"}
    with pytest.raises(InputError) as error:
        DATASETS[name]()
    assert str(data / name) in str(error.value)
    assert pages[name] in str(error.value)
    assert "SELC_DATA" in str(error.value)


@pytest.mark.parametrize("name", REAL)
def test_the_second_time_images_come_from_the_cache(name: str, data: Path) -> None:
    MAKERS[name](data)
    before = DATASETS[name](augment=False)
    x = first(before)
    for path in (data / name).rglob("*.jpg"):
        path.chmod(0)  # for whoever is not root
    again = DATASETS[name](augment=False)
    assert torch.equal(first(again), x)
    assert again.digest == before.digest


@pytest.mark.parametrize("name", REAL)
def test_an_image_that_cannot_be_read_is_named_or_left_out_with_its_label(name: str, data: Path) -> None:
    MAKERS[name](data)
    whole = DATASETS[name]()
    assert whole.ids is not None
    bad = whole.ids[3]
    (path,) = [p for p in (data / name).rglob(Path(bad).name) if p.parent.name != "testing"]
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(InputError, match="1 of") as error:
        DATASETS[name]()
    assert bad in str(error.value)
    left = DATASETS[name](skip_bad=True)
    assert left.ids == [name for name in whole.ids if name != bad]
    assert left.labels.tolist() == [y for k, y in enumerate(whole.labels.tolist()) if k != 3]
    assert len(left.inputs) == len(left.labels)
    assert any(note.startswith("1 bad sample was left out: ") and bad in note for note in left.notes)
    assert [sample for sample, _ in left.skipped] == [bad]


@pytest.mark.parametrize("name", REAL)
def test_new_images_are_brought_to_size_as_those_of_the_set_were(name: str, data: Path, tmp_path: Path) -> None:
    MAKERS[name](data)
    bundle = DATASETS[name](augment=False)
    assert bundle.ids is not None
    Image.effect_noise((90, 60), 80).convert("RGB").save(tmp_path / "long.png")  # which a stretch would distort
    found = new_samples(state_of(bundle.inputs), tmp_path / "long.png", Ids())
    (x,) = found.inputs.stream([torch.tensor([0])], None)
    side, colours = {"animal10n": (64, IMAGENET), "clothing1m": (256, CLOTHING), "webvision": (256, IMAGENET)}[name]
    expected = by_pillow(tmp_path / "long.png", side, bundle.shape[1], *colours)
    torch.testing.assert_close(x[0], expected, atol=0.02, rtol=0)


@pytest.mark.parametrize("name", REAL)
def test_a_part_of_the_rows_keeps_names_and_labels_together(name: str, data: Path) -> None:
    MAKERS[name](data)
    whole, some = DATASETS[name](), DATASETS[name](rows=7)
    assert whole.ids is not None
    assert some.ids is not None
    rows = [whole.ids.index(one) for one in some.ids]
    assert len(rows) == 7
    assert rows == sorted(rows)
    assert some.labels.tolist() == whole.labels[rows].tolist()
    torch.testing.assert_close(first(some), first(whole)[rows])


@pytest.mark.parametrize("name", REAL)
def test_the_view_of_training_is_cut_and_mirrored_at_random_unless_switched_off(name: str, data: Path) -> None:
    MAKERS[name](data)
    moving = DATASETS[name]()
    assert first(moving, 1).shape == (len(moving.inputs), *moving.shape)
    assert not torch.equal(first(moving, 1), first(moving, 2))
    still = DATASETS[name](augment=False)
    assert torch.equal(first(still, 1), first(moving))


@pytest.mark.parametrize("name", REAL)
def test_without_its_images_a_set_says_where_they_should_lie(name: str, data: Path) -> None:
    MAKERS[name](data)
    folder = {"animal10n": "raw_image_ver/raw_image/training", "clothing1m": "images", "webvision": "google"}[name]
    shutil.rmtree(data / name / folder)
    if name == "animal10n":
        (data / name / folder).mkdir()
    with pytest.raises(InputError, match=r"must (lie in|hold)"):
        DATASETS[name]()


# Table 7 and the recipes of the paper


def test_sizes_and_noise_are_those_of_the_papers_table_7() -> None:
    assert FACTS["animal10n"] == (50_000, 0, 5_000, 10, "64 x 64", "8")
    assert FACTS["clothing1m"] == (1_000_000, 14_000, 10_000, 14, "224 x 224", "38.5")
    assert FACTS["webvision"] == (66_000, 0, 2_500, 50, "256 x 256", "20")


def test_recipes_are_those_of_the_papers_appendix() -> None:
    def of(name: str) -> tuple[object, ...]:
        recipe, keys = RECIPES[name], ("epochs", "batch_size", "lr", "momentum", "weight_decay", "milestones", "gamma")
        return recipe.net, *(recipe.plan[key] for key in keys)

    assert of("animal10n") == ("vgg19-bn", 100, 128, 0.1, 0.0, 0.001, [50, 75], 0.2)
    assert of("clothing1m") == ("resnet50", 30, 64, 0.01, 0.9, 0.001, [10, 20], 0.1)
    assert of("webvision") == ("inception-resnet-v2", 100, 32, 0.01, 0.9, 0.0005, [40, 80], 0.1)
    assert RECIPES["clothing1m"].plan["samples_per_epoch"] == 2000 * 64
    assert RECIPES["clothing1m"].plan["pick"] == "best-val"


# ANIMAL-10N


@pytest.mark.parametrize("inside", ["raw_image_ver/raw_image", "raw_image_ver", "."])
def test_animal10n_takes_the_label_from_the_name_of_the_file(inside: str, data: Path) -> None:
    miniatures.animal10n(data / "animal10n", inside)
    bundle = DATASETS["animal10n"]()
    assert bundle.ids is not None
    assert bundle.ids == sorted(bundle.ids)
    assert bundle.labels.tolist() == [int(name.split("_")[0]) for name in bundle.ids]
    assert bundle.true is None
    assert bundle.classes[0] == "cat"
    assert bundle.classes[9] == "guinea pig"
    assert bundle.shape == (3, 64, 64)
    training = data / "animal10n" / inside / "training"
    for row in (0, 7, 19):
        expected = by_pillow(training / bundle.ids[row], 64, 64, *IMAGENET)
        torch.testing.assert_close(first(bundle)[row], expected, atol=1e-4, rtol=1e-4)
    test = bundle.tests["test"]
    assert test.labels.tolist() == sorted(range(10))
    assert len(test.inputs) == 10


def test_animal10n_is_only_mirrored_in_training(data: Path) -> None:
    miniatures.animal10n(data / "animal10n")
    bundle = DATASETS["animal10n"]()
    plain, moved = first(bundle), first(bundle, 4)
    mirrored = [not torch.equal(a, b) for a, b in zip(moved, plain, strict=True)]
    for row, flipped in enumerate(mirrored):
        assert torch.equal(moved[row], plain[row].flip(2) if flipped else plain[row])
    assert 3 <= sum(mirrored) <= 17


@pytest.mark.parametrize(("name", "said"), [("cat_1.jpg", "got 'cat_1.jpg'"), ("10_1.jpg", "labels from 0 to 9")])
def test_animal10n_names_a_file_without_a_label(name: str, said: str, data: Path) -> None:
    miniatures.animal10n(data / "animal10n", ".")
    put(data / "animal10n/training" / name, miniatures.photo(0, 64, 64))
    with pytest.raises(InputError, match=said):
        DATASETS["animal10n"]()


# Clothing1M


@pytest.mark.parametrize(("annotations", "images"), [("annotations", "images/"), (".", "images/"), (".", "")])
def test_clothing1m_has_noisy_training_and_clean_other_labels(annotations: str, images: str, data: Path) -> None:
    """In the layout of its authors, or as the archives unpack: without the folder images."""
    miniatures.clothing1m(data / "clothing1m", annotations=annotations, images=images)
    bundle = DATASETS["clothing1m"]()
    assert bundle.labels.tolist() == [k % 14 for k in range(31)]
    assert bundle.true is None
    assert bundle.val is not None
    assert bundle.val.labels.tolist() == list(range(14))
    assert bundle.tests["test"].labels.tolist() == [k % 14 for k in range(15)]
    assert (len(bundle.val.inputs), len(bundle.tests["test"].inputs)) == (14, 15)
    assert len(bundle.classes) == len(set(bundle.classes)) == 14
    assert bundle.shape == (3, 224, 224)
    assert bundle.ids is not None
    for row in (0, 1, 30):
        path = data / "clothing1m" / bundle.ids[row]
        expected = by_pillow(path, 256, 224, *CLOTHING)
        assert float((first(bundle)[row] - expected).abs().mean()) < 0.02  # resized in one step or in two


def test_clothing1m_names_an_image_without_a_label(data: Path) -> None:
    miniatures.clothing1m(data / "clothing1m")
    with open(data / "clothing1m/annotations/clean_val_key_list.txt", "a") as file:
        file.write("images/0/0/other.jpg\n")
    with pytest.raises(InputError, match=r"got 1 without, first images/0/0/other\.jpg"):
        DATASETS["clothing1m"]()
    (data / "clothing1m/annotations/clean_label_kv.txt").write_text("images/0/0/a.jpg dress\n")
    with pytest.raises(InputError, match="lines of an image and its label"):
        DATASETS["clothing1m"]()
    (data / "clothing1m/annotations/clean_label_kv.txt").unlink()
    with pytest.raises(InputError, match=r"clean_label_kv\.txt must be a readable list"):
        DATASETS["clothing1m"]()


def test_a_list_cannot_reach_outside_of_its_folder(data: Path) -> None:
    miniatures.clothing1m(data / "clothing1m")
    put(data / "secret.jpg", miniatures.photo(0, 256, 256))
    base = data / "clothing1m/annotations"
    for outside in ("images/../../secret.jpg", "../secret.jpg", str(data / "secret.jpg")):
        with open(base / "noisy_label_kv.txt", "a") as file:
            file.write(f"{outside} 1\n")
        (base / "noisy_train_key_list.txt").write_text(f"{outside}\n")
        with pytest.raises(InputError, match="must name files in"):
            DATASETS["clothing1m"]()
    (base / "noisy_train_key_list.txt").write_text("\n")
    with pytest.raises(InputError, match="must hold images; got none"):
        DATASETS["clothing1m"]()


# WebVision


@pytest.mark.parametrize("synset_folders", [True, *exhaustive(False)])
@pytest.mark.parametrize("beside", [False, *exhaustive(True)])
def test_webvision_takes_the_first_50_classes_and_has_two_test_sets(
    synset_folders: bool, beside: bool, data: Path
) -> None:
    imagenet = data / "imagenet" if beside else None
    miniatures.webvision(data / "webvision", synset_folders=synset_folders, imagenet=imagenet)
    bundle = DATASETS["webvision"]()
    assert bundle.labels.tolist() == list(range(50))
    assert bundle.ids is not None
    assert bundle.ids[4] == "google/q0005/p4.jpg"
    assert bundle.classes[:2] == ("thing 0", "thing 1")
    assert len(bundle.classes) == 50
    assert bundle.shape == (3, 227, 227)
    assert list(bundle.tests) == ["webvision", "ilsvrc12"]
    assert bundle.val is None
    assert bundle.tests["webvision"].labels.tolist() == list(range(49, -1, -1))
    # in the order of the list, or class by class
    listed = [7 * k % 60 for k in range(60) if 7 * k % 60 < 50]
    other = bundle.tests["ilsvrc12"]
    assert other.labels.tolist() == (sorted(listed) if synset_folders else listed)
    pictures = {7 * k % 60: f"ILSVRC2012_val_{k + 1:08d}.JPEG" for k in range(60)}
    (seen,) = other.inputs.stream([torch.tensor([2])], None)
    base = (imagenet or data / "webvision/imagenet") / "val"
    (path,) = base.rglob(pictures[int(other.labels[2])])
    assert float((seen[0] - by_pillow(path, 256, 227, *IMAGENET)).abs().mean()) < 0.02
    expected = by_pillow(data / "webvision" / bundle.ids[0], 256, 227, *IMAGENET)
    assert float((first(bundle)[0] - expected).abs().mean()) < 0.02


def test_the_list_of_ilsvrc12_may_name_synsets(data: Path) -> None:
    miniatures.webvision(data / "webvision")
    path = data / "webvision/imagenet/val.txt"
    before = DATASETS["webvision"]().tests["ilsvrc12"].labels.tolist()
    pairs = [line.split() for line in path.read_text().splitlines()]
    path.write_text("".join(f"{name} n{1440764 + 11 * int(label):08d}\n" for name, label in pairs))
    assert DATASETS["webvision"]().tests["ilsvrc12"].labels.tolist() == before


def test_without_ilsvrc12_webvision_says_what_to_put_where_or_goes_without_it_if_told(data: Path) -> None:
    miniatures.webvision(data / "webvision", imagenet=data / "elsewhere")
    with pytest.raises(InputError, match=r"image-net\.org.*val\.txt.*data\.ilsvrc12=false"):
        DATASETS["webvision"]()
    assert list(DATASETS["webvision"](ilsvrc12=False).tests) == ["webvision"]


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("info/synsets.txt", "tench\n" * 60, "a line such as `n01440764 tench, Tinca tinca`"),
        ("info/val_filelist.txt", "val000001.jpg\n", r"got 'val000001\.jpg'"),
        ("info/val_filelist.txt", "val000001.jpg 51\n", "images of the first 50 classes; got none"),
        ("imagenet/val.txt", "a.JPEG n99999999\n", "the number of its class; got"),
    ],
)
def test_a_broken_list_of_webvision_is_named(file: str, content: str, said: str, data: Path) -> None:
    miniatures.webvision(data / "webvision")
    (data / "webvision" / file).write_text(content)
    with pytest.raises(InputError, match=said):
        DATASETS["webvision"]()


def test_class_names_that_would_be_equal_are_given_in_full(data: Path) -> None:
    miniatures.webvision(data / "webvision")
    text = "".join(f"n{1440764 + 11 * k:08d} crane, kind {k}\n" for k in range(60))
    (data / "webvision/info/synsets.txt").write_text(text)
    assert DATASETS["webvision"](ilsvrc12=False).classes[3] == "crane, kind 3"
