"""Fine-tuning: an encoder and a head in the usual loop, at two rates, from the command to predictions."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from selc.cli import app
from selc.data import ImageInputs
from selc.encoders import ENCODERS, choice_of
from selc.encoders.finetuned import RATE, Seen, finetuned, finetuning
from selc.errors import ConfigError
from selc.nets import NETS
from selc.runs import RunFolder
from selc.runs.job import load
from selc.runs.predict import predict
from selc.training import Plan
from selc.training.plan import groups
from tests.encoders.tiny_vit import write_vit
from tests.own_data.miniature import COLOURS, folder
from tests.parallel.test_torchrun import ENVIRONMENT, launched

QUICK = ("--epochs", "4", "--lr", "0.2", "--batch-size", "9")


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_vit(tmp_path / "vit")


def trained(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["train", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_encoder_is_trained_with_the_head_and_predicts(tiny: Path, photographs: Path, tmp_path: Path) -> None:
    trained(
        photographs,
        "--finetune",
        "--encoder",
        tiny,
        *QUICK,
        "--method",
        "ce",
        "--epochs",
        "20",
        "--set",
        "net.rate=0.2",
        "--out",
        tmp_path / "run",
    )
    run = RunFolder.open(tmp_path / "run")
    assert run.config.net.options["rate"] == 0.2
    after, before = load_file(run.path / "model.safetensors"), load_file(tiny / "model.safetensors")
    mine = {key for key in after if key.startswith("features.net.")}
    assert len(mine) == len(before)
    patch = "embeddings.patch_embeddings.projection.weight"
    moved = [key for key in mine if after[key].shape == before[patch].shape]
    assert len(moved) == 1
    assert not torch.equal(after[moved[0]], before[patch])
    assert (after[moved[0]] - before[patch]).norm() < before[patch].norm()  # and not started anew
    new = predict(run, folder(tmp_path / "new", each=3, size=(40, 60), first=50))
    right = [name for name in COLOURS for _ in range(3)]
    assert sum(new.classes[k] == name for k, name in zip(new.probs.argmax(1).tolist(), right, strict=True)) >= 7


def test_the_network_sees_images_as_the_encoder_does(tiny: Path, photographs: Path, tmp_path: Path) -> None:
    """Its features are those of the registry's encoder on the same pixels, whatever these were normalised by."""
    from selc.runs import Config
    from selc.runs.door import source

    found = source(Config.resolve({"data": {"name": "folder", "path": str(photographs), "size": 16}}))
    section, _ = finetuning(found, choice_of(str(tiny)))
    net = NETS[section.pop("name")](3, found.shape, **section).eval()
    made = ENCODERS["directory"](16, path=str(tiny))
    assert isinstance(found.inputs, ImageInputs)
    rows = torch.arange(5)
    pixels = next(iter(found.inputs.pixels.stream([rows]))).float() / 255
    mean, std = (torch.tensor(each).view(3, 1, 1) for each in made.statistics)
    with torch.no_grad():
        theirs = made.net.eval()((pixels - mean) / std)
        ours = net.get_submodule("features")(next(iter(found.inputs.stream([rows], None))))
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_a_run_that_was_stopped_goes_on_to_the_same_bits(tiny: Path, photographs: Path, tmp_path: Path) -> None:
    from selc.callbacks import EpochRecord
    from selc.runs import execute, resume
    from tests.test_text_runs import Quiet

    class Stop(Quiet):
        def on_epoch_saved(self, record: EpochRecord) -> None:
            if record.done == 2:
                raise KeyboardInterrupt

    command = (photographs, "--finetune", "--encoder", tiny, "--set", "method.start=1", *QUICK)
    trained(*command, "--out", tmp_path / "whole")
    whole = RunFolder.open(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        execute(whole.config, tmp_path / "parts", [Stop()], load(whole.config))
    resume(tmp_path / "parts")
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.exhaustive
@pytest.mark.parametrize("size", [1, 2])
def test_a_run_that_was_killed_goes_on_to_the_same_bits(
    tiny: Path, photographs: Path, tmp_path: Path, size: int
) -> None:
    """Between two batches of its third epoch: one process, or one of two under torchrun, which starts both again."""
    fuse = tmp_path / "fuse"
    command = ["train", str(photographs), "--finetune", "--encoder", str(tiny), *QUICK]
    command += ["--method", "import:tests.parallel.killed:KilledOnce", "--set", f"method.fuse={fuse}"]
    command += ["--set", f"method.manifest={tmp_path / 'run' / 'stage-0' / 'manifest.json'}"]
    fuse.touch()
    ended = processes(tmp_path, size, *command, "--out", "run")
    assert not fuse.exists()
    if size == 1:
        assert ended.returncode == -signal.SIGKILL
        ended = processes(tmp_path, 1, "resume", "run", "--trust")
    assert ended.returncode == 0, ended.stderr
    ended = processes(tmp_path, size, *command, "--out", "whole")
    assert ended.returncode == 0, ended.stderr
    for name in ("model.safetensors", "targets.safetensors"):
        resumed, whole = (load_file(tmp_path / run / name) for run in ("run", "whole"))
        assert resumed.keys() == whole.keys()
        assert all(torch.equal(resumed[key], whole[key]) for key in whole)


def processes(folder: Path, size: int, *command: str) -> subprocess.CompletedProcess[str]:
    if size > 1:
        return launched(folder, *command, restarts=1)
    line = [sys.executable, "-m", "selc", *command]
    return subprocess.run(line, cwd=folder, env=ENVIRONMENT, text=True, capture_output=True, check=False)


def test_in_bf16_the_encoder_computes_in_halves_and_keeps_whole_weights(
    tiny: Path, photographs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU that has it, where nothing needs to be said: here autocast of the CPU."""
    forward, seen = Seen.forward, set[torch.dtype]()

    def noted(self: Seen, x: torch.Tensor) -> torch.Tensor:
        features = forward(self, x)
        seen.add(next(iter(self.net.parameters())).dtype)
        seen.add(torch.mm(features, features.T).dtype)  # what a layer makes of them
        return features

    monkeypatch.setattr(Seen, "forward", noted)
    command = (photographs, "--finetune", "--encoder", tiny, "--set", "method.start=1", *QUICK, "--device", "cpu")
    trained(*command, "--set", "train.precision=bf16", "--out", tmp_path / "halves")
    assert seen == {torch.float32, torch.bfloat16}
    trained(*command, "--out", tmp_path / "whole")
    halves, whole = (RunFolder.open(tmp_path / name) for name in ("halves", "whole"))
    kept = load_file(halves.path / "model.safetensors")
    assert {tensor.dtype for tensor in kept.values()} == {torch.float32}
    one, other = (run.records().losses[0] for run in (halves, whole))
    assert bool(torch.isfinite(halves.records().losses).all())
    assert not torch.equal(one, other)
    # Before the first step the two are one network: eight bits of a number, through two layers and the head.
    assert torch.quantile((one - other).abs(), 0.5) < 2**-4


def test_the_encoder_learns_at_its_own_rate(tiny: Path) -> None:
    """One step of gradient descent: each weight moves by its rate times its gradient."""
    torch.manual_seed(0)
    net = finetuned(3, (3, 16, 16), encoder="directory", path=str(tiny))
    optimizer = Plan(optimizer="SGD", momentum=0.0, weight_decay=0.0, lr=0.5).make_optimizer(net)
    for group in optimizer.param_groups:
        group["lr"] = 0.5 * group["rate_factor"]
    before = {name: value.detach().clone() for name, value in net.named_parameters()}
    torch.nn.functional.cross_entropy(net(torch.randn(4, 3, 16, 16)), torch.tensor([0, 1, 2, 0])).backward()
    optimizer.step()
    for name, value in net.named_parameters():
        rate = 0.5 * (RATE if name.startswith("features.") else 1.0)
        assert value.grad is not None
        torch.testing.assert_close(value.detach(), before[name] - rate * value.grad)


def test_other_networks_have_one_group_with_the_rate_of_the_plan() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 2))
    (group,) = groups(net)
    assert group["rate_factor"] == 1.0
    assert [id(p) for p in group["params"]] == [id(p) for p in net.parameters()]


def test_what_cannot_be_fine_tuned_is_refused(tiny: Path, tmp_path: Path, photographs: Path) -> None:
    def refused(*arguments: object) -> str:
        result = CliRunner().invoke(app, ["train", *map(str, arguments), "--out", str(tmp_path / "x")])
        assert result.exit_code != 0
        return " ".join(result.output.split())

    assert "--finetune needs images" in refused("moons", "--finetune")
    assert "no other network" in refused(photographs, "--finetune", "--net", "cnn")
    assert "--finetune needs a trained encoder" in refused(photographs, "--finetune", "--encoder", "none")
    with pytest.raises(ConfigError, match="rate must be from 0"):
        finetuned(3, (3, 16, 16), encoder="directory", path=str(tiny), rate=2.0)
