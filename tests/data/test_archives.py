"""Archives from the web: members of tar files and dictionaries in pickles are read, and nothing else happens."""

from __future__ import annotations

import io
import os
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from selc.data.published import archives
from selc.data.published.archives import read_members, read_pickle, read_torch
from selc.errors import InputError
from tests.data.miniatures import batch2, cifar_human

# Pickles; what is read and what is refused is tested in tests/test_unpickled.py


def test_a_dictionary_has_words_as_keys_whichever_python_wrote_it(tmp_path: Path) -> None:
    data = np.arange(18, dtype=np.uint8).reshape(2, 9)
    written = batch2(data, [3, 1], "labels")
    again = pickle.dumps(pickle.loads(written, encoding="bytes"), 4)  # noqa: S301 - our own bytes
    for each in (written, again):
        back = read_pickle(each, "data_batch_1")
        assert list(back) == ["batch_label", "labels", "data", "filenames"]
        assert back["labels"] == [3, 1]
        np.testing.assert_array_equal(back["data"], data)
    for old in (False, True):
        cifar_human(tmp_path / "human.pt", np.arange(5), old=old, worse_label=np.arange(5)[::-1].copy())
        assert {k: v.tolist() for k, v in read_torch(tmp_path / "human.pt").items()} == {
            "clean_label": [0, 1, 2, 3, 4],
            "worse_label": [4, 3, 2, 1, 0],
        }
    assert read_pickle(pickle.dumps({1: 2, "a": 3}), "it") == {"a": 3}


def test_anything_but_a_dictionary_is_an_error_that_names_the_file(
    tmp_path: Path,
) -> None:
    with pytest.raises(InputError, match=r"^data_batch_1 must hold a dictionary; got a list. Download it again"):
        read_pickle(pickle.dumps([1, 2]), "data_batch_1")
    with pytest.raises(
        InputError, match=r"^data_batch_1 must be .*posix.system.*Nothing of it was run. Download it again"
    ):
        read_pickle(pickle.dumps({"a": os.system}), "data_batch_1")
    (tmp_path / "human.pt").write_bytes(b"no pickle")
    with pytest.raises(InputError, match=r"human\.pt must be .*Download it again"):
        read_torch(tmp_path / "human.pt")
    with pytest.raises(InputError, match=r"nothing\.pt must be a readable file; got: No such file"):
        read_torch(tmp_path / "nothing.pt")


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
