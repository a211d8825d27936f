"""A run survives what happens to it: a full disk, files that were cut short or belong to another run.

Kills at every operation are in tests/crashes.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save

import selc
from selc._io.files import read_json, write_json, write_text
from selc.callbacks import Callback
from selc.errors import RunFolderError
from selc.runs import Config, RunFolder, execute, resume
from tests.toy import BrokenOffError, StopAfter


def small_config() -> Config:
    method = {"name": "selc", "start": 1}
    net = {"name": "mlp", "hidden": [16]}
    return Config.resolve({"data": "moons", "method": method, "net": net, "train": {"epochs": 4}})


def interrupted(out: Path, epochs: int = 2) -> RunFolder:
    with pytest.raises(BrokenOffError):
        execute(small_config(), out, [StopAfter(epochs)])
    return RunFolder.open(out)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_folder_is_written_before_the_first_batch(tmp_path: Path) -> None:
    class Look(Callback):
        def on_batch_end(self, rows: int) -> None:
            found.update(p.name for p in (tmp_path / "run").iterdir())
            raise BrokenOffError

    found: set[str] = set()
    with pytest.raises(BrokenOffError):
        execute(small_config(), tmp_path / "run", [Look()])
    assert {"config.toml", "environment.json", "given_labels.npz", "noise.json", "inputs.json"} <= found


def test_metrics_have_a_line_per_epoch_after_each_epoch(tmp_path: Path) -> None:
    run = interrupted(tmp_path / "run", epochs=2)
    lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    # The second epoch was saved, and its line written, before the interruption.
    assert [line["epoch"] for line in lines] == [0, 1]
    assert not run.finished


def test_a_finished_run_is_left_as_it_is(tmp_path: Path) -> None:
    run = execute(small_config(), tmp_path / "run")
    before = snapshot(run.path)
    resume(run.path)
    assert snapshot(run.path) == before


@pytest.mark.parametrize("form", ["dense", "half", "disk", "top-k"])
def test_the_outcome_of_a_stage_holds_a_table_once_and_a_later_start_finds_it(tmp_path: Path, form: str) -> None:
    """What SELC believes is its own table; the network's probabilities are another."""
    method, net = {"name": "selc", "start": 1}, {"name": "mlp", "hidden": [16]}
    plan = {"epochs": 4, "store": form}
    config = Config.resolve({"data": "moons", "method": method, "net": net, "train": plan})
    run = execute(config, tmp_path / "run")
    held = load_file(run.path / "stage-0" / "outcome.safetensors")
    assert len([name for name in held if name.startswith("rows/")]) == 2
    before = run.targets()
    for name in ("summary.json", "targets.safetensors"):
        (run.path / name).unlink()
    assert torch.equal(resume(run.path).targets(), before)


def test_a_folder_that_holds_something_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("three years of work")
    with pytest.raises(RunFolderError, match="new or an empty folder"):
        execute(small_config(), tmp_path)
    assert snapshot(tmp_path) == {"thesis.txt": b"three years of work"}


def cut_short(content: bytes) -> bytes:
    return content[:-100]


def with_a_flipped_bit(content: bytes) -> bytes:
    return content[:-30] + bytes([content[-30] ^ 1]) + content[-29:]


def of_nothing(content: bytes) -> bytes:
    return b""


def foreign(content: bytes) -> bytes:
    """A whole file of its kind, of something else."""
    return save({"w": torch.zeros(3)})


DAMAGES = [cut_short, with_a_flipped_bit, of_nothing, foreign]


@pytest.mark.parametrize("damaged", DAMAGES)
def test_a_damaged_checkpoint_is_named(tmp_path: Path, damaged: Callable[[bytes], bytes]) -> None:
    run = interrupted(tmp_path / "run", epochs=1)
    checkpoint = next((run.path / "stage-0").glob("*.safetensors"))
    checkpoint.write_bytes(damaged(checkpoint.read_bytes()))
    before = snapshot(run.path)
    with pytest.raises(RunFolderError, match=rf"{checkpoint.name} must be the \d+ bytes that were saved; got: .*"):
        resume(run.path)
    assert snapshot(run.path) == before


@pytest.mark.parametrize("damaged", [cut_short, with_a_flipped_bit, of_nothing])
@pytest.mark.parametrize("name", ["state-0003.safetensors", "manifest.json"])
def test_a_damaged_checkpoint_is_told_and_the_one_before_leads_to_the_same_bits(
    tmp_path: Path, name: str, damaged: Callable[[bytes], bytes]
) -> None:
    whole = execute(small_config(), tmp_path / "whole")
    run = interrupted(tmp_path / "run", epochs=3)
    path = run.path / "stage-0" / name
    path.write_bytes(damaged(path.read_bytes()))
    with pytest.warns(UserWarning, match=rf"{name} must be .* Going on from the checkpoint before it"):
        resume(run.path)
    for result in ("model.safetensors", "targets.safetensors", "corrected_labels.csv", "stage-0/records/epochs.bin"):
        assert (run.path / result).read_bytes() == (whole.path / result).read_bytes(), result


