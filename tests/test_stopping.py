"""Asked to stop, a training finishes what it is writing, says how to go on, and is gone in time."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from selc.cli import stopping
from selc.cli.stopping import stoppable
from selc.runs import RunFolder
from tests.test_cli import call

# No test waits for a time to pass: what is long is longer than any test, what is short is no time at all.
HEAD = """
import os, sys, time
from selc.cli import stopping
stopping.SAME, stopping.GRACE = float(sys.argv[1]), float(sys.argv[2])
def say(word):
    print(word, flush=True)
"""
LONG, NONE = "3600", "-1"

WRITING = """
with stopping.stoppable("Go on with: selc resume RUN"):
    try:
        say("training")
        while True:
            time.sleep(0.01)
    except stopping.AskedToStop as asked:
        say("writing")
        for line in sys.stdin:
            say("still writing")
        say("written")
        sys.exit(asked.code)
"""

# No signal handler of Python runs during the call, and it is the call that says that it has begun.
INSIDE_A_LONG_CALL = """
with stopping.stoppable("Go on with: selc resume RUN"):
    os.system("echo training; exec cat > /dev/null 2>&1")
"""


class Script:
    """A process that is spoken to by signals and lines; it answers by lines."""

    def __init__(self, script: str, same: str, grace: str) -> None:
        command = [sys.executable, "-c", HEAD + script, same, grace]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=pipe)
        self.hears("training")

    def hears(self, word: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == f"{word}\n"

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def goes_on(self) -> None:
        """What it is told to do after the first signal."""
        assert self.process.stdin is not None
        self.process.stdin.write("go on\n")
        self.process.stdin.flush()
        self.hears("still writing")

    def end(self, *, alone: bool) -> tuple[int, str, str]:
        """Its exit code and last words; unless it must end ``alone``, it is told that nothing more is to be written."""
        if alone:
            self.process.wait()
        out, errors = self.process.communicate()
        return self.process.returncode, out, errors


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_what_is_being_written_gets_finished(number: signal.Signals, code: int) -> None:
    script = Script(WRITING, same=LONG, grace=LONG)
    script.signal(number)
    script.hears("writing")
    script.goes_on()
    assert script.end(alone=False) == (code, "written\n", "")


def test_a_second_ctrl_c_stops_at_once() -> None:
    script = Script(WRITING, same=NONE, grace=LONG)
    script.signal(signal.SIGINT)
    script.hears("writing")
    script.signal(signal.SIGINT)
    assert script.end(alone=True) == (130, "", "\nGo on with: selc resume RUN\n")


@pytest.mark.parametrize(("seconds", "ends"), [((0, 0.05, 0.4), 0), ((0, 0.6), 1), ((0, 0.1, 3.0), 1)])
def test_a_ctrl_c_that_a_launcher_passes_on_again_is_not_a_second_one(
    seconds: tuple[float, ...], ends: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments, ended = iter(seconds), []
    monkeypatch.setattr(stopping, "time", SimpleNamespace(monotonic=lambda: 100 + next(moments)))
    monkeypatch.setattr(stopping, "_end", lambda number, last_words: ended.append((number, last_words)))
    ours, theirs = socket.socketpair()
    theirs.send(bytes([signal.SIGINT]) * len(seconds))
    theirs.close()
    stopping._watch(ours, "Go on")
    assert ended == [(signal.SIGINT, "Go on")] * ends


@pytest.mark.parametrize("script", [WRITING, INSIDE_A_LONG_CALL])
def test_sigterm_does_not_wait_for_ever(script: str) -> None:
    process = Script(script, same=LONG, grace="0")
    process.signal(signal.SIGTERM)
    code, _, errors = process.end(alone=True)
    assert (code, errors) == (143, "\nGo on with: selc resume RUN\n")


def test_a_cluster_that_kills_after_ten_seconds_is_not_waited_for() -> None:
    assert 0 < stopping.SAME < stopping.GRACE < 10  # docker stop; Slurm and Kubernetes wait 30


def test_signals_mean_what_they_did_when_it_is_over() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with stoppable(""):
        assert signal.getsignal(signal.SIGTERM) != before[1]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.exhaustive)]
)
def test_an_interrupted_command_says_how_to_go_on_and_resume_does(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    out, fuse, epochs = tmp_path / "run", tmp_path / "fuse", 5
    options = ["--noise", "symmetric", "--rate", "0.4", "--epochs", str(epochs), "--set", "net.hidden=[8]"]
    own = ["--method", "import:tests.interrupting:Interrupting"]
    own += ["--set", f"method.number={int(number)}", "--set", f"method.fuse={fuse}"]
    fuse.touch()
    result = subprocess.run(
        [sys.executable, "-m", "selc", "train", "moons", *options, *own, "--out", str(out)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert result.returncode == code, result.stderr
    assert f"Interrupted; every finished epoch is saved. Go on with: selc resume {out}" in result.stderr
    assert "Traceback" not in result.stderr
    assert not list(out.rglob("*.tmp"))
    saved = RunFolder.open(out).history()
    assert [entry["epoch"] for entry in saved] == list(range(len(saved)))
    assert 0 < len(saved) < epochs
    assert len((out / "metrics.jsonl").read_text().splitlines()) <= len(saved)  # what was told of is saved

    resumed = call("resume", str(out), "--trust")
    assert resumed.exit_code == 0, resumed.output
    whole = tmp_path / "whole"
    assert call("train", "moons", *options, *own, "--out", str(whole)).exit_code == 0
    history = RunFolder.open(out).history()
    assert len(history) == epochs
    assert history[: len(saved)] == saved  # not trained again: even the times are the same
    for name in ("model.safetensors", "targets.safetensors", "corrected_labels.csv"):
        assert (out / name).read_bytes() == (whole / name).read_bytes()


def test_an_interrupted_training_in_python_has_saved_every_epoch(tmp_path: Path) -> None:
    import torch

    import selc
    from selc.callbacks import EpochRecord
    from tests.toy import StopAfter, blobs

    class Interrupt(StopAfter):
        def on_epoch_saved(self, record: EpochRecord) -> None:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt

    x, labels = blobs()
    options = {"method": "selc", "options": {"start": 1}, "epochs": 6, "lr": 0.05, "batch_size": 16, "device": "cpu"}
    whole = selc.fit(x, labels, out=tmp_path / "whole", **options)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        selc.fit(x, labels, out=tmp_path / "run", callbacks=[Interrupt(3)], **options)  # type: ignore[arg-type]
    assert len(RunFolder.open(tmp_path / "run").history()) == 3
    again = selc.fit(x, labels, out=tmp_path / "run", resume=True, **options)  # type: ignore[arg-type]
    assert torch.equal(again.target.full(), whole.target.full())
    assert torch.equal(again.losses, whole.losses)
