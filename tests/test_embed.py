"""Images become features once: the right ones, in one file, and whatever interrupts it."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import typer
from sklearn.datasets import load_sample_images
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from typer.testing import CliRunner

from selc.cli.embed import embed as command
from selc.data import ArrayInputs, ArrayPixels, Bundle, ImageInputs, View, digits, moons
from selc.data.sources.npz import npz
from selc.encoders import create as encoder
from selc.encoders import embed_file
from selc.encoders.embed import embed
from selc.encoders.network import folded
from selc.errors import ConfigError, InputError, RunFolderError
from selc.nets import create
from selc.types import EvalSet
from tests.helpers import rng
from tests.own_data.miniature import folder
from tests.tiers import exhaustive

VIEW = View((12, 12), (0.5, 0.5, 0.5), (0.2, 0.2, 0.2))
CPU = torch.device("cpu")


def pixels(count: int, seed: int, side: int = 12, channels: int = 3) -> Tensor:
    return torch.randint(0, 256, (count, channels, side, side), generator=rng(seed), dtype=torch.uint8)


def bundle(seed: int = 0) -> Bundle:
    """50 images of 12 pixels with names and known labels, and two test sets that share their images."""
    test = ImageInputs(ArrayPixels(pixels(20, seed + 1)), VIEW)
    labels = torch.arange(50) % 3
    return Bundle(
        inputs=ImageInputs(ArrayPixels(pixels(50, seed)), VIEW),
        labels=labels,
        classes=("cat", "dog", "hen"),
        shape=(3, 12, 12),
        tests={
            "test": EvalSet(test, torch.arange(20) % 3),
            "odd": EvalSet(test, torch.ones(10).long(), torch.arange(1, 20, 2)),
        },
        true=labels.flip(0),
        ids=[f"image {row}" for row in range(50)],
    )


class Means(nn.Module):
    """A backbone that a person can follow: the mean of each channel, and the top left pixel."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x.mean(dim=(2, 3)), x[:, :, 0, 0]], dim=1)


def means(num_classes: int) -> nn.Module:
    """The same by name, as the command has it."""
    return Means()


def arrays(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed_file, "CHUNK", 16)


@pytest.mark.exhaustive
def test_a_feature_is_what_the_backbone_sees_of_the_enlarged_image(tmp_path: Path) -> None:
    """Shown at 64 pixels (bicubic), with the mean of 127 and deviation of 128 that the weights were trained with."""
    data = bundle()
    embed(data, tmp_path / "f.npz", size=64, number="float32")
    net = create("efficientnet-lite0", 1000, (3, 64, 64)).get_submodule("features").eval()
    assert isinstance(data.inputs, ImageInputs)
    shown = F.interpolate(pixels(50, 0).float(), (64, 64), mode="bicubic", antialias=True).clamp(0, 255)
    with torch.no_grad():
        expected = net((shown - 127) / 128)
    torch.testing.assert_close(torch.from_numpy(arrays(tmp_path / "f.npz")["x"]), expected, rtol=1e-3, atol=1e-4)


def test_the_backbone_knows_a_daisy_by_its_features() -> None:
    """Known answers of ImageNet for the photographs in scikit-learn: bell cote (442) and daisy (985)."""
    net = create("efficientnet-lite0", 1000, (3, 224, 224)).eval()
    backbone = encoder("efficientnet-lite0", {}, 224, CPU)
    for photograph, label in zip(load_sample_images().images, (442, 985), strict=True):
        image = torch.from_numpy(photograph.copy()).permute(2, 0, 1)[None].float() / 255
        image = F.interpolate(image, (224, 224), mode="bicubic", antialias=True).clamp(0, 1)
        features = torch.from_numpy(backbone.features(image))
        assert net.get_submodule("head")(features).argmax().item() == label


