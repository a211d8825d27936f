"""`selc train photos`: features by default, and every page still shows the photographs."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from selc import encoders
from selc.cli import app
from selc.data.preprocess.features import FeatureInputs
from selc.encoders import ENCODERS
from selc.runs import RunFolder
from selc.runs.job import load
from tests.encoders.conftest import Means
from tests.own_data.miniature import COLOURS, encoded, folder, picture

QUICK = ("--epochs", "6", "--method", "ce", "--lr", "0.05")


def selc(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result


def predictions(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def pictures_in(page: Path) -> list[Image.Image]:
    found = re.findall(r"data:image/(?:png|jpeg);base64,([A-Za-z0-9+/=]+)", page.read_text())
    return [Image.open(io.BytesIO(base64.b64decode(text))) for text in found]


def test_photographs_are_trained_on_as_features_and_the_first_line_says_so(
    encoder: str, cache: Path, photographs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    said = selc("train", photographs, *QUICK, "--out", out).stderr.splitlines()
    assert re.match(
        r"training on features of 36 images, by the encoder means: about \d+ s to make them, about", said[0]
    )
    assert "--net resnet18" in said[0]
    assert "--encoder" in said[0]
    run = RunFolder.open(out)
    assert (run.config.encoder.name, run.config.net.name, run.config.data.name) == ("means", "mlp", "folder")
    assert Means.seen >= 36
    assert (run.path / "model.safetensors").is_file()
    assert load(run.config).shape == (6,)


def test_small_images_other_networks_and_a_word_of_the_user_keep_the_pixels(
    encoder: str, cache: Path, photographs: Path, tmp_path: Path
) -> None:
    small = folder(tmp_path / "small", each=6, size=(31, 31))
    for number, arguments in enumerate(
        [(small,), (photographs, "--net", "mlp"), (photographs, "--encoder", "none", "--set", "data.size=8")]
    ):
        selc("train", *arguments, "--epochs", 1, "--method", "ce", "--out", tmp_path / f"run-{number}")
        assert RunFolder.open(tmp_path / f"run-{number}").config.encoder.name == "none"
    assert Means.seen == 0


def test_without_an_encoder_one_line_says_what_to_install(
    cache: Path, photographs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, about in ENCODERS.about.items():
        monkeypatch.setitem(ENCODERS.about, name, about._replace(there=lambda: False))
    assert encoders.best() is None
    said = selc("train", photographs, "--dry-run", "--out", tmp_path / "run").stderr.splitlines()
    assert "pip install 'selc[pretrained]'" in said[0]
    assert "cnn is trained from scratch" in said[0]


def test_a_dry_run_checks_the_shape_of_features_without_making_them(
    encoder: str, cache: Path, photographs: Path, tmp_path: Path
) -> None:
    """A classifier of scikit-learn refuses images, and takes features."""
    given = ("train", photographs, "--net", "sklearn:LogisticRegression", "--out", tmp_path / "run", "--dry-run")
    selc(*given, "--encoder", encoder)
    assert not (tmp_path / "run").exists()
    refused = CliRunner().invoke(app, [*map(str, given), "--encoder", "none"])
    assert refused.exit_code == 2
    assert "is for tables and other features" in refused.stderr


def test_report_and_review_show_the_original_photographs(
    encoder: str, cache: Path, photographs: Path, tmp_path: Path, undrawn: None
) -> None:
    """40 x 60 pixels in their own proportions, not the square that the encoder was shown."""
    out = tmp_path / "run"
    selc("train", photographs, *QUICK, "--out", out)
    selc("review", out, "--top", 5)
    shown = pictures_in(out / "review.html")
    assert len(shown) >= 5
    assert {image.size for image in shown if max(image.size) == 60} == {(60, 40)}
    selc("report", out)
    assert {image.size for image in pictures_in(out / "report.html") if image.size != (1, 1)} >= {(60, 40)}


def test_new_photographs_are_predicted_with_or_without_folders(
    encoder: str, cache: Path, photographs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    selc("train", photographs, *QUICK, "--epochs", 30, "--out", out)
    inside, flat = folder(tmp_path / "new", each=2, size=(50, 50), first=50), tmp_path / "flat"
    flat.mkdir()
    for name in COLOURS:
        shutil.copy(inside / name / "50.png", flat / f"{name}.png")
    selc("predict", out, inside, "--out", tmp_path / "inside.csv")
    selc("predict", out, flat, "--out", tmp_path / "flat.csv")
    nested, alone = predictions(tmp_path / "inside.csv"), predictions(tmp_path / "flat.csv")
    assert [row["predicted_label"] for row in nested] == [name for name in COLOURS for _ in range(2)]
    assert [row["confidence"] for row in alone] == [row["confidence"] for row in nested[::2]]


def test_a_file_of_features_is_as_good_as_the_photographs(
    encoder: str, cache: Path, photographs: Path, tmp_path: Path
) -> None:
    """Embedded first and trained then: the same network, pictures, tree and predictions."""
    test = folder(tmp_path / "held", each=3, size=(40, 60), first=70)
    selc("embed", photographs, "--out", tmp_path / "f.npz")
    selc("train", tmp_path / "f.npz", "--test", test, *QUICK, "--out", tmp_path / "of-file")
    selc("train", photographs, "--test", test, *QUICK, "--out", tmp_path / "of-images")
    runs = [RunFolder.open(tmp_path / name) for name in ("of-file", "of-images")]
    assert runs[0].summary["accuracy"] == runs[1].summary["accuracy"]
    assert (runs[0].path / "model.safetensors").read_bytes() == (runs[1].path / "model.safetensors").read_bytes()
    selc("review", runs[0].path, "--top", 3)
    assert (60, 40) in {image.size for image in pictures_in(runs[0].path / "review.html")}
    selc("apply", runs[0].path, "--out", tmp_path / "cleaned")
    assert len(list((tmp_path / "cleaned" / "tree").rglob("*.png"))) == 36
    selc("predict", runs[0].path, test, "--out", tmp_path / "a.csv")
    selc("predict", runs[1].path, test, "--out", tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()


def test_verdicts_on_one_kind_of_run_count_for_the_other(
    encoder: str, cache: Path, photographs: Path, tmp_path: Path
) -> None:
    selc("embed", photographs, "--out", tmp_path / "f.npz")
    selc("train", tmp_path / "f.npz", *QUICK, "--out", tmp_path / "of-file")
    selc("train", photographs, *QUICK, "--out", tmp_path / "of-images")
    selc("review", tmp_path / "of-images", "--top", 1)
    page = (tmp_path / "of-images" / "review.html").read_text()
    fingerprint = re.search(r'"run":"([0-9a-f]{64})"', page)
    assert fingerprint is not None
    verdict = {"sample_id": "red/3.png", "given": "red", "suggested": "red", "confidence": 1.0}
    content: dict[str, Any] = {"format": 1, "run": fingerprint[1], "samples": 36}
    content["decisions"] = [{**verdict, "verdict": "other", "label": "blue"}]
    (tmp_path / "d.json").write_text(json.dumps(content))
    selc("apply", tmp_path / "of-file", "--decisions", tmp_path / "d.json", "--out", tmp_path / "cleaned")
    assert (tmp_path / "cleaned" / "tree" / "blue" / "3.from-red.png").is_file()
    selc("train", photographs, "--verified", tmp_path / "d.json", *QUICK, "--out", tmp_path / "again")
    run = RunFolder.open(tmp_path / "again")
    assert run.classes[int(run.given[run.ids.index("red/3.png")])] == "blue"


def test_unlabelled_photographs_are_embedded_and_predicted(
    encoder: str, cache: Path, photographs: Path, tmp_path: Path
) -> None:
    selc("train", photographs, *QUICK, "--out", tmp_path / "run")
    flat = tmp_path / "flat"
    flat.mkdir()
    for number, name in enumerate(COLOURS):
        (flat / f"{number}.png").write_bytes(encoded(picture(name, 90, (40, 60))))
    assert "predict them" in selc("embed", flat, "--out", tmp_path / "u.npz").output
    with np.load(tmp_path / "u.npz") as arrays:
        assert set(arrays) == {"x", "ids", "meta"}
        assert arrays["ids"].tolist() == ["0.png", "1.png", "2.png"]
    selc("predict", tmp_path / "run", tmp_path / "u.npz", "--out", tmp_path / "a.csv")
    selc("predict", tmp_path / "run", flat, "--out", tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()


def test_the_inputs_of_a_run_are_scaled_features(encoder: str, cache: Path, photographs: Path, tmp_path: Path) -> None:
    """By hand: means of the channels in [0, 1], then mean zero and variance one over the rows."""
    selc("train", photographs, *QUICK, "--set", "data.size=40", "--set", "data.resize=stretch", "--out", tmp_path / "r")
    inputs = load(RunFolder.open(tmp_path / "r").config).inputs
    assert isinstance(inputs, FeatureInputs)
    x = inputs.x.numpy()
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(x.std(axis=0), 1, atol=1e-4)
    red = x[:, 0] * inputs.how.scale.std[0] + inputs.how.scale.mean[0]
    expected = [picture(name, number, (40, 60))[..., 0].mean() / 255 for name in COLOURS for number in range(12)]
    np.testing.assert_allclose(red, expected, atol=0.01)


def test_a_page_does_not_import_the_encoder_that_a_folder_names(
    encoder: str, cache: Path, photographs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    selc("train", photographs, *QUICK, "--out", out)
    config = (out / "config.toml").read_text()
    (out / "config.toml").write_text(config.replace('name = "means"', 'name = "import:no_such_module:encoder"'))
    selc("review", out, "--top", 3)
    assert (60, 40) in {image.size for image in pictures_in(out / "review.html")}
    inputs = (out / "inputs.json").read_text()
    (out / "inputs.json").write_text(inputs.replace('"means"', '"import:no_such_module:encoder"'))
    result = CliRunner().invoke(app, ["predict", str(out), str(photographs), "--out", str(tmp_path / "p.csv")])
    assert result.exit_code == 2
    assert "is a run of the encoder import:no_such_module:encoder" in result.stderr


@pytest.mark.parametrize("kind", ["paths", "images"])
def test_tables_of_photographs_are_trained_on_and_come_back(
    kind: str, encoder: str, cache: Path, photographs: Path, tmp_path: Path
) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    files = sorted(photographs.rglob("*.png"))
    labels = [path.parent.name for path in files]
    column = [path.relative_to(tmp_path).as_posix() if kind == "paths" else path.read_bytes() for path in files]
    table = pa.table({"taken": list(range(36)), "label": labels, "path" if kind == "paths" else "image": column})
    pq.write_table(table, tmp_path / "mine.parquet")
    out = tmp_path / "run"
    selc("train", tmp_path / "mine.parquet", *QUICK, "--out", out)
    assert RunFolder.open(out).config.encoder.name == "means"
    selc("review", out, "--top", 3)
    assert (60, 40) in {image.size for image in pictures_in(out / "review.html")}
    selc("apply", out, "--out", tmp_path / "cleaned")
    back = pq.read_table(tmp_path / "cleaned" / "mine.parquet")
    assert back.column_names == [*table.column_names, "given_label", "label_source", "label_quality"]
    assert back.select(["taken", "given_label"]).to_pydict() == {"taken": list(range(36)), "given_label": labels}
    selc("predict", out, tmp_path / "mine.parquet", "--out", tmp_path / "p.csv")
    assert len(predictions(tmp_path / "p.csv")) == 36
