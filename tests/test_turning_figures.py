"""The figures of the turning point plot the numbers of the run."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import torch

from selc.turning.paper import Metric, separations
from selc.errors import InputError
from selc.report import correction, correction_accuracy, metrics, save, sensitivity
from selc.report.turning import POINTS, metrics_of
from selc.run import Config, RunFolder, execute


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


def test_of_a_long_training_some_epochs_are_drawn_and_always_those_at_the_turning_point() -> None:
    losses = torch.rand(200, 60, generator=torch.Generator().manual_seed(0))
    epochs, found = metrics_of(losses, [7.4, 199.9])
    assert len(epochs) <= POINTS + 2
    assert {0, 7, 199} <= set(epochs)
    assert epochs == sorted(set(epochs))
    assert max(b - a for a, b in pairwise(epochs)) <= 5
    names: tuple[Metric, ...] = ("M1", "M2", "M3")
    for metric in names:
        expected = torch.tensor(separations(losses[epochs[:3]], metric))
        torch.testing.assert_close(found[metric][:3], expected)
    assert metrics_of(losses[:20], most=None)[0] == list(range(20))


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