def test_the_file_holds_all_that_is_known_of_every_set(tmp_path: Path, small_chunks: None) -> None:
    data = bundle()
    made = embed(data, tmp_path / "f.npz", backbone=Means(), size=32, source="pets")
    assert (made.rows, made.fresh, made.dims) == (80, 80, 6)
    found = arrays(tmp_path / "f.npz")
    assert set(found) == {"x", "y", "x_test", "y_test", "x_odd", "y_odd", "classes", "ids", "true", "meta"}
    assert {name: (a.shape, str(a.dtype)) for name, a in found.items() if name[0] == "x"} == {
        "x": ((50, 6), "float16"),
        "x_test": ((20, 6), "float16"),
        "x_odd": ((10, 6), "float16"),
    }
    assert found["y"].tolist() == data.labels.tolist()
    assert found["true"].tolist() == data.labels.flip(0).tolist()
    assert found["classes"].tolist() == ["cat", "dog", "hen"]
    assert found["ids"].tolist() == list(data.ids or [])
    np.testing.assert_array_equal(found["x_odd"], found["x_test"][1::2])
    meta = json.loads(str(found["meta"]))
    assert (meta["source"], meta["backbone"], meta["size"]) == ("pets", "Means", 32)
    assert not (tmp_path / "f.npz.part").exists()


def test_values_follow_by_hand_from_bytes(tmp_path: Path) -> None:
    """Images of one colour stay so when enlarged; a module of the user's own gets the statistics of ImageNet."""
    colours = torch.tensor([[0, 128, 255], [255, 0, 51]], dtype=torch.uint8)
    data = replace(bundle(), tests={}, ids=None, true=None, labels=torch.tensor([0, 1]))
    data = replace(data, inputs=ImageInputs(ArrayPixels(colours[:, :, None, None].expand(2, 3, 12, 12)), VIEW))
    embed(data, tmp_path / "f.npz", backbone=Means(), number="float32")
    expected = (colours.double() / 255 - torch.tensor([0.485, 0.456, 0.406])) / torch.tensor([0.229, 0.224, 0.225])
    np.testing.assert_allclose(
        arrays(tmp_path / "f.npz")["x"], torch.cat([expected, expected], 1), rtol=1e-4, atol=1e-5
    )


def test_images_are_cut_out_as_in_a_test(tmp_path: Path) -> None:
    """Stored larger than the network sees them, only the middle counts."""
    wide = pixels(2, 3, side=16)
    data = replace(bundle(), tests={}, ids=None, true=None, labels=torch.tensor([0, 1]))
    files = []
    for name, stored in (("stored", wide), ("cut", wide[:, :, 2:14, 2:14])):
        inputs = ImageInputs(ArrayPixels(stored), VIEW)
        files.append(embed(replace(data, inputs=inputs), tmp_path / f"{name}.npz", backbone=Means(), size=32).path)
    np.testing.assert_array_equal(arrays(files[0])["x"], arrays(files[1])["x"])


