"""Pickles and tar files from the web: what is in the official ones is read, and nothing else happens."""

from __future__ import annotations

import io
import os
import pickle
import struct
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from selc.data import archives
from selc.data.archives import read_members, read_pickle, read_torch
from selc.errors import InputError
from tests.data.miniatures import array2, batch2, meta2, number2, text2

quick = settings(max_examples=60, deadline=None, derandomize=True)
scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=20)
plain = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner), max_leaves=12)


@quick
@given(value=st.dictionaries(st.text(max_size=8), plain, max_size=5), protocol=st.integers(0, 5))
def test_plain_values_come_back_as_python_wrote_them(value: dict[str, Any], protocol: int) -> None:
    assert read_pickle(pickle.dumps(value, protocol), "it") == value


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("kind", ["u1", "i1", "<i2", ">i4", "i8", "f4", "<f8", "?"])
@pytest.mark.parametrize("columns", [False, True])
def test_arrays_come_back_as_numpy_wrote_them(protocol: int, kind: str, columns: bool) -> None:
    array = np.asarray(np.arange(24).reshape(2, 3, 4) % 5, dtype=kind, order="F" if columns else "C")
    back = read_pickle(pickle.dumps({"a": array, b"b": [1]}, protocol), "it")
    assert back["b"] == [1]
    assert back["a"].dtype == array.dtype
    np.testing.assert_array_equal(back["a"], array)


def test_pickles_of_python_2_are_read_as_python_itself_reads_them() -> None:
    data = np.random.default_rng(0).integers(0, 256, (7, 3072), dtype=np.uint8)
    written = batch2(data, [3, 1, 4, 1, 5, 9, 2], "labels")
    theirs = pickle.loads(written, encoding="bytes")  # noqa: S301 - our own bytes
    ours = read_pickle(written, "it")
    assert ours["labels"] == theirs[b"labels"] == [3, 1, 4, 1, 5, 9, 2]
    assert ours["filenames"] == [name.decode() for name in theirs[b"filenames"]]
    np.testing.assert_array_equal(ours["data"], theirs[b"data"])
    np.testing.assert_array_equal(ours["data"], data)
    assert read_pickle(meta2("label_names", ["cat", "dog"]), "it")["label_names"] == ["cat", "dog"]


@pytest.mark.parametrize("old", [False, True])
def test_what_torch_saved_comes_back_in_its_new_and_its_old_form(tmp_path: Path, old: bool) -> None:
    value = {"clean_label": np.arange(50), "worse_label": np.arange(50)[::-1].copy(), "note": "text"}
    torch.save(value, tmp_path / "file.pt", _use_new_zipfile_serialization=not old)
    back = read_torch(tmp_path / "file.pt")
    assert back["note"] == "text"
    for key in ("clean_label", "worse_label"):
        np.testing.assert_array_equal(back[key], value[key])


# What must not happen


