"""`selc predict`: new data are treated as the training data were, whatever form they have."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import typer
from typer.testing import CliRunner

import selc.runs
from selc._io.files import read_json
from selc.callbacks import Callback
from selc.cli.predict import predict as command
from selc.data import ImageInputs
from selc.errors import ConfigError, InputError, RunFolderError
from selc.runs import Config, RunFolder, execute
from selc.runs.job import load
from selc.runs.predict import Predictions, predict, read_inputs
from selc.runs.preprocessing import write_inputs
from tests.own_data.miniature import flower_csv, flowers, folder, write_csv

QUICK: dict[str, Any] = {"epochs": 6, "lr": 0.05, "batch_size": 8, "schedule": "constant"}
NAMES = ["size", "city", "label"]


class Silent(Callback):
    def on_notice(self, text: str) -> bool:
        """What is noticed about the data is not asked here."""
        return True


def run_on(data: dict[str, Any], out: Path, **settings: Any) -> RunFolder:
    chosen = {"data": data, "method": {"name": "ce"}, "net": {"name": "mlp", "hidden": [16]}, "train": QUICK}
    return execute(Config.resolve({**chosen, **settings}), out, [Silent()])


def remembering(run: RunFolder) -> RunFolder:
    """The run after it has written how its data became inputs."""
    write_inputs(run.path, load(run.config).inputs)
    return run


def trained_probs(run: RunFolder) -> np.ndarray[Any, Any]:
    """What the training itself measured on its rows at the end."""
    from selc._io.files import read_tensors

    return read_tensors(run.path / "targets.safetensors")["probs"].numpy()


def towns(count: int = 40) -> list[list[Any]]:
    rng = np.random.default_rng(0)
    return [
        [None if k % 9 == 4 else round(float(rng.normal(50, 20)), 2), ("Oslo", "Rome")[k % 2], ("cold", "warm")[k % 2]]
        for k in range(count)
    ]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A finished run on a table with numbers, categories and gaps. The table itself is gone."""
    place = tmp_path_factory.mktemp("mixed")
    path = write_csv(place / "t.csv", NAMES, towns())
    run = remembering(run_on({"name": "table", "path": str(path)}, place / "run"))
    path.unlink()
    return run


def test_training_rows_get_the_probabilities_that_the_training_measured(mixed: RunFolder, tmp_path: Path) -> None:
    again = write_csv(tmp_path / "again.csv", NAMES, towns())
    made = predict(mixed, again)
    np.testing.assert_allclose(made.probs.numpy(), trained_probs(mixed), atol=1e-5)
    assert made.classes == ("cold", "warm")
    assert list(made.ids) == [str(k) for k in range(40)]


def test_columns_may_stand_in_another_order_without_labels_and_with_levels_never_seen(
    mixed: RunFolder, tmp_path: Path
) -> None:
    rows: list[list[Any]] = [["a", "Oslo", "x", 50], ["b", "Rome", "y", ""], ["c", "Atlantis", "z", 50]]
    made = predict(mixed, write_csv(tmp_path / "new.csv", ["id", "city", "remark", "size"], rows, ";"))
    assert list(made.ids) == ["a", "b", "c"]
    assert made.columns()["predicted_label"].tolist()[:2] == ["cold", "warm"]
    by_hand = predict(mixed, write_csv(tmp_path / "hand.csv", ["id", "city", "size"], [["b", "Rome", median()]]))
    assert by_hand.probs[0, 1] != made.probs[1, 1]  # the flag of the gap is an input, too
    np.testing.assert_allclose(made.probs.sum(1).numpy(), 1)


def median() -> float:
    return float(np.median([row[0] for row in towns() if row[0] is not None]))


def test_what_is_written_has_a_row_per_sample_and_a_column_per_class(mixed: RunFolder, tmp_path: Path) -> None:
    made = predict(mixed, write_csv(tmp_path / "new.csv", NAMES, towns(10)))
    made.write(tmp_path / "p.csv")
    made.write(tmp_path / "p.parquet")
    with open(tmp_path / "p.csv") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["sample_id", "predicted_label", "confidence", "p_cold", "p_warm"]
    assert len(rows) == 10
    for row in rows:
        cold, warm = float(row["p_cold"]), float(row["p_warm"])
        assert cold + warm == pytest.approx(1, abs=2e-6)
        assert row["predicted_label"] == ("cold" if cold > warm else "warm")
        assert float(row["confidence"]) == max(cold, warm)
    columns = pq.read_table(tmp_path / "p.parquet").to_pydict()
    assert columns["p_cold"] == [float(row["p_cold"]) for row in rows]


def test_what_a_run_remembers_is_json_and_arrays(mixed: RunFolder) -> None:
    state = read_json(mixed.path / "inputs.json")
    assert state["kind"] == "table"
    assert state["coding"]["categories"] == [{"name": "city", "levels": ["Oslo", "Rome"], "rare": []}]
    assert state["coding"]["numbers"][0] == {"name": "size", "fill": median(), "flag": True}
    assert state["arrays"] == ["mean", "std"]  # their numbers are in the other file
    filled = np.array([median() if row[0] is None else row[0] for row in towns()])
    np.testing.assert_allclose(read_inputs(mixed)["arrays"]["mean"], [filled.mean(), 0, 0, 0])