def test_grey_images_of_any_range_run_from_black_to_white(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    values = torch.tensor([[0.0, 4.0], [16.0, 8.0]])
    x = values.flatten()[:, None, None, None].expand(4, 1, 8, 8)
    data = Bundle(ArrayInputs(x), torch.arange(4) % 2, ("a", "b"), (1, 8, 8))
    embed(data, tmp_path / "f.npz", backbone=Means(), size=32, number="float32")
    red = (torch.tensor([0, 0.25, 1, 0.5]) - 0.485) / 0.229
    np.testing.assert_allclose(arrays(tmp_path / "f.npz")["x"][:, 0], red, rtol=1e-5, atol=1e-6)
    assert "numbers from 0 to 16" in caplog.text


@pytest.mark.parametrize("after", [33, *exhaustive(0, 16, 50, 79)])
def test_an_interrupted_call_goes_on_and_ends_with_the_same_file(
    after: int, tmp_path: Path, small_chunks: None
) -> None:
    make = partial(embed, bundle(), backbone=Means(), size=32, batch=5)
    whole, broken = tmp_path / "whole.npz", tmp_path / "broken.npz"
    make(out=whole)

    def stop(done: int, total: int) -> None:
        if done >= after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(out=broken, progress=stop)
    assert not broken.exists()
    seen: list[tuple[int, int]] = []
    made = make(out=broken, progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (80 - made.fresh, 80)
    assert seen[-1] == (80, 80)
    assert made.fresh <= 80 - max(0, after - 2 * 16)
    assert broken.read_bytes() == whole.read_bytes()
    assert not (tmp_path / "broken.npz.part").exists()


def other_data(path: Path) -> None:
    embed(bundle(seed=9), path, size=32)


def other_backbone(path: Path) -> None:
    embed(bundle(), path, backbone=Means(), size=32)


def other_size(path: Path) -> None:
    embed(bundle(), path, size=40)


@pytest.mark.parametrize("other", [other_data, other_backbone, other_size])
@pytest.mark.exhaustive
def test_half_of_another_embedding_is_neither_used_nor_lost(
    other: Callable[[Path], None], tmp_path: Path, small_chunks: None
) -> None:
    path = tmp_path / "f.npz"

    def stop(done: int, total: int) -> None:
        if done > 40:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed(bundle(), path, size=32, progress=stop)
    before = sorted(p.name for p in (tmp_path / "f.npz.part").iterdir())
    with pytest.raises(RunFolderError, match=r"must hold the same features, half done; got those of other data"):
        other(path)
    assert sorted(p.name for p in (tmp_path / "f.npz.part").iterdir()) == before
    assert embed(bundle(), path, size=32).fresh < 80
    embed(bundle(seed=9), path, size=32, overwrite=True)


def test_a_file_that_exists_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "f.npz").write_text("precious")
    with pytest.raises(RunFolderError, match=r"^out must be a new file"):
        embed(bundle(), tmp_path / "f.npz", backbone=Means())
    assert (tmp_path / "f.npz").read_text() == "precious"


@pytest.mark.exhaustive
def test_principal_components_are_those_of_another_library_fitted_on_the_training_rows(
    tmp_path: Path, small_chunks: None
) -> None:
    embed(bundle(), tmp_path / "all.npz", size=32, number="float32")
    made = embed(bundle(), tmp_path / "few.npz", size=32, number="float32", dims=5)
    assert made.dims == 5
    features, few = arrays(tmp_path / "all.npz"), arrays(tmp_path / "few.npz")
    known = PCA(5, whiten=True, svd_solver="full").fit(features["x"].astype(np.float64))
    for name in ("x", "x_test", "x_odd"):
        expected = known.transform(features[name].astype(np.float64))
        signs = np.sign((expected * few[name]).sum(0))
        np.testing.assert_allclose(few[name], signs * expected, rtol=1e-3, atol=1e-3)
    again = (features["x_test"] - few["pca_mean"]) @ few["pca_components"]
    np.testing.assert_allclose(few["x_test"], again, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.cov(few["x"].T), np.eye(5), atol=1e-4)


def test_the_loader_of_npz_files_takes_it(tmp_path: Path) -> None:
    data = bundle()
    embed(data, tmp_path / "f.npz", backbone=Means(), size=32)
    loaded = npz(path=str(tmp_path / "f.npz"))
    assert loaded.shape == (6,)
    assert loaded.classes == data.classes
    assert torch.equal(loaded.labels, data.labels)
    assert loaded.true is not None
    assert torch.equal(loaded.true, data.labels.flip(0))
    assert list(loaded.ids or []) == list(data.ids or [])
    assert set(loaded.tests) == {"test", "odd"}


def test_a_validation_set_stays_one(tmp_path: Path) -> None:
    data = bundle()
    embed(replace(data, tests={}, val=data.tests["test"]), tmp_path / "f.npz", backbone=Means(), size=32)
    val = npz(path=str(tmp_path / "f.npz")).val
    assert val is not None
    assert torch.equal(val.labels, data.tests["test"].labels)


def test_folding_norms_into_convolutions_changes_nothing() -> None:
    net = create("efficientnet-lite0", 1000, (3, 64, 64)).eval()
    x = torch.randn(2, 3, 64, 64, generator=rng(0))
    with torch.no_grad():
        expected = net(x)
        torch.testing.assert_close(folded(net)(x), expected, rtol=1e-4, atol=1e-4)
    assert not any(isinstance(m, nn.BatchNorm2d) for m in net.modules())


def test_a_sequence_that_runs_in_another_order_is_not_folded() -> None:
    class Backwards(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            conv, norm = self
            return conv(norm(x)).mean(dim=(2, 3))  # type: ignore[no-any-return]

    net = Backwards(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)).eval()
    nn.init.constant_(net[1].bias, 1.0)  # type: ignore[arg-type]
    x = torch.randn(2, 3, 4, 4, generator=rng(0))
    with torch.no_grad():
        expected = net(x)
        assert torch.equal(folded(net)(x), expected)


class Spoilt(nn.Module):
    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, x: Tensor) -> Tensor:
        bad = torch.where(x.mean(dim=(1, 2, 3)) == x.mean(dim=(1, 2, 3)).max(), self.value, 0.0)
        return torch.stack([bad, bad], 1)


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"out": "f.zip"}, ConfigError, r"^out must be a file that ends in .npz; got .*f.zip"),
        ({"size": 16}, ConfigError, "size must be at least 32 pixels; got 16"),
        ({"batch": 0}, ConfigError, "batch must be at least 1; got 0"),
        ({"dims": 0}, ConfigError, "dims must be from 1 to 49, as there are 1280 features of 50 training images"),
        ({"dims": 50}, ConfigError, "got 50"),
        ({"dims": 7, "backbone": Means()}, ConfigError, "dims must be from 1 to 6"),
        ({"dims": 2, "backbone": Spoilt(1.0)}, ConfigError, "dims must be at most 1, since the features vary in no"),
        ({"backbone": "efficientnet"}, ConfigError, "Did you mean 'efficientnet-lite"),
        ({"backbone": "resnet50"}, ConfigError, r"'resnet50' must have pretrained weights; got none. Say which, by"),
        ({"backbone": "cnn"}, ConfigError, r"'cnn' must have pretrained weights; got none. Take one of efficientnet"),
        (
            {"backbone": nn.Conv2d(3, 4, 3)},
            ConfigError,
            r"must map images to features \[B, D\]; got \[2, 4, 126, 126\]",
        ),
        (
            {"backbone": nn.Linear(3, 4)},
            ConfigError,
            r"'Linear' must take inputs of shape \[3, 128, 128\]; got Runtime",
        ),
        ({"backbone": Spoilt(float("nan"))}, InputError, "features must be finite numbers; got others for row"),
        ({"backbone": Spoilt(1e6)}, ConfigError, "features must fit into float16; got larger ones. Use float32"),
        ({"device": "tpu"}, ConfigError, "device must be"),
    ],
)
def test_each_mistake_gets_its_sentence_and_leaves_no_file(
    change: dict[str, Any], error: type[Exception], sentence: str, tmp_path: Path
) -> None:
    out = tmp_path / change.get("out", "f.npz")
    with pytest.raises(error, match=sentence):
        embed(bundle(), out, **{key: value for key, value in change.items() if key != "out"})
    assert not out.exists()


