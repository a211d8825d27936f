"""Columns that say which samples belong together and when each was taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from selc.data.sources.tables import table
from selc.errors import InputError
from selc.methods import judge
from selc.runs import Config, execute
from selc.turning.splits import deal_parts
from tests.own_data.miniature import encoded, picture, write_csv
from tests.test_review import Quiet

HEAD = ["u", "v", "patient", "day", "label"]


def rows(count: int = 60, day: Any = lambda k: f"2024-01-{k % 28 + 1:02d}") -> list[list[str]]:
    x = np.random.default_rng(0).normal(size=(count, 2)).round(4)
    return [[str(x[k, 0]), str(x[k, 1]), f"p{k // 3}", day(k), "ab"[k % 2]] for k in range(count)]


def same(groups: Tensor | None, other: list[Any]) -> bool:
    """Whether two ways to name groups mean the same groups."""
    assert groups is not None
    pairs = set(zip(groups.tolist(), other, strict=True))
    return len(pairs) == len(set(groups.tolist())) == len(set(other))


def test_such_columns_are_read_and_are_no_features(tmp_path: Path) -> None:
    path = str(write_csv(tmp_path / "data.csv", HEAD, rows()))
    bundle = table(path=path, group_column="patient", time_column="day")
    assert bundle.shape == (2,)
    assert same(bundle.groups, [k // 3 for k in range(60)])
    assert bundle.time is not None
    assert torch.equal(bundle.time.argsort(stable=True), torch.tensor([k % 28 for k in range(60)]).argsort(stable=True))


def test_a_row_without_a_group_is_one_of_its_own(tmp_path: Path) -> None:
    body = rows()
    body[4][2] = body[5][2] = ""
    path = str(write_csv(tmp_path / "data.csv", [*HEAD[:3], "label"], [[*row[:3], row[4]] for row in body]))
    assert same(table(path=path, group_column="patient").groups, [-k if k in (4, 5) else k // 3 for k in range(60)])


def test_rows_that_are_skipped_take_their_group_and_time_with_them(tmp_path: Path) -> None:
    body = rows(day=str)
    body[7][4] = ""
    path = str(write_csv(tmp_path / "data.csv", HEAD, body))
    bundle = table(path=path, group_column="patient", time_column="day", skip_bad=True)
    left = [k for k in range(60) if k != 7]
    assert bundle.time is not None
    assert bundle.time.tolist() == left
    assert same(bundle.groups, [k // 3 for k in left])


def test_images_have_such_columns_too(tmp_path: Path) -> None:
    paths = [tmp_path / f"{k}.png" for k in range(40)]
    for k, place in enumerate(paths):
        place.write_bytes(b"no image" if k == 3 else encoded(picture("red", k)))
    body = [[path.name, "ab"[k % 2], str(k // 4), str(100 - k)] for k, path in enumerate(paths)]
    path = str(write_csv(tmp_path / "data.csv", ["path", "label", "plant", "hour"], body))
    how: dict[str, Any] = {"skip_bad": True, "cache": str(tmp_path / "cache")}
    bundle = table(path=path, group_column="plant", time_column="hour", **how)
    left = [k for k in range(40) if k != 3]
    assert bundle.time is not None
    assert bundle.time.tolist() == [100 - k for k in left]
    assert same(bundle.groups, [k // 4 for k in left])


@pytest.mark.parametrize(
    ("cells", "order"),
    [
        (["3", "-1", "2e1"], [1, 0, 2]),
        (["2024-03-31", "2023-12-01", "2024-03-31 17:05"], [1, 0, 2]),
        (["2024-03-31T10:00:00Z", "2024-03-31T09:00:00Z", "2025-01-01T00:00:00Z"], [1, 0, 2]),
    ],
)
def test_times_are_numbers_or_dates(cells: list[str], order: list[int], tmp_path: Path) -> None:
    path = str(write_csv(tmp_path / "data.csv", HEAD, rows(60, lambda k: cells[k % 3])))
    time = table(path=path, time_column="day", group_column="patient").time
    assert time is not None
    assert time[:3].argsort().tolist() == order


@pytest.mark.parametrize(
    ("cell", "said"),
    [("31.03.2024", "'31.03.2024'"), ("", "''"), ("inf", "'inf'"), ("soon", "'soon'")],
)
def test_what_is_no_time_is_named_with_its_line(cell: str, said: str, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "data.csv", HEAD, rows(60, lambda k: cell if k == 4 else str(k)))
    with pytest.raises(InputError, match="time_column must hold a number in every row") as raised:
        table(path=str(path), time_column="day", group_column="patient")
    assert f"got {said} in column 'day' in line 6" in str(raised.value)


def test_a_column_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = str(write_csv(tmp_path / "data.csv", HEAD, rows()))
    with pytest.raises(InputError, match="group_column must be a column of"):
        table(path=path, group_column="person")
    with pytest.raises(InputError, match="time_column must be a column of"):
        table(path=path, time_column="hour")


def test_a_run_deals_its_parts_by_them_and_the_report_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from selc.report.reading import Snapshot
    from selc.report.sentences import turning_point

    path = str(write_csv(tmp_path / "data.csv", HEAD, rows(120)))
    dealt: list[Tensor] = []

    def spy(*given: Any, **named: Any) -> Tensor:
        dealt.append(deal_parts(*given, **named))
        return dealt[-1]

    monkeypatch.setattr(judge, "deal_parts", spy)
    data = {"name": "table", "path": path, "group_column": "patient", "drop": ["day"]}
    settings = {"data": data, "net": {"name": "mlp", "hidden": [8]}, "train": {"epochs": 3}}
    run = execute(Config.resolve(settings), tmp_path / "run", [Quiet()])
    (parts,) = dealt
    assert len(parts.unique()) == 5
    assert (parts.view(-1, 3) == parts.view(-1, 3)[:, :1]).all()  # three rows of a patient
    said = " ".join(turning_point(Snapshot(run.path)))
    assert "split at random, those with the same 'patient' together, into 5 parts" in said
