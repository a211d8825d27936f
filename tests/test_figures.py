"""The figures show the numbers they claim to show, and say plainly what they cannot show."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image
from sklearn.metrics import confusion_matrix as sklearn_confusion_matrix
from torch import Tensor

from selc.callbacks import Silent
from selc.errors import ConfigError, InputError, RunFolderError
from selc.report import confusion, confusion_matrix, loss_histograms, memorisation, memorisation_curves, save
from selc.report.draw_losses import expected_shares
from selc.report.draw_memory import spread
from selc.report.style import shortened
from selc.runs import Config, RunFolder, execute, fit
from selc.training.record import write_epoch
from selc.turning.mixture import Mixture, fit_mixture, normalise
from selc.types import Pass
from tests.tiers import exhaustive

EPOCHS = 3


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Two moons, a fifth of the labels wrong, a tenth of the rows held out and so never recorded."""
    settings = {
        "data": "moons",
        "noise": {"name": "symmetric", "rate": 0.4},
        "method": {"name": "selc", "start": 2, "alpha": 0.5},
        "train": {"epochs": EPOCHS, "val_fraction": 0.1},
    }
    return execute(Config.resolve(settings), tmp_path_factory.mktemp("figures") / "run")


@pytest.fixture(scope="module")
def blind(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run from arrays: nobody knows the true labels."""
    x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    out = tmp_path_factory.mktemp("figures") / "blind"
    fit(x, (x[:, 0] > 0).long(), out=out, epochs=2)
    return RunFolder.open(out)


def recorded(
    place: Path, given: Tensor, true: Tensor, classes: tuple[str, ...] = ("a", "b", "c"), **chosen: Tensor
) -> RunFolder:
    """A run of one epoch with these labels; ``chosen`` takes the place of what it recorded of its samples."""
    data = place.with_suffix(".npz")
    np.savez(data, x=np.eye(len(given), 2), y=given.numpy(), true=true.numpy(), classes=np.array(classes))
    settings = {"method": {"name": "ce"}, "net": {"hidden": [4]}, "train": {"epochs": 1, "batch_size": 3}}
    run = execute(Config.resolve({"data": {"name": "npz", "path": str(data)}, **settings}), place, [Silent()])
    own = Pass(*(values[0] for values in run.records(0)))
    write_epoch(place / "stage-0" / "records", 0, own._replace(**chosen), len(classes))
    return run


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


# Memorisation


def test_memorisation_curves_of_samples_counted_by_hand() -> None:
    true = torch.tensor([0, 1, 2, 0, 1, 2, 0])
    given = torch.tensor([0, 1, 2, 1, 2, 0, 2])  # three clean, four mislabelled
    predictions = torch.tensor(
        [
            [0, 1, 1, 0, 1, 0, 1],  # clean: 2 of 3 right; mislabelled: true, true, given, neither
            [0, 1, 2, 1, 2, 0, 2],  # all as given
            [2, 2, 1, 2, 0, 1, 1],  # all of it neither
        ]
    ).short()  # as recorded
    curves = memorisation_curves(predictions, given, true)
    assert {name: curve.tolist() for name, curve in curves.items()} == {
        "clean_right": [2 / 3, 1, 0],
        "clean_wrong": [1 / 3, 0, 1],
        "mislabelled_right": [0.5, 0, 0],
        "memorised": [0.25, 1, 0],
        "neither": [0.25, 0, 1],
    }


def test_predictions_that_were_not_recorded_do_not_count() -> None:
    true, given = torch.tensor([0, 0, 0, 0]), torch.tensor([0, 0, 1, 1])
    predictions = torch.tensor([[0, -1, -1, 1], [-1, -1, 0, 1]])
    curves = memorisation_curves(predictions, given, true)
    assert curves["clean_right"][0] == 1
    assert curves["clean_wrong"][0] == 0
    assert curves["clean_right"][1].isnan()  # nothing to count
    assert curves["memorised"].tolist() == [1, 0.5]
    assert curves["neither"].tolist() == [0, 0]


def test_curves_refuse_labels_of_another_length() -> None:
    with pytest.raises(InputError, match=r"got \[1, 3\], \[2\], \[3\]"):
        memorisation_curves(torch.zeros(1, 3), torch.zeros(2), torch.zeros(3))


def test_memorisation_draws_its_curves_for_each_run(run: RunFolder) -> None:
    figure = memorisation({"CE": run, "SELC": run})
    assert len(figure.axes) == 4
    true = run.true
    assert true is not None
    curves = memorisation_curves(run.records(0)[1], run.given, true)
    order = [["clean_right", "clean_wrong"], ["mislabelled_right", "memorised", "neither"]] * 2
    for axes, keys in zip(figure.axes, order, strict=True):
        assert [line.get_xdata() for line in axes.lines] == [pytest.approx(range(1, EPOCHS + 1))] * len(keys)
        for line, key in zip(axes.lines, keys, strict=True):
            np.testing.assert_array_equal(line.get_ydata(), curves[key])
        low, high = axes.get_ylim()
        assert low <= 0 < 1 <= high
    assert [a.get_xlabel() for a in figure.axes] == ["", "", "epoch", "epoch"]
    assert [a.get_ylabel() for a in figure.axes] == ["share of samples", ""] * 2
    seen = (run.records(0)[1] >= 0).any(0)
    wrong = int((seen & (run.given != true)).sum())
    assert figure.axes[3].get_title() == f"SELC: mislabelled samples (n = {wrong:,})"
    assert texts(figure) == ["right", "wrong", "true class", "memorised", "neither"] * 2


def test_lines_differ_by_more_than_colour(run: RunFolder) -> None:
    panels = memorisation({"CE": run}).axes
    assert [len(axes.lines) for axes in panels] == [2, 3]
    for axes in panels:
        assert len({line.get_linestyle() for line in axes.lines}) == len(axes.lines)


def test_memorisation_says_when_a_panel_has_nothing_to_show(tmp_path: Path) -> None:
    labels = torch.tensor([0, 1, 2])
    clean = recorded(tmp_path / "clean", labels, labels)
    assert "no mislabelled samples" in texts(memorisation({"clean": clean}))
    silent = recorded(tmp_path / "silent", labels, labels, predictions=torch.full((3,), -1))
    assert texts(memorisation({"mixed": silent})) == ["no predictions were recorded"] * 2


def test_memorisation_needs_a_run() -> None:
    with pytest.raises(InputError, match="at least one run"):
        memorisation({})


def test_names_at_the_ends_of_lines_keep_their_order_and_distance() -> None:
    assert spread([0.2, 0.9, 0.5], 0.1) == [0.2, 0.9, 0.5]
    assert spread([0.0, 0.0, 1.0], 0.1) == pytest.approx([0.0, 0.1, 1.0])
    assert spread([1.0, 0.99, 0.98], 0.1) == pytest.approx([1.0, 0.9, 0.8])


def test_a_long_name_keeps_both_ends() -> None:
    assert shortened("short", 5) == "short"
    assert shortened("class number 10", 9) == "clas…r 10"


# Confusion


def test_confusion_matrix_equals_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    true, labels = rng.integers(0, 7, 500), rng.integers(0, 7, 500)
    expected = sklearn_confusion_matrix(true, labels, normalize="true", labels=range(8))
    ours = confusion_matrix(torch.from_numpy(true), torch.from_numpy(labels), 8)  # nobody is of class 7
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-15)


def test_confusion_shows_given_and_corrected_labels(run: RunFolder) -> None:
    figure = confusion(run)
    given, corrected, bar = figure.axes
    true = run.true
    assert true is not None
    for axes, labels, name in ((given, run.given, "Given"), (corrected, run.corrected(), "Corrected")):
        expected = sklearn_confusion_matrix(true, labels, normalize="true")
        np.testing.assert_allclose(np.asarray(axes.images[0].get_array()), expected, rtol=0, atol=1e-15)
        assert axes.images[0].get_clim() == (0, 1)
        assert [float(text.get_text()) for text in axes.texts] == pytest.approx(expected.flatten(), abs=0.005)
        assert axes.get_title() == f"{name} labels: {float((labels == true).double().mean()):.1%} right"
        assert axes.get_xlabel() == f"{name.lower()} label"
        assert [label.get_text() for label in axes.get_xticklabels()] == list(run.classes)
    assert given.get_ylabel() == "true class"
    assert bar.get_ylabel() == "share of the true class"


@pytest.mark.parametrize(("count", "numbers", "names"), [(12, True, True), (13, False, True), (31, False, False)])
def test_confusion_writes_only_what_fits(count: int, numbers: bool, names: bool, tmp_path: Path) -> None:
    true = torch.arange(count)
    classes = tuple(f"class ${k}$ with a long name" for k in range(count))
    figure = confusion(recorded(tmp_path / "run", true.roll(1), true, classes))
    axes = figure.axes[0]
    figure.draw_without_rendering()  # a dollar sign is no formula
    assert len(axes.texts) == (count**2 if numbers else 0)
    assert any("class" in label.get_text() for label in axes.get_xticklabels()) == names
    assert axes.get_xlabel() == ("given label" if names else "given label (number)")
    assert axes.get_title() == "Given labels: 0.0% right"


# Losses


def test_expected_shares_are_the_masses_of_the_bins() -> None:
    mixture = Mixture((0.3, 0.7), (0.0, 0.5), (0.0005, 0.1))
    first, second = expected_shares(mixture, torch.tensor([0.0, 0.5, 0.6], dtype=torch.float64), 0.2).tolist()
    assert first == pytest.approx([0.3, 0, 0])  # narrower than the bin: all of it, not its peak
    assert second == pytest.approx([0.7 * 3.167e-5, 0.7 * 0.682689, 0.7 * 0.477250], rel=1e-3)  # from a normal table


def test_loss_histograms_show_the_losses_and_their_mixture(run: RunFolder) -> None:
    figure = loss_histograms(run)
    assert [axes.get_title().split("\n")[0] for axes in figure.axes] == ["Epoch 1", "Epoch 2", "Epoch 3"]
    losses = run.records(0).losses
    true = run.true
    assert true is not None
    for axes, row in zip(figure.axes, losses, strict=True):
        known = ~row.isnan()
        assert 0 < int(known.sum()) < len(row)  # held-out rows have no loss
        x = normalise(row[known])
        clean, wrong = (np.array([bar.get_height() for bar in box]) for box in axes.containers)
        for heights, rows in ((clean, run.given == true), (wrong, run.given != true)):
            counts, _ = np.histogram(x[rows[known]].double(), bins=50, range=(0, 1))
            np.testing.assert_allclose(heights, counts / len(x), rtol=0, atol=1.5 / len(x))  # an edge may round
            assert heights.sum() == pytest.approx(float(rows[known].double().mean()))
        np.testing.assert_allclose([bar.get_y() for bar in axes.containers[1]], clean)  # stacked
        mixture = fit_mixture(x)
        low, high, total = (np.asarray(line.get_ydata()) for line in axes.lines)
        at = torch.as_tensor(np.asarray(axes.lines[0].get_xdata()))
        np.testing.assert_allclose([low, high], expected_shares(mixture, at, 0.02))
        np.testing.assert_allclose(low + high, total)
        assert axes.get_title().endswith(f"M1 = |μ₁ − μ₂| = {mixture.mean[1] - mixture.mean[0]:.2f}")
    assert figure.axes[0].get_ylabel().startswith("share of samples per bin")
    assert "min–max normalised" in figure.get_supxlabel()
    (legend,) = figure.legends
    names = ["clean", "mislabelled", "Gaussian 1 (mean μ₁)", "Gaussian 2 (mean μ₂)", "their sum"]
    assert [text.get_text() for text in legend.get_texts()] == names


def test_loss_histograms_without_true_labels_show_all_samples(blind: RunFolder) -> None:
    figure = loss_histograms(blind, [1])
    (axes,) = figure.axes
    assert axes.get_title().startswith("Epoch 2")
    assert sum(bar.get_height() for bar in axes.patches) == pytest.approx(1)  # type: ignore[attr-defined]
    assert figure.legends[0].get_texts()[0].get_text() == "all samples"


@pytest.mark.parametrize("epochs", [[EPOCHS], [-1], []])
def test_loss_histograms_refuse_epochs_that_were_not_recorded(run: RunFolder, epochs: list[int]) -> None:
    with pytest.raises(InputError, match="0 to 2"):
        loss_histograms(run, epochs)


def test_a_bar_that_towers_over_all_others_is_cut_and_told(tmp_path: Path) -> None:
    losses = torch.cat([torch.zeros(900), torch.linspace(0.021, 1, 100)])
    labels = torch.arange(1000) % 2
    figure = loss_histograms(recorded(tmp_path / "run", labels, labels, losses=losses), [0])
    (axes,) = figure.axes
    assert axes.get_ylim() == (0, 0.05)
    assert axes.get_ylabel() == "share of samples per bin\n(axis cut at 0.05)"
    assert texts(figure) == ["tallest bar: 0.90"]


def test_an_axis_that_is_not_cut_holds_every_bar_and_curve(tmp_path: Path) -> None:
    losses = torch.linspace(0, 1, 1000)
    labels = torch.arange(1000) % 2
    (axes,) = loss_histograms(recorded(tmp_path / "run", labels, labels, losses=losses), [0]).axes
    bottom, top = axes.get_ylim()
    curves = [float(np.max(np.asarray(line.get_ydata()))) for line in axes.lines]
    assert bottom == 0
    assert max(0.02, *curves) <= top <= 1.1 * max(0.021, *curves)
    assert axes.get_ylabel() == "share of samples per bin"


# What all of them share


@pytest.mark.parametrize("draw", [lambda run: memorisation({"CE": run}), confusion])
def test_figures_that_need_true_labels_say_so(draw: object, blind: RunFolder) -> None:
    assert callable(draw)
    with pytest.raises(InputError, match=r"needs the true labels of the run; got .*blind, which holds only the given"):
        draw(blind)


@pytest.mark.parametrize("ending", ["svg", *exhaustive("png", "pdf")])
def test_equal_figures_are_equal_bytes(ending: str, run: RunFolder, tmp_path: Path) -> None:
    first, second = tmp_path / f"first.{ending}", tmp_path / "new" / f"second.{ending.upper()}"
    for path in (first, second):
        save(confusion(run), path)
    assert first.read_bytes() == second.read_bytes()
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == [first.name, second.name]
    if ending == "png":
        with Image.open(first) as image:
            assert image.width == 1400
    elif ending == "svg":
        assert ElementTree.parse(first).getroot().tag.endswith("svg")
    else:
        assert first.read_bytes().startswith(b"%PDF")


def test_save_takes_only_endings_that_it_knows(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must end in .png, .svg or .pdf; got 'figure.jpg'"):
        save(Figure(), tmp_path / "figure.jpg")
    assert not list(tmp_path.iterdir())


def test_a_figure_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "figure.png"
    save(Figure(), path)
    before = path.read_bytes()

    def full(self: Figure, file: Path, **_: object) -> None:
        Path(file).write_bytes(b"half a")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", full)
    with pytest.raises(RunFolderError, match="No space left"):
        save(Figure(), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_without_matplotlib_the_sentence_names_the_extra(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match=r"pip install 'selc\[report\]'"):
        confusion(run)


def test_figures_leave_pyplot_alone(run: RunFolder) -> None:
    before = "matplotlib.pyplot" in sys.modules
    memorisation({"CE": run})
    confusion(run)
    loss_histograms(run)
    assert ("matplotlib.pyplot" in sys.modules) == before