def test_data_that_are_not_images_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data to embed must be grey or colour images .*; got inputs of shape \[2\]"):
        embed(moons(), tmp_path / "f.npz")


def test_a_backbone_of_the_users_own_is_used_without_its_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mybackbone.py").write_text(
        "from torch import nn\n"
        "def net(num_classes, shape):\n"
        "    assert shape == (3, 32, 32)\n"
        "    net = nn.Sequential()\n"
        "    net.add_module('features', nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()))\n"
        "    net.add_module('head', nn.Linear(3, num_classes))\n"
        "    return net\n"
    )
    monkeypatch.chdir(tmp_path)
    try:
        assert embed(bundle(), "f.npz", backbone="import:mybackbone:net", size=32).dims == 3
    finally:
        sys.modules.pop("mybackbone", None)


def run(*arguments: str) -> Any:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(command)
    return CliRunner().invoke(app, list(arguments))


def test_the_command_writes_the_file_and_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder(tmp_path / "colours", each=6)
    monkeypatch.chdir(tmp_path)
    result = run("colours", "--backbone", f"import:{__name__}:means", "--size", "32", "--dims", "5")
    assert result.exit_code == 0, result.output
    assert "18 images, 5 features each" in result.stdout
    assert "selc train colours-features.npz" in result.stdout
    assert "embedding: 18/18 images" in result.stderr
    assert "images/s" in result.stderr
    assert arrays(tmp_path / "colours-features.npz")["x"].shape == (18, 5)
    again = run("colours", "--size", "32")
    assert again.exit_code == 2
    assert "error: --out must be a new file" in again.stderr


