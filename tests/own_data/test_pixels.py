"""Many images: decoded once into a cache or on the way, by worker processes, with the same result."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from selc._io.files import locked
from selc.data import progress
from selc.data.image_cache import cache as cache_module
from selc.data.image_cache import decode, pool, worker
from selc.data.image_cache.cache import MappedPixels, cache_folder
from selc.data.image_cache.decode import FilePixels, equal_rows, image_pixels
from selc.data.inputs.images import Pixels
from selc.errors import InputError
from tests.own_data.miniature import encoded, folder, in_order, picture
from tests.tiers import exhaustive

SIZE = (10, 10)


def files_of(root: Path) -> list[Path]:
    return sorted(root.rglob("*.png"))


def everything(pixels: Pixels, batch: int = 5) -> torch.Tensor:
    return torch.cat(list(pixels.stream(list(torch.arange(len(pixels)).split(batch)))))


@pytest.mark.parametrize("workers", [0, 1, *exhaustive(3)])
@pytest.mark.parametrize("cached", [True, False])
def test_pixels_are_those_of_the_files_in_their_order(tmp_path: Path, cache: Path, workers: int, cached: bool) -> None:
    files = files_of(folder(tmp_path / "data"))
    pixels, report = image_pixels(files, SIZE, cache=cache if cached else None, workers=workers)
    assert isinstance(pixels, MappedPixels if cached else FilePixels)
    assert np.array_equal(everything(pixels).numpy(), in_order())
    assert report.kept is None
    assert report.bad == ()
    assert (report.smallest, report.largest) == (SIZE, SIZE)
    rows = torch.tensor([7, 0, 7, 11])
    (some,) = pixels.stream([rows])
    assert some.dtype == torch.uint8
    assert np.array_equal(some.numpy(), in_order()[rows.numpy()])
    moved = pixels.to(torch.device("cpu"))
    assert np.array_equal(everything(moved, 100).numpy(), in_order())


def test_bytes_are_decoded_like_files(cache: Path) -> None:
    items = [encoded(picture(name, k)) for name in ("blue", "green", "red") for k in range(4)]
    for workers in (0, 2):
        for where in (cache, None):
            pixels, _ = image_pixels(items, SIZE, cache=where, workers=workers)
            assert np.array_equal(everything(pixels).numpy(), in_order())


def test_a_second_start_reads_the_cache_and_no_image(tmp_path: Path, cache: Path, monkeypatch: Any) -> None:
    files = files_of(folder(tmp_path / "data"))
    image_pixels(files, SIZE, cache=cache)
    monkeypatch.setattr(decode, "Pool", None)  # nothing can be decoded any more
    pixels, report = image_pixels(files, SIZE, cache=cache)
    assert np.array_equal(everything(pixels).numpy(), in_order())
    assert report.cache is not None
    assert [report.cache] == list(cache.iterdir())


def test_a_changed_file_is_noticed_and_takes_the_place_of_the_old_cache(tmp_path: Path, cache: Path) -> None:
    root = folder(tmp_path / "data")
    files = files_of(root)
    _, before = image_pixels(files, SIZE, cache=cache, source=str(root))
    (root / "blue" / "1.png").write_bytes(encoded(picture("red", 99)))
    pixels, after = image_pixels(files, SIZE, cache=cache, source=str(root))
    assert before.digest != after.digest
    assert np.array_equal(everything(pixels)[1].numpy(), picture("red", 99).transpose(2, 0, 1))
    assert [after.cache] == list(cache.iterdir()), "the old one is removed"


@pytest.mark.parametrize("change", ["touch", "rename", "remove", "add"])
def test_the_digest_follows_every_change_of_a_folder(tmp_path: Path, cache: Path, change: str) -> None:
    root = folder(tmp_path / "data")
    names = [str(f.relative_to(root)) for f in files_of(root)]
    before = decode.files_digest(files_of(root), names)
    assert decode.files_digest(files_of(root), names) == before
    one = root / "red" / "2.png"
    if change == "touch":
        os.utime(one, ns=(0, 1))
    elif change == "rename":
        one.rename(root / "blue" / "9.png")
    elif change == "remove":
        one.unlink()
    else:
        shutil.copy2(one, root / "red" / "8.png")
    assert decode.files_digest(files_of(root), [str(f.relative_to(root)) for f in files_of(root)]) != before


def test_other_sizes_and_ways_to_resize_have_caches_of_their_own(tmp_path: Path, cache: Path) -> None:
    root = folder(tmp_path / "data", size=(10, 14))
    found = {}
    for size, resize in ((8, "stretch"), (8, "shorter"), (6, "stretch")):
        pixels, _ = image_pixels(files_of(root), (size, size), resize=resize, cache=cache, source=str(root))  # type: ignore[arg-type]
        found[size, resize] = everything(pixels)
    assert len(list(cache.iterdir())) == 3
    assert found[6, "stretch"].shape == (12, 3, 6, 6)
    assert not torch.equal(found[8, "stretch"], found[8, "shorter"])


@pytest.mark.parametrize("damage", ["cut", "mark", "other", "empty"])
def test_a_cache_that_is_not_whole_is_made_again(tmp_path: Path, cache: Path, damage: str) -> None:
    files = files_of(folder(tmp_path / "data"))
    _, report = image_pixels(files, SIZE, cache=cache)
    assert report.cache is not None
    content = report.cache.read_bytes()
    broken = {
        "cut": content[: len(content) // 2],
        "mark": content[:-1] + b"?",
        "other": content.replace(report.digest.encode(), b"0" * 64),
        "empty": b"",
    }
    report.cache.write_bytes(broken[damage])
    pixels, _ = image_pixels(files, SIZE, cache=cache)
    assert np.array_equal(everything(pixels).numpy(), in_order())
    assert report.cache.read_bytes() == content


def test_an_interrupt_leaves_nothing_behind_and_the_next_start_works(tmp_path: Path, cache: Path) -> None:
    files = files_of(folder(tmp_path / "data"))

    def stop(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        image_pixels(files, SIZE, cache=cache, workers=2, progress=stop)
    assert list(cache.iterdir()) == []
    pixels, _ = image_pixels(files, SIZE, cache=cache)
    assert np.array_equal(everything(pixels).numpy(), in_order())


def test_what_a_killed_program_left_is_removed_at_once_and_nothing_else(tmp_path: Path, cache: Path) -> None:
    dead, living, foreign = cache / ".0123456789ab-x.tmp", cache / ".ba9876543210-y.tmp", cache / ".thesis.tmp"
    for path in (dead, foreign):
        path.write_bytes(b"1")
    with locked(living):  # as by another program that is at it
        image_pixels(files_of(folder(tmp_path / "data")), SIZE, cache=cache)
        assert living.exists()
    assert not dead.exists()
    assert foreign.exists(), "the folder may be one that somebody chose"


def test_the_cache_stays_as_it_is_whatever_is_done_to_the_pixels(tmp_path: Path, cache: Path) -> None:
    files = files_of(folder(tmp_path / "data"))
    pixels, report = image_pixels(files, SIZE, cache=cache)
    assert isinstance(pixels, MappedPixels)
    assert report.cache is not None
    content = report.cache.read_bytes()
    pixels.images.zero_()
    everything(pixels).zero_()
    assert report.cache.read_bytes() == content


def test_more_than_the_limit_is_decoded_on_the_way_after_one_check(tmp_path: Path, cache: Path) -> None:
    files = files_of(folder(tmp_path / "data"))
    pixels, report = image_pixels(files, SIZE, cache=cache, limit=12 * 300 - 1)
    assert isinstance(pixels, FilePixels)
    assert report.cache is None
    assert "decoded anew in each epoch" in report.notes[0]
    assert np.array_equal(everything(pixels).numpy(), in_order())
    (found,) = cache.iterdir()
    assert found.stat().st_size < 1000, "only what was found is kept"
    whole, _ = image_pixels(files, SIZE, cache=cache, limit=12 * 300)
    assert isinstance(whole, MappedPixels)


def test_a_full_disk_or_a_folder_that_cannot_be_written_is_no_obstacle(
    tmp_path: Path, cache: Path, monkeypatch: Any
) -> None:
    files = files_of(folder(tmp_path / "data"))
    (tmp_path / "file").touch()
    pixels, report = image_pixels(files, SIZE, cache=tmp_path / "file" / "cache")
    assert isinstance(pixels, FilePixels)
    assert "cannot be written" in report.notes[0]
    monkeypatch.setattr(cache_module.Place, "has_room", lambda self, count: False)
    pixels, report = image_pixels(files, SIZE, cache=cache)
    assert isinstance(pixels, FilePixels)
    assert "has no room" in report.notes[0]
    assert np.array_equal(everything(pixels).numpy(), in_order())


def test_a_disk_that_fills_up_on_the_way_gets_a_sentence(tmp_path: Path, cache: Path, monkeypatch: Any) -> None:
    def full(self: Any, path: str) -> dict[str, Any]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(decode._Run, "write", full)
    with pytest.raises(InputError, match=r"must take 0.00 GB of decoded images; got: No space left .* SELC_CACHE"):
        image_pixels(files_of(folder(tmp_path / "data")), SIZE, cache=cache)
    assert list(cache.iterdir()) == []


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path) -> None:
    assert cache_folder() == cache
    assert cache_folder("off") is None
    assert cache_folder(str(tmp_path)) == tmp_path
    monkeypatch.delenv("SELC_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/selc")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder() == Path("/home/me/.cache/selc")


# Bad images


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("limit", [10**9, 0])
def test_bad_images_are_named_or_left_out(tmp_path: Path, cache: Path, workers: int, limit: int) -> None:
    root = folder(tmp_path / "data")
    (root / "green" / "0.png").write_bytes(b"")
    (root / "red" / "3.png").write_bytes(b"nothing")
    files = files_of(root)
    names = [str(f.relative_to(root)) for f in files]
    settings: dict[str, Any] = {"cache": cache, "workers": workers, "names": names, "limit": limit}
    for _ in range(2):  # the second time from what was found before
        with pytest.raises(InputError) as error:
            image_pixels(files, SIZE, **settings)
        assert "got 2 of 12 that are not: green/0.png (the file is empty), red/3.png (it is no image" in str(
            error.value
        )
        assert "skip_bad=True" in str(error.value)
    pixels, report = image_pixels(files, SIZE, skip_bad=True, **settings)
    kept = [row for row in range(12) if row not in (4, 11)]
    assert report.kept is not None
    assert report.kept.tolist() == kept
    assert [row for row, _ in report.bad] == [4, 11]
    assert np.array_equal(everything(pixels).numpy(), in_order()[kept])


def test_many_bad_images_are_counted() -> None:
    with pytest.raises(InputError, match=r"got 30 of 31 .*image 9 \(the file is empty\) and 20 more"):
        image_pixels([b""] * 30 + [encoded(picture("red", 0))], SIZE, cache=None)


def test_nothing_but_bad_images_is_an_error_in_any_case(cache: Path) -> None:
    with pytest.raises(InputError, match="got 2 of 2 that are not"):
        image_pixels([b"", b"no"], SIZE, cache=cache, skip_bad=True)
    with pytest.raises(InputError, match="there must be at least one image"):
        image_pixels([], SIZE, cache=cache)


def test_a_file_that_breaks_during_the_training_is_named(tmp_path: Path) -> None:
    root = folder(tmp_path / "data")
    pixels, _ = image_pixels(files_of(root), SIZE, cache=None, names=[f.name for f in files_of(root)])
    (root / "blue" / "2.png").unlink()
    with pytest.raises(InputError, match=r"2.png \(there is no such file; it has changed since the start\)"):
        everything(pixels)


def test_names_that_no_text_can_hold_are_spelled_out(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "new\nline.png").write_bytes(encoded(picture("red", 0)))
    strange = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.png")
    Path(strange).write_bytes(encoded(picture("blue", 0)))
    files = [tmp_path / "new\nline.png", Path(strange)]
    for workers in (0, 2):
        for where in (cache, None):
            pixels, _ = image_pixels(files, SIZE, cache=where, workers=workers)
            expected = np.stack([picture("red", 0), picture("blue", 0)]).transpose(0, 3, 1, 2)
            assert np.array_equal(everything(pixels).numpy(), expected)
    Path(strange).write_bytes(b"")
    with pytest.raises(InputError, match=r"caf\\xe9.png \(the file is empty\)"):
        image_pixels(files, SIZE, cache=cache)


# Worker processes


def test_progress_goes_from_nothing_to_all(tmp_path: Path, cache: Path) -> None:
    files = files_of(folder(tmp_path / "data", each=20))
    seen: list[tuple[int, int]] = []
    image_pixels(files, SIZE, cache=cache, workers=2, progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, 60)
    assert seen[-1] == (60, 60)
    assert len(seen) > 3
    assert seen == sorted(seen)


def test_whoever_listens_hears_of_it(tmp_path: Path, cache: Path) -> None:
    seen: list[int] = []
    with progress.reporting(lambda done, total: seen.append(done)):
        image_pixels(files_of(folder(tmp_path / "data")), SIZE, cache=cache)
    assert seen[-1] == 12
    assert progress.report is None


def test_a_worker_that_dies_is_reported_and_replaced(tmp_path: Path) -> None:
    task = pool.Task([tmp_path / "one.png"], SIZE, "stretch")
    (tmp_path / "one.png").write_bytes(encoded(picture("red", 0)))
    with pool.Pool(1) as workers:
        workers.submit(task).result()
        workers._started[0].kill()
        with pytest.raises(InputError, match=r"ended with code -9 at .*one.png .* use fewer workers"):
            workers.submit(task).result()
        found, pixels = workers.submit(task).result()
        assert found.bad == []
        assert pixels is not None
        assert np.array_equal(pixels[0], picture("red", 0))


def test_a_place_that_cannot_be_written_is_reported_by_the_worker(tmp_path: Path) -> None:
    task = pool.Task([encoded(picture("red", 0))], SIZE, "stretch", "file", str(tmp_path / "not" / "there"))
    with pool.Pool(1) as workers, pytest.raises(InputError, match=r"got: .*No such file or directory"):
        workers.submit(task).result()


def test_workers_end_with_their_pool(tmp_path: Path) -> None:
    pixels, _ = image_pixels(files_of(folder(tmp_path / "data")), SIZE, cache=None, workers=2)
    assert isinstance(pixels, FilePixels)
    stream = pixels.stream(list(torch.arange(12).split(1)))
    next(stream)  # leave the others under way
    processes = pixels.pool._started
    assert processes
    stream.close()  # type: ignore[attr-defined]
    del pixels, stream
    for process in processes:
        assert process.wait(120) is not None


def test_few_images_need_no_process_and_many_use_the_processors() -> None:
    assert pool.worker_count(0, 100) == 0
    assert 1 <= pool.worker_count(0, 1_000) <= pool.MOST
    assert pool.worker_count(3, 100) == 3


SCRIPT = """
import sys
from pathlib import Path
from selc.data.image_cache.decode import image_pixels
print("started")
pixels, _ = image_pixels(sorted(Path(sys.argv[1]).rglob("*.png")), (10, 10), cache=None, workers=2)
print(len(pixels))
"""


@pytest.mark.exhaustive
def test_a_script_needs_no_main_guard(tmp_path: Path) -> None:
    """Processes of `multiprocessing` would run the script again, or end in an error."""
    folder(tmp_path / "data")
    (tmp_path / "mine.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "mine.py"), str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "started\n12\n"


def test_the_program_of_a_worker_imports_neither_torch_nor_selc() -> None:
    code = "import sys, runpy; runpy.run_path(sys.argv[1]); print({'torch', 'selc'} & set(sys.modules))"
    command = [sys.executable, "-c", code, str(worker.__file__)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "set()\n"


# Mean and standard deviation


def test_mean_and_deviation_are_those_of_numpy(tmp_path: Path, cache: Path) -> None:
    pixels, _ = image_pixels(files_of(folder(tmp_path / "data")), SIZE, cache=cache)
    mean, std = decode.mean_and_std(pixels)
    values = in_order().transpose(1, 0, 2, 3).reshape(3, -1) / 255
    assert mean == pytest.approx(values.mean(1))
    assert std == pytest.approx(values.std(1))


def test_a_picture_of_one_colour_is_not_blown_up(cache: Path) -> None:
    pixels, _ = image_pixels([encoded(np.full((4, 4, 3), 200, dtype=np.uint8))] * 2, (4, 4), cache=cache)
    mean, std = decode.mean_and_std(pixels)
    assert mean == pytest.approx([200 / 255] * 3)
    assert std == pytest.approx([1 / 255] * 3)


def test_rows_of_the_same_mark_are_found_whatever_their_order() -> None:
    marks = np.array([5, 9, 5, 1, 9, 9, 0, 2**62], dtype=np.int64)
    assert equal_rows(marks) == [[0, 2], [1, 4, 5]]
    assert equal_rows(np.arange(6)) == []
    assert equal_rows(np.array([3])) == []
