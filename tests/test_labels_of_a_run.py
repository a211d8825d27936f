"""Training on labels that another run corrected: SELC improves other methods."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from selc.data import ArrayInputs, Bundle
from selc.errors import InputError
from selc.runs import Config, RunFolder, execute
from selc.runs.cleaned import check_places
from tests.own_data.miniature import write_csv
from tests.test_cli import QUICK, call, refused


@pytest.fixture(scope="module")
def corrected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("first") / "run"
    noise = ["--noise", "symmetric", "--rate", "0.4", "--set", "method.start=1", "--set", "method.alpha=0.3"]
    result = call("train", "moons", *noise, "--out", str(out), *QUICK)
    assert result.exit_code == 0, result.output
    return out


@pytest.mark.parametrize("method", ["elr", "gce"])
@pytest.mark.parametrize("soft", [False, True])
def test_a_method_is_trained_on_what_the_run_corrected(
    corrected: Path, method: str, soft: bool, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    flags = ["--soft"] if soft else []
    result = call("train", "moons", "--labels", str(corrected), *flags, "--method", method, "--out", str(out), *QUICK)
    assert result.exit_code == 0, result.output
    first, second = RunFolder.open(corrected), RunFolder.open(out)
    assert not torch.equal(first.corrected(), first.given)
    assert torch.equal(second.given, first.corrected())
    soft_labels = second.given_targets()
    assert (soft_labels is not None) == soft
    if soft_labels is not None:
        assert torch.equal(soft_labels.full(), first.targets())
    assert first.true is not None
    assert second.summary["right_before"] == pytest.approx(float((first.corrected() == first.true).float().mean()))


def test_soft_labels_are_what_the_losses_are_taken_on(corrected: Path, tmp_path: Path) -> None:
    settings = {
        "data": "moons",
        "labels": {"path": str(corrected), "kind": "soft"},
        "method": {"name": "ce"},
        "net": {"name": "mlp", "hidden": [16]},
        "train": {"epochs": 1, "losses": "sweep"},
    }
    run = execute(Config.resolve(settings), tmp_path / "run")
    from selc._io.files import read_tensors

    probs = read_tensors(run.path / "targets.safetensors")["probs"]
    target = RunFolder.open(corrected).targets()
    torch.testing.assert_close(run.records().losses[0], -(target * probs.log()).sum(1), rtol=1e-3, atol=1e-4)


def test_labels_of_other_data_and_labels_with_noise_are_refused(corrected: Path, tmp_path: Path) -> None:
    sentence = refused("train", "digits", "--labels", str(corrected), "--out", str(tmp_path / "a"))
    assert "the same data" in sentence
    sentence = refused("train", "moons", "--labels", str(corrected), "--noise", "pair", "--out", str(tmp_path / "b"))
    assert "must not come together" in sentence
    assert "config.toml" in refused("train", "moons", "--labels", str(tmp_path), "--out", str(tmp_path / "c"))
    assert not list(tmp_path.iterdir())


def test_cleaned_labels_are_trained_on_without_the_samples_that_were_dropped(corrected: Path, tmp_path: Path) -> None:
    first = RunFolder.open(corrected)
    names = [first.classes[1 - k] for k in first.given.tolist()]  # every label the other way round
    lines = ["sample_id,label,given_label,source"]
    for row, name in enumerate(names):
        given = first.classes[int(first.given[row])]
        lines.append(f"{row},{'' if row < 5 else name},{given},{'dropped' if row < 5 else 'human'}")
    (tmp_path / "cleaned.csv").write_text("\n".join(lines) + "\n")
    out = tmp_path / "run"
    cleaned = str(tmp_path / "cleaned.csv")
    result = call("train", "moons", "--labels", cleaned, "--method", "ce", "--out", str(out), *QUICK)
    assert result.exit_code == 0, result.output
    second = RunFolder.open(out)
    assert torch.equal(second.given[5:], 1 - first.given[5:])
    assert bool(second.records().losses[:, :5].isnan().all()), "dropped samples must not be trained on"
    assert not bool(second.records().losses[:, 5:].isnan().any())
    assert "--soft" in refused("train", "moons", "--labels", cleaned, "--soft", "--out", str(tmp_path / "b"))


# Samples without names: labels fit by their place alone, or not at all

NET = ["--method", "ce", "--epochs", "1", "--set", "net.hidden=[4]"]


class Unnamed(NamedTuple):
    """A run on a table without ids, what `selc apply` made of it, and the lines of the table."""

    table: Path
    run: Path
    cleaned: Path
    head: list[str]
    rows: list[list[object]]

    def changed(self, path: Path, rows: list[list[object]]) -> str:
        return str(write_csv(path, self.head, rows))


@pytest.fixture(scope="module")
def unnamed(tmp_path_factory: pytest.TempPathFactory) -> Unnamed:
    place = tmp_path_factory.mktemp("unnamed")
    rng = np.random.default_rng(0)
    kinds, sizes = rng.integers(0, 3, 90).tolist(), rng.normal(size=90).round(4).tolist()
    rows: list[list[object]] = [[size, "abc"[kind]] for kind, size in zip(kinds, sizes, strict=True)]
    table, run, cleaned = place / "t.csv", place / "run", place / "cleaned.csv"
    write_csv(table, ["size", "label"], rows)
    assert call("train", str(table), "--out", str(run), *NET).exit_code == 0
    assert call("apply", str(run), "--out", str(cleaned)).exit_code == 0
    return Unnamed(table, run, cleaned, ["size", "label"], rows)


def test_labels_fit_the_very_same_table_without_ids(unnamed: Unnamed, tmp_path: Path) -> None:
    for k, source in enumerate((unnamed.run, unnamed.cleaned)):
        result = call("train", str(unnamed.table), "--labels", str(source), "--out", str(tmp_path / str(k)), *NET)
        assert result.exit_code == 0, result.output
        assert torch.equal(RunFolder.open(tmp_path / str(k)).given, RunFolder.open(unnamed.run).corrected())


def test_labels_are_not_put_on_rows_in_another_order(unnamed: Unnamed, tmp_path: Path) -> None:
    other = unnamed.changed(tmp_path / "turned.csv", unnamed.rows[::-1])
    sentence = refused("train", other, "--labels", str(unnamed.run), "--out", str(tmp_path / "a"), *NET)
    assert "known by their place" in sentence
    assert "--id-column" in sentence
    same = sum(a[1] == b[1] for a, b in zip(unnamed.rows, unnamed.rows[::-1], strict=True)) / 90
    sentence = refused("train", other, "--labels", str(unnamed.cleaned), "--out", str(tmp_path / "b"), *NET)
    assert f"in {same:.1%} of the rows only" in sentence
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists()


def test_rows_that_were_left_out_as_bad_do_not_turn_places_into_names(tmp_path: Path) -> None:
    rows: list[list[object]] = [[k / 7, "ab"[k * k % 3 % 2]] for k in range(60)]
    rows[5][1] = ""
    place = write_csv(tmp_path / "t.csv", ["size", "label"], rows)
    assert call("train", str(place), "--skip-bad", "--out", str(tmp_path / "run"), *NET).exit_code == 0
    rows[10], rows[11] = rows[11], rows[10]
    write_csv(place, ["size", "label"], rows)
    flags = ["--skip-bad", "--labels", str(tmp_path / "run"), "--out", str(tmp_path / "b"), *NET]
    assert "known by their place" in refused("train", str(place), *flags)


def test_cleaned_labels_fit_a_table_in_which_some_labels_were_corrected_since(unnamed: Unnamed, tmp_path: Path) -> None:
    rows = [[row[0], "a" if k in (3, 40) else row[1]] for k, row in enumerate(unnamed.rows)]
    other = unnamed.changed(tmp_path / "t.csv", rows)
    out = tmp_path / "run"
    result = call("train", other, "--labels", str(unnamed.cleaned), "--out", str(out), *NET)
    assert result.exit_code == 0, result.output
    assert "very same data" in refused("train", other, "--labels", str(unnamed.run), "--out", str(tmp_path / "b"), *NET)


@pytest.mark.parametrize("shares", [(5, 90, 5), (30, 40, 30), (50, 50, 0)])
def test_sorted_rows_turned_round_are_noticed_though_they_agree_in_the_middle(shares: tuple[int, int, int]) -> None:
    labels = torch.repeat_interleave(torch.arange(3), torch.tensor(shares) * 10)
    bundle = Bundle(ArrayInputs(torch.zeros(len(labels), 1)), labels, ("a", "b", "c"), (1,))
    check_places(labels, bundle, "it")
    with pytest.raises(InputError, match="in their order"):
        check_places(labels.flip(0), bundle, "it")


def test_labels_with_ids_fit_in_any_order_of_a_table_and_of_what_was_cleaned(unnamed: Unnamed, tmp_path: Path) -> None:
    rows = [[f"s{k}", *row] for k, row in enumerate(unnamed.rows)]
    first = write_csv(tmp_path / "a.csv", ["id", *unnamed.head], rows)
    assert call("train", str(first), "--out", str(tmp_path / "run"), *NET).exit_code == 0
    assert call("apply", str(tmp_path / "run"), "--out", str(tmp_path / "cleaned.csv")).exit_code == 0
    turned = write_csv(tmp_path / "b.csv", ["id", *unnamed.head], rows[::-1])
    flags = ["--labels", str(tmp_path / "cleaned.csv"), "--out", str(tmp_path / "second"), *NET]
    result = call("train", str(turned), *flags)
    assert result.exit_code == 0, result.output
    assert torch.equal(RunFolder.open(tmp_path / "second").given.flip(0), RunFolder.open(tmp_path / "run").corrected())