@pytest.mark.parametrize("damaged", DAMAGES)
def test_damaged_records_are_named(tmp_path: Path, damaged: Callable[[bytes], bytes]) -> None:
    run = interrupted(tmp_path / "run")
    records = run.path / "stage-0" / "records" / "epochs.bin"
    records.write_bytes(damaged(records.read_bytes()))
    with pytest.raises(RunFolderError, match=r"epochs.bin must hold"):
        run.records()
    with pytest.raises(RunFolderError, match=r"epochs.bin must hold"):
        resume(run.path)


MAPPED = """
import sys
from pathlib import Path
import torch
from selc.training.record import Record
from selc.methods import create
def held():  # MB of memory of our own: what is mapped from files can be dropped by the system at any time
    return int(next(l for l in open("/proc/self/status") if l.startswith("RssAnon")).split()[1]) // 1024
N, folder = 500_000, Path(sys.argv[1])
record = Record(N, 10, torch.device("cpu"), folder / "a")
method = create("ce")
record.end(method, 0, None)
before = held()
for epoch in range(1, 16):
    record.begin()
    record.losses.fill_(epoch)
    record.end(method, epoch, None)
passes = record.read(16)
assert passes.losses.shape == (16, N) and passes.predictions.dtype == torch.int16
assert [float(x) for x in passes.losses[1:].mean(1)] == list(range(1, 16))
later = Record(N, 10, torch.device("cpu"), folder / "b")
later.copy(passes, 10)
assert torch.equal(later.read(10).losses[9], passes.losses[9])
print(held() - before)
"""


@pytest.mark.exhaustive
def test_recorded_losses_are_mapped_and_not_held(tmp_path: Path) -> None:
    """16 epochs of 500,000 samples are 96 MB, and 60 more are copied."""
    command = [sys.executable, "-c", MAPPED, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) < 30, f"{result.stdout.strip()} MB"


def test_a_checkpoint_of_another_configuration_is_refused(tmp_path: Path) -> None:
    run = interrupted(tmp_path / "run")
    config = run.path / "config.toml"
    write_text(config, config.read_text().replace("lr = 0.01", "lr = 0.02"))
    with pytest.raises(RunFolderError, match="must belong to this configuration"):
        resume(run.path)


def test_a_manifest_of_another_format_is_refused(tmp_path: Path) -> None:
    run = interrupted(tmp_path / "run")
    manifest = run.path / "stage-0" / "manifest.json"
    write_json(manifest, read_json(manifest) | {"format": 99})
    with pytest.raises(RunFolderError, match="another version"):
        resume(run.path)


@pytest.mark.parametrize("name", ["config.toml", "given_labels.npz"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str) -> None:
    run = interrupted(tmp_path / "run")
    (run.path / name).write_bytes(b"\xff{nonsense")
    with pytest.raises(selc.SelcError, match=Path(name).name):
        resume(run.path)


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """Writing fails in the middle of a file, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_while_saving_gets_a_sentence_and_loses_nothing(tmp_path: Path) -> None:
    run = interrupted(tmp_path / "run")
    before = snapshot(run.path)
    size = next((run.path / "stage-0").glob("*.safetensors")).stat().st_size
    with no_file_larger_than(size // 2), pytest.raises(RunFolderError, match=r"must be writable.* intact"):
        resume(run.path)
    after = snapshot(run.path)
    assert {name: after[name] for name in before} == before
    assert not [name for name in after if "state" in name and name not in before]
    resume(run.path)
    assert run.finished


@contextmanager
def without_the_rights_of_root() -> Iterator[None]:
    """Root may write anywhere, unless it gives up that right (CAP_DAC_OVERRIDE, number 1), as this thread does here."""
    if os.geteuid() != 0:
        yield
        return
    rights, libc = (ctypes.c_uint32 * 6)(), ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    assert libc.capget(header, rights) == 0
    before = rights[0]
    rights[0] &= ~2
    assert libc.capset(header, rights) == 0
    try:
        yield
    finally:
        rights[0] = before
        assert libc.capset(header, rights) == 0


def test_nothing_is_lost_when_the_folder_cannot_be_written(tmp_path: Path) -> None:
    run = interrupted(tmp_path / "run")
    before = snapshot(run.path)
    everything = [run.path, *run.path.rglob("*")]
    for path in everything:
        path.chmod(0o555)
    said = "must be writable; got: Permission denied. What was saved before is intact"
    with without_the_rights_of_root(), pytest.raises(RunFolderError, match=said):
        resume(run.path)
    for path in everything:
        path.chmod(0o755)
    assert snapshot(run.path) == before
    assert resume(run.path).finished
