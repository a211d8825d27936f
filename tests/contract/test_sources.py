"""What every form of data promises. A form N has a file `tests/sources/test_N.py` with a function `write`."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

import selc
from selc._io.files import read_tensors
from selc.data import DATASETS, Bundle
from selc.data.sources.base import SOURCES, source_of
from selc.data.sources.recognise import choice_for
from selc.errors import InputError
from selc.registry import keyword_options
from selc.report.cells import cells_at
from selc.runs import Config
from selc.runs.job import execute
from selc.runs.predict import predict
from tests.sources.written import Rows, some_rows

FORMS = [name for name in SOURCES if name != "hub" or find_spec("datasets") is not None]
SETTINGS: dict[str, Any] = {"epochs": 2, "batch_size": 10, "lr": 0.01, "device": "cpu"}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELC_CACHE", str(tmp_path / "cache"))


def written(name: str, place: Path, rows: Rows) -> Path:
    place.mkdir(exist_ok=True)
    found: Path = import_module(f"tests.sources.test_{name}").write(place, rows)
    return found


def loaded(path: Path, **options: object) -> Bundle:
    section = choice_for(str(path), **options)
    return DATASETS[section.pop("name")](**section)


def named(bundle: Bundle) -> dict[str, str]:
    """The label of each sample by the last part of its name."""
    assert bundle.ids is not None
    labels = [bundle.classes[label] for label in bundle.labels.tolist()]
    return dict(zip((Path(name).stem for name in bundle.ids), labels, strict=True))


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_known_by_one_source_alone(name: str, tmp_path: Path) -> None:
    path = written(name, tmp_path, some_rows())
    assert source_of(path) is SOURCES[name]
    said = [form for form, found in SOURCES.items() if not found.endings and path.is_dir() and found.use(path)]
    assert name in said or not path.is_dir()
    assert choice_for(str(path))["name"] == SOURCES[name].data


@pytest.mark.parametrize("name", FORMS)
def test_labels_and_ids_are_those_that_were_written(name: str, tmp_path: Path) -> None:
    rows = some_rows()
    assert rows.labels is not None
    found = loaded(written(name, tmp_path, rows))
    assert named(found) == dict(zip(rows.names, rows.labels, strict=True))
    assert found.classes == ("aster", "rose", "tulip")
    x = torch.cat(list(found.inputs.stream([torch.arange(len(found.labels))], None)))
    assert x.shape == (30, *found.shape)
    assert bool(torch.isfinite(x).all())


@pytest.mark.parametrize("name", FORMS)
def test_a_person_gets_to_see_the_items_themselves(name: str, tmp_path: Path) -> None:
    found = loaded(written(name, tmp_path, some_rows()))
    if found.pictures is not None:
        assert [picture.shape for picture in found.pictures([0, 7], 64)] == [(3, 12, 12)] * 2
    elif found.texts is not None:
        assert all(len(set(column)) == 2 for column in found.texts([0, 7]).values())
    else:  # numbers, in the units that they were written in
        seen, rows = cells_at(found, [0, 7]), some_rows()
        torch.testing.assert_close(
            torch.from_numpy(seen.numbers), torch.from_numpy(rows.x[[0, 7]]), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("name", sorted(set(FORMS) - {"folder", "texts"}))  # there the folder is the label
def test_a_sample_without_a_label_is_refused_or_left_out(name: str, tmp_path: Path) -> None:
    rows = some_rows()
    assert rows.labels is not None
    path = written(name, tmp_path, rows._replace(labels=[*rows.labels[:4], "", *rows.labels[5:]]))
    with pytest.raises(InputError, match="must have a label; got 1 of 30 without, first in"):
        loaded(path)
    if "skip_bad" in keyword_options(DATASETS[SOURCES[name].data]):
        found = loaded(path, skip_bad=True)
        assert len(found.labels) == 29
        assert found.skipped[0][0] == "n04"


@pytest.mark.filterwarnings("ignore:column 'text' is free text", "ignore:.* nearly the same")
@pytest.mark.parametrize("name", FORMS)
def test_the_command_and_python_train_to_the_same_bits_and_predict_what_has_no_label(name: str, tmp_path: Path) -> None:
    path = written(name, tmp_path, some_rows())
    data = choice_for(str(path))
    recipe = loaded(path).recipe
    config = Config.resolve({"data": data, "method": {"name": "ce"}, "train": SETTINGS}, recipe)
    run = execute(config, tmp_path / "run")
    selc.fit(path, method="ce", out=tmp_path / "fit", **SETTINGS)
    files = [(tmp_path / folder / "model.safetensors").read_bytes() for folder in ("run", "fit")]
    assert files[0] == files[1]

    unlabelled = written(name, tmp_path / "new", some_rows(labelled=False))
    made = [predict(folder, unlabelled) for folder in (run.path, tmp_path / "fit")]
    assert sorted(Path(sample).stem for sample in made[0].ids) == list(some_rows().names)
    assert torch.equal(made[0].probs, made[1].probs)
    known = {Path(sample).stem: row for row, sample in enumerate(run.ids)}
    probs = read_tensors(run.path / "targets.safetensors")["probs"]
    rows = [known[Path(sample).stem] for sample in made[0].ids]
    torch.testing.assert_close(made[0].probs, probs.double()[rows], rtol=0, atol=1e-4)


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe\x00 neither text nor a table", b"{"])
@pytest.mark.parametrize("name", [name for name in FORMS if SOURCES[name].endings])
def test_a_file_that_holds_none_of_it_is_refused(name: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"odd{SOURCES[name].endings[0]}"
    path.write_bytes(content)
    with pytest.raises(InputError, match="odd"):
        loaded(path)
