"""The figures of the turning point plot the numbers of the run."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes

from selc._io.files import write_json
from selc.errors import InputError
from selc.report import correction, correction_accuracy, held_out, metrics, save, sensitivity
from selc.report.draw_turning import POINTS, accuracy_of, metrics_of
from selc.runs import Config, RunFolder, execute
from selc.turning.paper import Metric, separations


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    settings = {
        "data": "moons",
        "noise": {"name": "symmetric", "rate": 0.4},
        "net": {"name": "mlp", "hidden": [16]},
        "train": {"epochs": 8, "lr": 0.1},
    }
    return execute(Config.resolve(settings), tmp_path_factory.mktemp("run") / "auto")


def test_correction_accuracy_is_the_share_of_right_beliefs() -> None:
    beliefs = torch.tensor([[-1, -1, -1, -1], [0, 1, 1, 0], [0, 1, 0, 1]])
    found = correction_accuracy(beliefs, torch.tensor([0, 1, 0, 0]))
    assert found[0].isnan()
    assert found[1:].tolist() == [0.75, 0.75]


def test_metrics_are_those_of_the_timeline_that_led_to_the_result(run: RunFolder) -> None:
    figure = metrics(run)
    losses = run.records().losses
    assert len(losses) == 8
    names: tuple[Metric, ...] = ("M1", "M2", "M3")
    for axes, metric in zip(figure.axes, names, strict=True):
        assert axes.get_title().startswith(metric)
        expected = torch.tensor(separations(losses, metric))
        drawn = torch.as_tensor(axes.lines[0].get_ydata())
        torch.testing.assert_close(drawn.float(), expected / expected.max())
        last = run.summary["accuracy"]["test"]["top1"]
        assert float(torch.as_tensor(axes.lines[1].get_ydata())[-1]) == pytest.approx(last)


@pytest.mark.exhaustive
def test_of_a_long_training_some_epochs_are_drawn_at_even_distances() -> None:
    losses = torch.rand(200, 60, generator=torch.Generator().manual_seed(0))
    epochs, found = metrics_of(losses)
    assert len(epochs) == POINTS
    assert {0, 199} <= set(epochs)
    assert epochs == sorted(set(epochs))
    assert max(b - a for a, b in pairwise(epochs)) <= 5
    names: tuple[Metric, ...] = ("M1", "M2", "M3")
    for metric in names:
        expected = torch.tensor(separations(losses[epochs[:3]], metric))
        torch.testing.assert_close(found[metric][:3], expected)
    assert metrics_of(losses[:20], most=None)[0] == list(range(20))


def test_accuracy_is_that_of_the_training_itself_and_not_of_the_splits(run: RunFolder) -> None:
    own = [entry["test"]["top1"] for entry in run.history() if "aside" not in entry]
    assert len(own) == 8 < len(run.history())
    assert accuracy_of(run) == own
    half = [entry for entry in run.history() if "aside" in entry or entry["epoch"] < 3]

    class Young(RunFolder):
        def history(self) -> list[dict[str, Any]]:
            return half

    assert accuracy_of(Young(run.path)) == own[:3]  # a split had more epochs


# Held-out labels


def data_of(axes: Axes, label: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    [line] = [line for line in axes.lines if line.get_label() == label]
    return np.asarray(line.get_xdata(), dtype=float), np.asarray(line.get_ydata(), dtype=float)


def starts(axes: Axes) -> list[float]:
    """Where upright lines stand."""
    return [float(np.asarray(line.get_xdata())[0]) for line in axes.lines if line.get_label() == "SELC starts"]


def test_the_curve_is_the_share_of_held_out_labels_predicted_around_each_epoch(run: RunFolder) -> None:
    evidence = run.evidence()
    assert evidence is not None
    [axes] = held_out(run).axes
    single = (evidence.predictions == evidence.labels).double().mean(1).numpy()
    around = [single[max(0, k - 1) : k + 2].mean() for k in range(16)]  # two in each of eight epochs
    x, y = data_of(axes, "held-out labels that are predicted")
    assert x.tolist() == [(k + 1) / 2 for k in range(16)]
    assert y == pytest.approx(around, abs=1e-6)
    best = int(np.argmax(around))
    assert [float(v[0]) for v in data_of(axes, "the best")] == pytest.approx([(best + 1) / 2, around[best]], abs=1e-6)
    assert run.summary["decision"]["best"] == (best + 1) / 2


def test_the_band_is_one_standard_error_of_the_difference_to_the_best(run: RunFolder) -> None:
    evidence = run.evidence()
    assert evidence is not None
    [axes] = held_out(run).axes
    best = int(evidence.curve.argmax())
    [band] = axes.collections
    corners = np.asarray(band.get_paths()[0].vertices)
    for look in range(16):
        ends = sorted(set(corners[corners[:, 0] == evidence.clock(look)][:, 1].round(9)))
        assert (ends[-1] - ends[0]) / 2 == pytest.approx(evidence.behind(look, best)[1], abs=1e-6)
        assert (ends[-1] + ends[0]) / 2 == pytest.approx(float(evidence.curve[look]), abs=1e-6)


@pytest.mark.parametrize(("start", "drawn"), [(3.0, [3.0]), (8.0, []), (None, [])])
def test_an_upright_line_stands_where_selc_starts_if_it_does(
    start: float | None, drawn: list[float], run: RunFolder, tmp_path: Path
) -> None:
    place = Path(shutil.copytree(run.path, tmp_path / "run"))
    write_json(place / "decision.json", {**run.summary["decision"], "start": start})
    assert starts(held_out(RunFolder.open(place)).axes[0]) == drawn
    assert starts(held_out(run).axes[0]) == [run.summary["decision"]["start"]]


def test_a_curve_that_was_broken_off_is_not_called_the_end_of_cross_entropy(run: RunFolder, tmp_path: Path) -> None:
    place = Path(shutil.copytree(run.path, tmp_path / "run"))
    config = (place / "config.toml").read_text()
    (place / "config.toml").write_text(config.replace("epochs = 8", "epochs = 9"))
    assert RunFolder.open(place).config.train.epochs == 9
    texts = [[text.get_text() for text in held_out(which).axes[0].texts] for which in (run, RunFolder.open(place))]
    assert texts == [["plain cross\nentropy ends"], ["stopped here"]]


def test_a_run_that_held_nothing_out_has_no_such_figure(tmp_path: Path) -> None:
    settings = {
        "data": "moons",
        "method": {"name": "ce"},
        "net": {"name": "mlp", "hidden": [8]},
        "train": {"epochs": 1},
    }
    with pytest.raises(InputError, match=r"needs samples that were held out to decide by; got .*ce, which has none"):
        held_out(execute(Config.resolve(settings), tmp_path / "ce"))


# Several runs


def test_correction_and_accuracy_have_a_line_for_each_run(run: RunFolder, tmp_path: Path) -> None:
    for figure in (correction({"one": run, "two": run}), sensitivity({"one": run, "two": run})):
        [axes] = figure.axes
        assert [line.get_label() for line in axes.lines] == ["one", "two"]
        assert len(torch.as_tensor(axes.lines[0].get_xdata())) == 8
        save(figure, tmp_path / "figure.png")
    beliefs = run.records().beliefs
    true = run.true
    assert true is not None
    drawn = torch.as_tensor(correction({"one": run}).axes[0].lines[0].get_ydata())
    assert float(drawn[-1]) == pytest.approx(float((beliefs[-1] == true).double().mean()))


def test_no_run_gets_a_sentence() -> None:
    with pytest.raises(InputError, match="at least one run folder"):
        correction({})
    with pytest.raises(InputError, match="at least one run folder"):
        sensitivity({})