def test_a_table_that_does_not_fit_gets_its_sentence(mixed: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must have the columns of the training data; got no 'size'"):
        predict(mixed, write_csv(tmp_path / "a.csv", ["city", "b"], [["Oslo", 1]]))
    with pytest.raises(InputError, match=r"column 'size' must be numeric; got 'big' in line 2 of b\.csv"):
        predict(mixed, write_csv(tmp_path / "b.csv", ["city", "size"], [["Oslo", "big"]]))
    with pytest.raises(InputError, match="id_column must be a column of"):
        predict(mixed, write_csv(tmp_path / "c.csv", ["city", "size"], [["Oslo", 1]]), id_column="who")
    np.savez(tmp_path / "x.npz", x=np.zeros((2, 2)))
    with pytest.raises(InputError, match=r"the data of this run must be a table .*; got .*x.npz"):
        predict(mixed, tmp_path / "x.npz")
    with pytest.raises(InputError, match="data must be a path that exists"):
        predict(mixed, tmp_path / "nothing.csv")


def test_a_run_that_did_not_remember_reads_its_data_again_and_notices_other_ones(tmp_path: Path) -> None:
    path = flower_csv(tmp_path / "data.csv")
    run = run_on({"name": "table", "path": str(path)}, tmp_path / "run")
    (run.path / "inputs.json").unlink(missing_ok=True)
    np.testing.assert_allclose(predict(run, path).probs.numpy(), trained_probs(run), atol=1e-5)
    other = flower_csv(tmp_path / "other.csv")
    path.write_text(path.read_text().replace("rose", "iris", 1))
    with pytest.raises(RunFolderError, match="the data must be the same as when"):
        predict(run, other)
    path.unlink()
    with pytest.raises(RunFolderError, match="does not say how its data became inputs"):
        predict(run, other)


def test_arrays_of_features_are_scaled_as_in_training(tmp_path: Path) -> None:
    x, labels = flowers()
    np.savez(tmp_path / "data.npz", x=x, y=np.array(labels))
    run = remembering(run_on({"name": "npz", "path": str(tmp_path / "data.npz")}, tmp_path / "run"))
    np.savez(tmp_path / "new.npz", x=x[5:9], ids=np.array(["p", "q", "r", "s"]))
    made = predict(run, tmp_path / "new.npz")
    assert list(made.ids) == ["p", "q", "r", "s"]
    np.testing.assert_allclose(made.probs.numpy(), trained_probs(run)[5:9], atol=1e-5)
    np.savez(tmp_path / "bad.npz", x=x[:, :2])
    with pytest.raises(InputError, match=r"x must hold inputs of shape \[4\] as in the training; got \[2\]"):
        predict(run, tmp_path / "bad.npz")
    np.savez(tmp_path / "gap.npz", x=np.where(x > 0, np.nan, x))
    with pytest.raises(InputError, match="every number of x must be there"):
        predict(run, tmp_path / "gap.npz")
    np.savez(tmp_path / "none.npz", y=x)
    with pytest.raises(InputError, match="must hold the array 'x'; got y"):
        predict(run, tmp_path / "none.npz")
    (tmp_path / "torn.npz").write_bytes(b"PK torn")
    with pytest.raises(InputError, match=r"must be an \.npz file"):
        predict(run, tmp_path / "torn.npz")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, Path]:
    place = tmp_path_factory.mktemp("pictures")
    root = folder(place / "photos", each=4)
    data = {"name": "folder", "path": str(root), "cache": str(place / "cache"), "workers": 1}
    return remembering(run_on(data, place / "run", net={"name": "cnn", "width": 4})), root


def test_images_are_brought_to_the_same_size_and_normalised_alike(
    pictures: tuple[RunFolder, Path], tmp_path: Path
) -> None:
    run, root = pictures
    made = predict(run, root)
    names = [f"{name}/{k}.png" for name in ("blue", "green", "red") for k in range(4)]
    assert list(made.ids) == names
    np.testing.assert_allclose(made.probs.numpy(), trained_probs(run), atol=1e-5)
    one = predict(run, root / "red" / "2.png")
    assert list(one.ids) == ["2.png"]
    np.testing.assert_allclose(one.probs.numpy(), trained_probs(run)[[10]], atol=1e-5)
    other = folder(tmp_path / "large", each=1, size=(30, 30))
    assert predict(run, other).probs.shape == (3, 3)


