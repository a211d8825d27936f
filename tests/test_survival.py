"""A run survives what happens to it: kills, a full disk, files that were cut short or belong to another run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import selc
from selc.errors import RunFolderError
from selc.files import read_json, write_json, write_text
from selc.run import Config, RunFolder, execute, resume
from selc.train import Progress
from tests.toy import BrokenOffError, StopAfter

ROOT = Path(__file__).parents[1]


def small_config() -> Config:
    method = {"name": "selc", "start": 1}
    net = {"name": "mlp", "hidden": [16]}
    return Config.resolve({"data": "moons", "method": method, "net": net, "train": {"epochs": 4}})


def interrupted(out: Path, epochs: int = 2) -> RunFolder:
    with pytest.raises(BrokenOffError):
        execute(small_config(), out, StopAfter(epochs))
    return RunFolder.open(out)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("seed", [0, 1])
def test_killed_at_random_moments_it_resumes_to_the_same_bits(tmp_path: Path, seed: int) -> None:
    script = [sys.executable, str(ROOT / "tests" / "kill_and_resume.py"), str(tmp_path), "4", str(seed)]
    result = subprocess.run(script, capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) >= 4, "too few kills hit a running process to show anything"


def test_the_folder_is_written_before_the_first_batch(tmp_path: Path) -> None:
    class Look(Progress):
        def advance(self, rows: int) -> None:
            found.update(p.name for p in (tmp_path / "run").iterdir())
            raise BrokenOffError

    found: set[str] = set()
    with pytest.raises(BrokenOffError):
        execute(small_config(), tmp_path / "run", Look())
    assert {"config.toml", "environment.json", "noise.npz", "noise.json"} <= found


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


def test_a_folder_that_holds_something_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("three years of work")
    with pytest.raises(RunFolderError, match="new or an empty folder"):
        execute(small_config(), tmp_path)
    assert snapshot(tmp_path) == {"thesis.txt": b"three years of work"}


def test_a_checkpoint_cut_short_is_named(tmp_path: Path) -> None:
    run = interrupted(tmp_path / "run")
    checkpoint = next((run.path / "stage-0").glob("*.safetensors"))
    checkpoint.write_bytes(checkpoint.read_bytes()[:-100])
    with pytest.raises(RunFolderError, match=rf"{checkpoint.name} must be the \d+ bytes that were saved"):
        resume(run.path)


def test_a_checkpoint_with_a_flipped_bit_is_named(tmp_path: Path) -> None:
    run = interrupted(tmp_path / "run")
    checkpoint = next((run.path / "stage-0").glob("*.safetensors"))
    content = bytearray(checkpoint.read_bytes())
    content[-1] ^= 1
    checkpoint.write_bytes(bytes(content))
    with pytest.raises(RunFolderError, match="other content"):
        resume(run.path)


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


@pytest.mark.parametrize("name", ["stage-0/manifest.json", "config.toml", "noise.npz"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str) -> None:
    run = interrupted(tmp_path / "run")
    (run.path / name).write_bytes(b"\xff{nonsense")
    with pytest.raises(selc.SelcError, match=Path(name).name):
        resume(run.path)


FULL_DISK = """
import resource, sys
from pathlib import Path
from selc.errors import RunFolderError
from selc.run import resume
# No file may grow past this size: writing fails in the middle, as on a full disk.
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    resume(sys.argv[1])
except RunFolderError as error:
    print(error)
    sys.exit(2)
"""


def test_a_full_disk_while_saving_gets_a_sentence_and_loses_nothing(tmp_path: Path) -> None:
    run = interrupted(tmp_path / "run")
    before = snapshot(run.path)
    size = next((run.path / "stage-0").glob("*.safetensors")).stat().st_size
    result = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(run.path), str(size // 2)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2, result.stderr
    assert "must be writable" in result.stdout
    assert "intact" in result.stdout
    after = snapshot(run.path)
    assert {name: after[name] for name in before} == before
    assert not [name for name in after if "state" in name and name not in before]
    resume(run.path)
    assert run.finished


def test_nothing_is_lost_when_the_folder_cannot_be_written(tmp_path: Path) -> None:
    run = interrupted(tmp_path / "run")
    before = snapshot(run.path)
    # Root may write anywhere, so a file in the place of a folder stands in for missing permission.
    records = run.path / "stage-0" / "records"
    records.rename(run.path / "stage-0" / "aside")
    records.write_text("in the way")
    with pytest.raises(RunFolderError, match="must be writable"):
        resume(run.path)
    records.unlink()
    (run.path / "stage-0" / "aside").rename(records)
    assert snapshot(run.path) == before
    assert resume(run.path).finished
