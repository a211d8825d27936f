"""Checkpoints: in the background, a file per shard, read by any number of processes, never believed if damaged."""

from __future__ import annotations

import errno
import json
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from selc._io import files
from selc.errors import RunFolderError
from selc.memory.store import Store
from selc.training.checkpoints import checkpoint as module
from selc.training.checkpoints import slips
from selc.training.checkpoints.checkpoint import Checkpoint, drop_older
from selc.training.checkpoints.manifest import write_manifest
from selc.world import World

ROWS, COLUMNS, SHARDS = 37, 3, 4
SHARD = torch.arange(ROWS) * 7 % SHARDS  # not in runs, and not of equal sizes


class Together(World):
    """Processes that are threads, for what `Checkpoint` asks of a world."""

    def __init__(self, rank: int, size: int, meeting: threading.Barrier, table: dict[int, Any]) -> None:
        self.rank, self.size, self.meeting, self.table = rank, size, meeting, table

    def gather(self, rows: Tensor) -> list[Tensor]:
        self.table[self.rank] = rows
        self.meeting.wait()
        result = [self.table[rank] for rank in range(self.size)]
        self.meeting.wait()
        return result

    def broadcast(self, value: Any) -> Any:
        self.table[self.rank] = json.dumps(value)
        self.meeting.wait()
        result = json.loads(self.table[0])
        self.meeting.wait()
        return result


LOCAL = threading.local()


def world() -> World:
    return getattr(LOCAL, "world", World())


