"""Temporary files: a living writer's is left alone, a dead one's is removed by whoever comes next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from selc._io.files import locked, sweep, temporary_of, write_text, write_whole
from selc._io.together import NOTE, together, undo
from selc.errors import RunFolderError

WRITER = """
import sys
from pathlib import Path
from selc._io.files import write_whole
def write(path):
    path.write_bytes(b"half")
    print("writing", flush=True)
    sys.stdin.read()  # until it is killed
write_whole(Path(sys.argv[1]), write)
"""


def test_only_the_temporary_file_of_a_dead_process_is_swept_away(tmp_path: Path) -> None:
    path = tmp_path / "below" / "file"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdin=pipe, stdout=pipe) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"writing\n"
        sweep(tmp_path)
        assert temporary_of(path).read_bytes() == b"half"
        writer.send_signal(signal.SIGKILL)
    assert temporary_of(path).exists()
    sweep(tmp_path)
    assert list(path.parent.iterdir()) == []


def test_what_is_no_temporary_file_is_not_swept_away(tmp_path: Path) -> None:
    for name in ("a.tmp", ".a", ".tmp.txt"):
        (tmp_path / name).write_text("mine")
    (tmp_path / ".folder.tmp").mkdir()
    sweep(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"a.tmp", ".a", ".tmp.txt", ".folder.tmp"}


def test_two_writers_of_one_file_take_turns(tmp_path: Path) -> None:
    """Each file is whole: the second waits for the first, whose temporary file has the same name."""
    path, begun, order = tmp_path / "file", threading.Event(), []

    def slow(to: Path) -> None:
        begun.set()
        to.write_text("first ")
        second.start()
        second.join(0.3)  # it cannot end before this one
        order.append("first")
        with open(to, "a") as file:
            file.write("whole")

    def fast(to: Path) -> None:
        order.append("second")
        to.write_text("second whole")

    second = threading.Thread(target=lambda: write_whole(path, fast))
    write_whole(path, slow)
    assert begun.is_set()
    second.join()
    assert order == ["first", "second"]
    assert path.read_text() == "second whole"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_writer_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_text(path, "before")

    def fail(to: Path) -> None:
        to.write_text("half")
        raise OSError(28, os.strerror(28))

    with pytest.raises(RunFolderError, match="No space left on device"):
        write_whole(path, fail)
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_held_file_is_removed_unless_it_was_put_in_place(tmp_path: Path) -> None:
    with locked(tmp_path / ".a.tmp"), locked(tmp_path / ".b.tmp"):
        (tmp_path / ".a.tmp").rename(tmp_path / "a")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_of_what_is_written_together_nothing_is_left_if_one_fails(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("before")

    def both() -> None:
        with together(tmp_path, ["one", "two"]):
            (tmp_path / "one").write_text("1")
            (tmp_path / ".two.tmp").mkdir()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        both()
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


def test_a_note_removes_nothing_but_what_the_command_writes(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for name in ("thesis", "out/mine", "out/one"):
        (tmp_path / name).write_text("three years of work")
    write_text(tmp_path / "out" / NOTE, '["../thesis", "mine", "one"]')
    undo(tmp_path / "out", ["one", "two"])
    assert {p.name for p in tmp_path.rglob("*")} == {"thesis", "out", "mine"}