class Calls:
    """Pickled, it is a call of a function."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.made = (function, arguments)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.made


class Slots:
    """Pickled, it is a call of a class with a state."""

    def __init__(self) -> None:
        self.x = 1


def hostile(mark: Path) -> dict[str, bytes]:
    """Programs that would leave the file ``mark`` behind, or reach for something that could."""
    shell = f"touch {mark}".encode()
    code = f"open({str(mark)!r}, 'w').close()".encode()
    calls = {
        "os.system": Calls(os.system, shell.decode()),
        "eval": Calls(eval, code.decode()),
        "exec": Calls(exec, code.decode()),
        "open": Calls(open, str(mark), "w"),
        "numpy.load": Calls(np.load, str(mark)),
        "numpy.memmap": Calls(np.memmap, str(mark), "u1", "w+", 0, (4,)),
    }
    written = {
        f"{name} ({protocol})": pickle.dumps({"data": call}, protocol)
        for name, call in calls.items()
        for protocol in (0, 2, 4)
    }
    lines = {
        "posix.system by GLOBAL": b"cposix\nsystem\n(S'" + shell + b"'\ntR.",
        "nt.system by INST": b"(S'" + shell + b"'\nios\nsystem\n.",
        "os.system by OBJ": b"(cos\nsystem\nS'" + shell + b"'\no.",
        "by STACK_GLOBAL": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c" + bytes([len(shell)]) + shell + b"\x85R.",
        "getattr chain": b"c__builtin__\ngetattr\n(c__builtin__\n__import__\n(S'os'\ntRS'system'\ntR(S'"
        + shell
        + b"'\ntR.",
        "a name with dots": b"\x80\x04\x8c\x05numpy\x8c\x13core.os.system.call\x93.",
        "ndarray called": b"cnumpy\nndarray\n(K\x04tR.",
        "dtype of objects": b"}(" + text2("data") + b"cnumpy\ndtype\n" + text2("O8") + b"K\x00K\x01\x87Ru.",
        "another numpy name": b"cnumpy\nfromfile\n(S'" + str(mark).encode() + b"'\ntR.",
        "numpy.core reconstruct of a class": b"cnumpy.core.multiarray\n_reconstruct\n(cos\nsystem\n(K\x00tS'b'\ntR.",
        "a state for a list": b"](K\x01tb.",
        "another coding": b"c_codecs\nencode\n(X\x01\x00\x00\x00aX\x05\x00\x00\x00rot13tR.",
        "an extension": b"\x80\x02\x82\x01.",
        "a persistent id": b"P1\n.",
        "new object": b"\x80\x02ccollections\nOrderedDict\n)\x81.",
        "an instance": pickle.dumps({"x": Slots()}, 2),
    }
    return written | lines


@pytest.mark.parametrize("name", hostile(Path("mark")))
def test_a_pickle_that_would_run_something_is_refused_and_runs_nothing(name: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with pytest.raises(InputError, match="Nothing of it was run"):
        read_pickle(hostile(mark)[name], "data_batch_1")
    assert not mark.exists()


def test_the_same_programs_do_run_in_pythons_own_reader(tmp_path: Path) -> None:
    """So the test above is about something."""
    mark = tmp_path / "mark"
    pickle.loads(hostile(mark)["posix.system by GLOBAL"])  # noqa: S301 - that is the point
    assert mark.exists()


def bombs() -> dict[str, bytes]:
    """Small files that would fill the memory, or take for ever."""
    shell = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    dtype = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"
    huge = b"\x8a\x06" + struct.pack("<q", 10**12)[:6]
    word = b"X" + struct.pack("<i", 100_000) + b"a" * 100_000
    again = b"c_codecs\nencode\n(h\x01X\x06\x00\x00\x00latin1tR"
    laughs = b"".join(b"h" + bytes([k]) + b"h" + bytes([k]) + b"\x86q" + bytes([k + 1]) for k in range(60))
    return {
        "an array larger than its bytes": shell + b"(K\x01" + huge + b"\x85" + dtype + b"\x89U\x01xtb.",
        "an array of nothing at all, many times": shell
        + b"(K\x01(K\x00"
        + huge
        + huge
        + b"t"
        + dtype
        + b"\x89U\x01xtb.",
        "a huge place in memory": b"}r\xff\xff\xff\x7fr\xff\xff\xff\x7e(",
        "a long array of bytes": b"\x80\x05\x96" + struct.pack("<q", 10**14) + b".",
        "a long text": b"X\xff\xff\xff\x7fab.",
        "the same bytes a thousand times": b"\x80\x02" + word + b"q\x01" + again * 1000 + b"}.",
        "a key that takes for ever": b"\x80\x02K\x01q\x00" + laughs + b"}h\x3cK\x01s.",
    }


@pytest.mark.parametrize("name", bombs())
def test_a_bomb_is_refused_without_the_memory_it_asks_for(name: str) -> None:
    written = bombs()[name]
    tracemalloc.start()
    try:
        with pytest.raises(InputError):
            read_pickle(written, "it")
        assert tracemalloc.get_traced_memory()[1] < 20 * len(written) + 2_000_000
    finally:
        tracemalloc.stop()


@settings(max_examples=300, deadline=None, derandomize=True)
@given(noise=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=6), cut=st.integers(0, 500))
def test_a_damaged_pickle_is_an_error_in_one_sentence_or_a_dictionary(noise: list[tuple[int, int]], cut: int) -> None:
    damaged = bytearray(batch2(np.zeros((2, 9), np.uint8), [1, 2], "labels")[: 500 - cut])
    for place, value in noise:
        if place < len(damaged):
            damaged[place] = value
    try:
        assert isinstance(read_pickle(bytes(damaged), "it"), dict)
    except InputError as error:
        assert "it must" in str(error) or "must have contents" in str(error)  # noqa: PT017


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"no pickle", b"\x80\x02K\x01.", b"PK\x05\x06" + bytes(18)])
def test_a_file_that_torch_did_not_save_is_an_error(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file.pt").write_bytes(content)
    with pytest.raises(InputError):
        read_torch(tmp_path / "file.pt")


def test_an_array_that_never_got_its_contents_is_an_error() -> None:
    empty = array2(np.zeros(3, np.uint8)).split(b"(K\x01")[0]
    with pytest.raises(InputError, match="must have contents"):
        read_pickle(b"}" + text2("data") + empty + b"s.", "it")
    with pytest.raises(InputError, match="must hold a dictionary"):
        read_pickle(number2(3) + b".", "it")


# Tar files


def tar_of(path: Path, *members: tuple[str, bytes, dict[str, Any]]) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for name, content, extra in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for key, value in extra.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(content))


def test_members_are_read_from_the_archive_or_from_its_folder_and_nothing_is_unpacked(tmp_path: Path) -> None:
    tar_of(
        tmp_path / "a.tar.gz", ("in/x", b"one", {}), ("in/y", b"two", {}), ("../evil", b"bad", {}), ("/abs", b"", {})
    )
    before = sorted(tmp_path.rglob("*"))
    assert read_members(tmp_path, "in", "a.tar.gz", ["y", "x"]) == {"x": b"one", "y": b"two"}
    assert sorted(tmp_path.rglob("*")) == before
    assert not (tmp_path.parent / "evil").exists()
    assert read_members(tmp_path, "in", "b.tar.gz", ["x"]) is None
    (tmp_path / "in").mkdir()
    (tmp_path / "in/x").write_bytes(b"unpacked")
    assert read_members(tmp_path, "in", "a.tar.gz", ["x"]) == {"x": b"unpacked"}
    with pytest.raises(InputError, match="in/y must be there"):
        read_members(tmp_path, "in", "a.tar.gz", ["x", "y"])


def test_a_link_in_an_archive_is_no_member(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    link = {"type": tarfile.SYMTYPE, "linkname": str(tmp_path / "secret")}
    tar_of(tmp_path / "a.tar.gz", ("in/x", b"", link))
    with pytest.raises(InputError, match="must hold in/x; got none"):
        read_members(tmp_path, "in", "a.tar.gz", ["x"])


def test_an_archive_that_is_cut_off_is_an_error(tmp_path: Path) -> None:
    tar_of(tmp_path / "a.tar.gz", ("in/x", os.urandom(5000), {}))
    whole = (tmp_path / "a.tar.gz").read_bytes()
    for part in (whole[:3000], b"", b"no archive"):
        (tmp_path / "a.tar.gz").write_bytes(part)
        with pytest.raises(InputError, match="must be a whole tar archive"):
            read_members(tmp_path, "in", "a.tar.gz", ["x"])


def test_an_archive_that_unpacks_to_more_than_any_official_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MOST", 1000)
    tar_of(tmp_path / "a.tar.gz", ("in/big", bytes(2000), {}), ("in/x", b"one", {}))
    with pytest.raises(InputError, match="more than a gigabyte"):
        read_members(tmp_path, "in", "a.tar.gz", ["x"])
    (tmp_path / "x").write_bytes(bytes(1001))
    with pytest.raises(InputError, match="got one of 1001 bytes"):
        read_members(tmp_path, "in", "a.tar.gz", ["x"])