def test_an_interrupted_command_says_that_it_can_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("selc.encoders.embed._fill", interrupt)
    result = run("digits", "--size", "32", "--out", str(tmp_path / "f.npz"))
    assert result.exit_code == 130
    assert "Go on with the same command" in result.stderr


def test_the_command_refuses_before_it_reads_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(config: Any) -> Bundle:
        raise AssertionError("the data were read")

    monkeypatch.setattr("selc.runs.job.load", read)
    (tmp_path / "old.npz").touch()
    for options in (["--out", str(tmp_path / "old.npz")], ["--out", "f.csv"], ["--backbone", "resnet-18"]):
        result = run("digits", *options)
        assert result.exit_code == 2, result.output


def test_the_command_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    for arguments, sentence in (
        (["digts"], "Did you mean the dataset 'digits'?"),
        ([str(tmp_path / "nothing.npz")], "must be a path that exists"),
        (["digits", "--out", str(tmp_path / "f.npz"), "--backbone", "resnet18", "--weights", "x.pth"], ".safetensors"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2, result.output
        assert sentence in result.stderr


def real(name: str) -> Path:
    return Path(os.environ.get("SELC_DATA", ".")) / "cifar10" / f"{name}.parquet"


def real_images(name: str, count: int) -> tuple[ImageInputs, Tensor]:
    """The first images of a file of CIFAR-10 and their clean labels."""
    from PIL import Image
    from pyarrow.parquet import ParquetFile

    rows = next(ParquetFile(real(name)).iter_batches(batch_size=count, columns=["image", "label"])).to_pylist()
    stored = np.stack([np.asarray(Image.open(io.BytesIO(row["image"])).convert("RGB")) for row in rows])
    images = torch.from_numpy(stored.transpose(0, 3, 1, 2).copy())
    view = replace(VIEW, size=(32, 32))
    return ImageInputs(ArrayPixels(images), view), torch.tensor([row["label"] for row in rows])


@pytest.mark.exhaustive
@pytest.mark.skipif(not real("train").exists(), reason="needs the images of CIFAR-10")
def test_a_linear_probe_on_500_real_images_is_far_above_chance(tmp_path: Path) -> None:
    inputs, labels = real_images("train", 500)
    test = EvalSet(*real_images("test", 300))
    data = Bundle(inputs, labels, tuple("0123456789"), (3, 32, 32), {"test": test})
    embed(data, tmp_path / "f.npz", size=96)
    found = arrays(tmp_path / "f.npz")
    mean, std = found["x"].astype(np.float32).mean(0), found["x"].astype(np.float32).std(0) + 1e-6
    probe = LogisticRegression(C=0.003, max_iter=200).fit((found["x"] - mean) / std, found["y"])
    assert probe.score((found["x_test"] - mean) / std, found["y_test"]) > 0.6  # by chance: 0.1


@pytest.mark.exhaustive
def test_digits_in_features_can_be_told_apart(tmp_path: Path) -> None:
    """A nearest-mean classifier on the features of the scans, shown at 64 pixels, is right for most of them."""
    data = replace(digits(), tests={})
    some = torch.arange(400)
    assert isinstance(data.inputs, ArrayInputs)
    data = replace(data, inputs=ArrayInputs(data.inputs.x[some]), labels=data.labels[some], true=None)
    embed(data, tmp_path / "f.npz", size=64)
    found = arrays(tmp_path / "f.npz")
    x, y = found["x"].astype(np.float32), found["y"]
    means = np.stack([x[:300][y[:300] == k].mean(0) for k in range(10)])
    nearest = ((x[300:, None] - means) ** 2).sum(2).argmin(1)
    assert (nearest == y[300:]).mean() > 0.7