def test_images_come_from_tables_and_arrays_too(pictures: tuple[RunFolder, Path], tmp_path: Path) -> None:
    run, root = pictures
    rows = [[k, f"photos/{name}/{k}.png"] for name in ("green", "red") for k in range(2)]
    made = predict(run, write_csv(root.parent / "list.csv", ["nr", "path"], rows))
    np.testing.assert_allclose(made.probs.numpy(), trained_probs(run)[[4, 5, 8, 9]], atol=1e-5)
    assert made.ids[0] == "photos/green/0.png"
    data = [(root / "blue" / f"{k}.png").read_bytes() for k in range(3)]
    pq.write_table(pa.table({"image": data, "id": ["u", "v", "w"]}), tmp_path / "i.parquet")
    inline = predict(run, tmp_path / "i.parquet")
    assert list(inline.ids) == ["u", "v", "w"]
    pq.write_table(pa.table({"image": data}), tmp_path / "alone.parquet")
    assert torch.equal(predict(run, tmp_path / "alone.parquet").probs, inline.probs)
    np.testing.assert_allclose(inline.probs.numpy(), trained_probs(run)[:3], atol=1e-5)
    bundle = load(run.config)
    assert isinstance(bundle.inputs, ImageInputs)
    pixels = next(iter(bundle.inputs.pixels.stream([torch.arange(12)]))).numpy()
    np.savez(tmp_path / "x.npz", x=pixels.transpose(0, 2, 3, 1))
    np.testing.assert_allclose(predict(run, tmp_path / "x.npz").probs.numpy(), trained_probs(run), atol=1e-5)
    np.savez(tmp_path / "small.npz", x=pixels[:, :, :5, :5])
    with pytest.raises(InputError, match=r"images of bytes \[3, 10, 10\] as in the training; got \[12, 3, 5, 5\]"):
        predict(run, tmp_path / "small.npz")


def test_a_broken_image_is_named_or_left_out(pictures: tuple[RunFolder, Path], tmp_path: Path) -> None:
    run, _ = pictures
    root = folder(tmp_path / "new", each=2)
    (root / "green" / "1.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"green/1.png"):
        predict(run, root)
    made = predict(run, root, skip_bad=True)
    assert "green/1.png" not in made.ids
    assert [name for name, _ in made.skipped] == ["green/1.png"]
    assert len(made.ids) == len(made.probs) == 5
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="must hold images; got none"):
        predict(run, tmp_path / "empty")


def test_a_run_from_arrays_in_python_predicts_arrays(tmp_path: Path) -> None:
    x, labels = flowers()
    scaled = (x - x.mean(0)) / x.std(0)
    selc.runs.fit(scaled, np.array(labels), out=tmp_path / "run", method="ce", net_options={"hidden": [8]}, **QUICK)
    np.savez(tmp_path / "new.npz", x=scaled)
    run = RunFolder.open(tmp_path / "run")
    np.testing.assert_allclose(predict(run, tmp_path / "new.npz").probs.numpy(), trained_probs(run), atol=1e-5)
    own = torch.nn.Linear(4, 3)
    selc.runs.fit(scaled, np.array(labels), out=tmp_path / "own", method="ce", net=own, **QUICK)
    with pytest.raises(RunFolderError, match=r"must be a run with a network and a method by name; got 'torch\.nn"):
        predict(tmp_path / "own", tmp_path / "new.npz")


def test_a_run_that_is_not_finished_says_so(mixed: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.toml").write_bytes((mixed.path / "config.toml").read_bytes())
    with pytest.raises(RunFolderError, match="must be a finished run"):
        predict(tmp_path / "run", "new.csv")


def test_parquet_without_pyarrow_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("selc._io.table_files.as_parquet", lambda columns: None)
    with pytest.raises(ConfigError, match="needs pyarrow"):
        Predictions(["a"], ("x", "y"), torch.tensor([[0.5, 0.5]])).write(tmp_path / "p.parquet")
    assert not (tmp_path / "p.parquet").exists()


# The command


def call(*arguments: str | Path) -> Any:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_command_writes_a_file_and_never_over_another(
    mixed: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "new.csv", NAMES, towns(5))
    result = call(mixed.path, "new.csv")
    assert result.exit_code == 0, result.output
    assert "5 predictions: new-predictions.csv" in result.output
    assert len((tmp_path / "new-predictions.csv").read_text().splitlines()) == 6
    again = call(mixed.path, "new.csv")
    assert again.exit_code == 2
    assert "--out must be a new file" in again.output
    assert call(mixed.path, "new.csv", "--overwrite").exit_code == 0
    assert call(mixed.path, "new.csv", "--out", "p.parquet").exit_code == 0
    assert pq.read_table(tmp_path / "p.parquet").num_rows == 5
    wrong = call(mixed.path, "nothing.csv")
    assert wrong.exit_code == 2
    assert wrong.output.startswith("error: data must be a path that exists")


def test_a_run_remembers_its_inputs_by_itself_and_long_images_are_cut_as_in_training(tmp_path: Path) -> None:
    root = folder(tmp_path / "photos", each=4, size=(10, 20))
    data = {"name": "folder", "path": str(root), "cache": str(tmp_path / "cache"), "workers": 1}
    run = run_on(data, tmp_path / "run", net={"name": "cnn", "width": 4})
    assert read_json(run.path / "inputs.json")["resize"] == "shorter"
    np.testing.assert_allclose(predict(run, root).probs.numpy(), trained_probs(run), atol=1e-5)