def on(size: int, work: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What ``work`` returns in each of so many processes."""
    meeting = threading.Barrier(size)
    table: dict[int, Any] = {}
    results: list[Any] = [None] * size
    monkeypatch.setattr(module, "current", world)

    def run(rank: int) -> None:
        LOCAL.world = Together(rank, size, meeting, table) if size > 1 else World()
        try:
            results[rank] = work()
        except BaseException as error:
            results[rank] = error
            meeting.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    errors = [result for result in results if isinstance(result, BaseException)]
    if errors:  # the others were only left waiting by the first one
        raise min(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError))
    return results


def owned() -> Tensor | None:
    size, rank = world().size, world().rank
    return None if size == 1 else (SHARD % size == rank).nonzero().flatten()


def content(epoch: int) -> Tensor:
    return torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(epoch))


def table(epoch: int) -> Store:
    store = Store(ROWS, COLUMNS, owned=owned())
    store.write(store.held_rows(), content(epoch)[store.held_rows()])
    return store


def save(checkpoint: Checkpoint, epoch: int, **options: Any) -> None:
    tables = {"method/a": table(epoch), "method/b.c": table(epoch + 100)}
    state = {"finished": False, "history": [{"epoch": e} for e in range(epoch)]}
    checkpoint.save(f"state-{epoch:04d}", {"w": torch.full((2,), float(epoch))}, state, tables, SHARD, **options)


def write(folder: Path, epochs: int = 1) -> Callable[[], None]:
    def work() -> None:
        with Checkpoint(folder, "f") as checkpoint:
            checkpoint.open()
            for epoch in range(1, epochs + 1):
                save(checkpoint, epoch)

    return work


def read(folder: Path, epoch: int) -> Callable[[], None]:
    def work() -> None:
        tables = {name: Store(ROWS, COLUMNS, owned=owned()) for name in ("method/a", "method/b.c")}
        saved = Checkpoint(folder, "f").load(tables)
        assert saved is not None
        tensors, state = saved
        assert tensors.keys() == {"w"}
        assert torch.equal(tensors["w"], torch.full((2,), float(epoch)))
        assert len(state["history"]) == epoch
        for store, expected in zip(tables.values(), (content(epoch), content(epoch + 100)), strict=True):
            held = store.held_rows()
            assert torch.equal(store.read(held), expected[held])

    return work


@pytest.mark.parametrize("readers", [1, 2, 4])
@pytest.mark.parametrize("writers", [1, 2, 4])
def test_any_number_of_processes_reads_what_any_other_wrote(
    tmp_path: Path, writers: int, readers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(writers, write(tmp_path, epochs=3), monkeypatch)
    on(readers, read(tmp_path, 3), monkeypatch)


def test_several_processes_write_a_file_per_shard_and_nothing_stays_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(2, write(tmp_path), monkeypatch)
    expected = {"state-0001.safetensors", *(f"state-0001.shard-{k}.safetensors" for k in range(SHARDS))}
    assert {path.name for path in tmp_path.iterdir()} == expected | {"manifest.json"}
    named = json.loads((tmp_path / "manifest.json").read_text())["files"]
    assert named.keys() == expected
    for name, about in named.items():
        assert about == {"bytes": (tmp_path / name).stat().st_size, "sha256": files.sha256(tmp_path / name)}


def test_the_two_newest_are_kept_and_one_when_the_run_is_finished(tmp_path: Path) -> None:
    write(tmp_path, epochs=5)()
    states = {"state-0005.safetensors", "state-0004.safetensors"}
    assert {path.name for path in tmp_path.iterdir()} == states | {"manifest.json", "manifest.before.json"}
    drop_older(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"state-0005.safetensors", "manifest.json"}
    read(tmp_path, 5)()


def test_what_is_saved_is_the_state_at_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    whole = files.write_tensors
    monkeypatch.setattr(module, "write_tensors", lambda *args: (go_on.wait(120), whole(*args))[1])
    store, history = table(1), [{"epoch": 0}]
    with Checkpoint(tmp_path, "f") as checkpoint:
        checkpoint.save("state-0001", {}, {"history": history}, {"t": store})
        store.write(torch.arange(ROWS), torch.zeros(ROWS, COLUMNS))  # the training goes on
        history.append({"epoch": 1})
        assert not (tmp_path / "manifest.json").exists(), "it should not have waited for the disk"
        go_on.set()
    again = Store(ROWS, COLUMNS)
    saved = Checkpoint(tmp_path, "f").load({"t": again})
    assert saved is not None
    assert saved[1]["history"] == [{"epoch": 0}]
    assert torch.equal(again.full(), content(1))


def test_a_table_on_disk_is_written_before_the_training_goes_on(tmp_path: Path) -> None:
    store = Store(ROWS, COLUMNS, form="disk", folder=tmp_path)
    store.write(torch.arange(ROWS), content(1))
    with Checkpoint(tmp_path / "c", "f") as checkpoint:
        checkpoint.save("state-0001", {}, {}, {"t": store})
        assert (tmp_path / "c" / "manifest.json").exists()
    again = Store(ROWS, COLUMNS)
    Checkpoint(tmp_path / "c", "f").load({"t": again})
    assert torch.equal(again.full(), content(1))


@pytest.mark.parametrize("fails", ["write_tensors", "write_manifest"])
def test_a_full_disk_in_the_background_is_said_at_the_next_save(
    tmp_path: Path, fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, *_: Any) -> Any:
        def write(_: Path) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        files.write_whole(path, write)

    checkpoint = Checkpoint(tmp_path, "f")
    save(checkpoint, 1)
    checkpoint.wait()
    monkeypatch.setattr(module, fails, full)
    save(checkpoint, 2)
    with pytest.raises(RunFolderError, match=r"must be writable; got: No space left on device\. What was saved before"):
        save(checkpoint, 3)
    monkeypatch.undo()
    read(tmp_path, 1)()
    save(checkpoint, 2)
    checkpoint.wait()
    read(tmp_path, 2)()


def test_an_error_in_the_background_is_said_at_the_end_at_the_latest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "c").write_text("in the way of the folder")
    with pytest.raises(RunFolderError, match="must be writable"), Checkpoint(tmp_path / "c", "f") as checkpoint:
        save(checkpoint, 1)


def test_files_that_another_process_left_before_a_kill_are_not_taken_for_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave_a_slip() -> None:
        checkpoint = Checkpoint(tmp_path, "f")
        checkpoint.open()
        if not world().leads:
            save(checkpoint, 1, background=False)  # and the leading process was killed before it saw that

    on(2, leave_a_slip, monkeypatch)
    left_there = {path.name: path.read_bytes() for path in tmp_path.glob("*.json")}
    assert left_there
    monkeypatch.setattr(slips, "PATIENCE", 0.3)

    def lead_only() -> None:
        checkpoint = Checkpoint(tmp_path, "f")
        checkpoint.open()
        if world().leads:
            for name, left in left_there.items():
                (tmp_path / name).write_bytes(left)  # a slip that opening had not yet removed
            with pytest.raises(RunFolderError, match=r"shard-1.safetensors did not come .* What was saved before is"):
                save(checkpoint, 1, background=False)

    on(2, lead_only, monkeypatch)
    assert not (tmp_path / "manifest.json").exists()


def test_what_a_kill_left_behind_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on(2, write(tmp_path, epochs=2), monkeypatch)
    before = {path.name for path in tmp_path.iterdir()}
    for name in (".state-0003.safetensors.tmp", "state-0003.safetensors", "state-0003.shard-1.safetensors.json"):
        (tmp_path / name).write_text("left behind")
    on(1, read(tmp_path, 2), monkeypatch)
    assert {path.name for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("file", ["state-0003.safetensors", "state-0003.shard-1.safetensors", "manifest.json"])
@pytest.mark.parametrize("size", [1, 2])
def test_a_damaged_newest_checkpoint_is_told_and_the_one_before_takes_its_place(
    tmp_path: Path, file: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(2, write(tmp_path, epochs=3), monkeypatch)
    (tmp_path / file).write_bytes((tmp_path / file).read_bytes()[:-2])
    told: list[str] = []

    def work() -> None:
        checkpoint = Checkpoint(tmp_path, "f", told.append)
        state = checkpoint.open()
        assert state is not None
        assert len(state["history"]) == 2

    on(size, work, monkeypatch)
    assert len(told) == 1
    assert file in told[0]
    assert "Going on from the checkpoint before it" in told[0]
    on(size, read(tmp_path, 2), monkeypatch)


def test_two_damaged_checkpoints_are_refused_with_the_name_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(2, write(tmp_path, epochs=3), monkeypatch)
    for path in tmp_path.glob("state-*.shard-1.safetensors"):
        path.unlink()
    with pytest.raises(RunFolderError, match=r"state-0003.shard-1.safetensors must be the \d+ bytes .* No such file"):
        on(2, read(tmp_path, 3), monkeypatch)


def test_no_flipped_bit_of_a_manifest_is_believed(tmp_path: Path) -> None:
    write(tmp_path)()
    path = tmp_path / "manifest.json"
    good = path.read_bytes()
    for place in range(len(good)):
        bad = bytearray(good)
        bad[place] ^= 1 << place % 8
        path.write_bytes(bad)
        with suppress(RunFolderError):
            state = Checkpoint(tmp_path, "f").open()
            path.write_bytes(good)
            assert state == Checkpoint(tmp_path, "f").open(), "a space may change, what is said may not"


@pytest.mark.parametrize("text", ["[]", "1", "null", '"x"', "{}", '{"format": 2}', "[" * 10_000, ""])
def test_a_manifest_that_is_none_gets_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(RunFolderError, match=r"manifest.json must"):
        Checkpoint(tmp_path, "f").open()


@pytest.mark.parametrize("name", ["../thesis.safetensors", "/thesis.safetensors", "thesis.txt", "..", ""])
def test_a_manifest_cannot_name_a_file_elsewhere(tmp_path: Path, name: str) -> None:
    about = {"bytes": 1, "sha256": ""}
    value = {"format": 2, "fingerprint": "f", "finished": False, "history": [], "files": {name: about}}
    write_manifest(tmp_path / "manifest.json", value)
    with pytest.raises(RunFolderError, match=r"manifest.json must name files beside it"):
        Checkpoint(tmp_path, "f").open()


def test_the_first_format_is_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"format": 1, "fingerprint": "f", "file": "state-0001.safetensors"}')
    with pytest.raises(RunFolderError, match=r"must have format 2; got 1\. It was written by another version"):
        Checkpoint(tmp_path, "f").open()


@pytest.mark.parametrize("readers", [1, 2])
@pytest.mark.parametrize("writers", [1, 2])
def test_a_table_with_two_names_is_written_once_and_read_by_both(
    tmp_path: Path, writers: int, readers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("target", "probs", "method/store")

    def work() -> None:
        belief, probs = table(1), table(2)
        with Checkpoint(tmp_path, "f") as checkpoint:
            checkpoint.open()
            checkpoint.save("outcome", {}, {}, dict(zip(names, (belief, probs, belief), strict=True)), SHARD)

    def look() -> None:
        tables = {name: Store(ROWS, COLUMNS, owned=owned()) for name in names}
        assert Checkpoint(tmp_path, "f").load(tables) is not None
        for store, epoch in zip(tables.values(), (1, 2, 1), strict=True):
            assert torch.equal(store.read(store.held_rows()), content(epoch)[store.held_rows()])

    on(writers, work, monkeypatch)
    held = [load_file(path) for path in tmp_path.glob("*.safetensors")]
    assert sum(t.numel() for part in held for t in part.values() if t.is_floating_point()) == 2 * ROWS * COLUMNS
    on(readers, look, monkeypatch)


def test_an_outcome_that_holds_the_same_table_twice_is_still_read(tmp_path: Path) -> None:
    """As every outcome of format 2 did before a table with two names was written once."""
    tensors = {"w": torch.ones(2), "rows/target/table": content(1), "rows/method/store/table": content(1)}
    about = files.write_tensors(tmp_path / "outcome.safetensors", tensors)._asdict()
    state = {"format": 2, "fingerprint": "f", "finished": True, "history": [], "files": {"outcome.safetensors": about}}
    write_manifest(tmp_path / "manifest.json", state)
    tables = {name: Store(ROWS, COLUMNS) for name in ("target", "method/store")}
    assert Checkpoint(tmp_path, "f").load(tables) is not None
    assert all(torch.equal(store.full(), content(1)) for store in tables.values())


@pytest.mark.parametrize("same", [1, ["target"], {"target": 1}, {"target": None}])
def test_a_manifest_with_other_things_than_names_of_tables_gets_a_sentence(tmp_path: Path, same: Any) -> None:
    write_manifest(tmp_path / "manifest.json", {"format": 2, "fingerprint": "f", "files": {}, "same": same})
    with pytest.raises(RunFolderError, match=r"manifest.json must name a table for each table that was not written"):
        Checkpoint(tmp_path, "f").open()


def test_a_name_for_a_table_that_nobody_wrote_gets_a_sentence(tmp_path: Path) -> None:
    write_manifest(tmp_path / "manifest.json", {"format": 2, "fingerprint": "f", "files": {}, "same": {"a": "b"}})
    with pytest.raises(RunFolderError, match="37 rows of the table 'a'; got 0"):
        Checkpoint(tmp_path, "f").load({"a": Store(ROWS, COLUMNS)})


def test_tables_of_other_data_get_a_sentence(tmp_path: Path) -> None:
    write(tmp_path)()
    with pytest.raises((RunFolderError, ValueError), match="other data"):
        Checkpoint(tmp_path, "f").load({"method/a": Store(ROWS + 1, COLUMNS)})
    with pytest.raises(RunFolderError, match="37 rows of the table 'method/d'; got 0"):
        Checkpoint(tmp_path, "f").load({"method/d": Store(ROWS, COLUMNS)})
