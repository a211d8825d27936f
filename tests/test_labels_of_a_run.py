"""Training on labels that another run corrected: SELC improves other methods."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from selc.run import Config, RunFolder, execute
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
    from selc.files import read_tensors

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
