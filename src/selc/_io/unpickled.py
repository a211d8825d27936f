"""Pickles, read without running anything: the only place in selc where anything is unpickled.

A pickle is a program for a small machine with a stack, and may call any function. Here its instructions are only read:
those of which plain values are made are followed, any other is refused. A function or a class is a word on a list, it
is never looked up; what it would make (a dictionary, an array, a tensor) is made by hand, of checked arguments.

Nor can a small file become large: the bytes of arrays and tensors are those of the file, each copied a few times;
instructions and the parts of the result are counted; nothing from the file is hashed, compared or put into a sentence
before it is known to be a number or a text.
"""

from __future__ import annotations

import io
import math
import os
import pickletools
import re
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import torch
from torch import Tensor

from selc.errors import InputError

K = TypeVar("K")
T = TypeVar("T")

MOST = 1 << 30  # bytes of a file; the largest official one holds 0.2 GB
MOST_STEPS = 5_000_000  # instructions of a pickle; each takes some 100 bytes at most
MOST_PARTS = 10  # of the result, for each instruction; more only if the same lists are used again and again
DEEPEST = 50  # lists within lists
BROKEN = (
    *(ValueError, TypeError, LookupError, OverflowError, MemoryError, EOFError, RuntimeError),
    *(struct.error, zipfile.BadZipFile),
)
OLD_TORCH = 0x1950A86A20F9469CFC6C  # with which torch.save began its files before version 1.6


def read_pickle(data: bytes, what: str, advice: str) -> Any:
    """Plain values and arrays from a pickle of Python 2 or 3. Errors name it ``what`` and end with ``advice``.

    Plain values are None, numbers, texts, bytes, lists, tuples and dictionaries. The arrays cannot be written to.
    """
    with _refusing(what, advice):
        machine = _Machine(len(data))
        return _Result(machine, _no_storage).tree(machine.run(io.BytesIO(data)))


def read_torch(path: Path, advice: str) -> Any:
    """Plain values, arrays and tensors from a file of torch.save, in its new or its old form; on the CPU."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(size) if size <= MOST else b""
    except OSError as error:
        raise InputError(f"{path} must be a readable file; got: {error.strerror or error}.") from None
    with _refusing(str(path), advice):
        if size > MOST:
            raise ValueError(f"a file of {size} bytes")
        return _new_form(data) if data.startswith(b"PK\x03\x04") else _old_form(data)


@contextmanager
def _refusing(what: str, advice: str) -> Iterator[None]:
    try:
        with warnings.catch_warnings(action="ignore"):  # of pickletools, about escapes in a text
            yield
    except BROKEN as error:
        reason = (str(error) or type(error).__name__).split("\n")[0][:200].rstrip(".")
        raise InputError(
            f"{what} must be a pickle of plain values, arrays and tensors; got: {reason}. "
            f"Nothing of it was run. {advice}"
        ) from None


# The two forms of torch.save


def _new_form(data: bytes) -> Any:
    """A zip file: a pickle, and beside it a member for each storage, which holds the numbers of some tensors."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("a compressed archive, which torch.save does not write")
        if sum(member.file_size for member in members) > len(data):
            raise ValueError("an archive whose members share their bytes")
        content = next((m.filename for m in members if m.filename.endswith("/data.pkl")), None)
        if content is None:
            raise ValueError("a zip file without a data.pkl")
        folder = content.removesuffix("data.pkl")
        if folder + "byteorder" in archive.namelist() and archive.read(folder + "byteorder") != b"little":
            raise ValueError("numbers with their bytes in another order")
        machine = _Machine(len(data))
        described = machine.run(io.BytesIO(archive.read(content)))
        return _Result(machine, lambda key: archive.read(f"{folder}data/{key}")).tree(described)


def _old_form(data: bytes) -> Any:
    """Five pickles in a row (a mark, a version, sizes of numbers, the content, keys of storages), then the storages."""
    stream = io.BytesIO(data)
    if _Machine(len(data)).run(stream) != OLD_TORCH:
        raise ValueError("a pickle that is not one of torch.save")
    for _ in ("version", "sizes"):
        _Machine(len(data)).run(stream)
    machine = _Machine(len(data))
    described = machine.run(stream)
    raw: dict[str, bytes] = {}
    for key in _is(list, _Machine(len(data)).run(stream)):
        storage = _known(machine.storages, _is(str, key))
        if stream.read(8) != struct.pack("<q", storage.count):
            raise ValueError("a storage of another size than its tensors")
        raw[key] = stream.read(storage.count * storage.kind.itemsize)
    return _Result(machine, lambda key: _known(raw, key)).tree(described)


def _no_storage(key: str) -> bytes:
    raise ValueError("a tensor in a file that is not of torch.save")


# What is on the stack beside plain values


@dataclass(frozen=True)
class _Name:
    """A function or a class: a word from a list, and nothing more."""

    word: str


class _Dtype:
    """What ``numpy.dtype`` would make; an instruction of its own brings the order of the bytes."""

    def __init__(self, code: str) -> None:
        if re.fullmatch(r"b1|[iu][1248]|f[248]", code) is None:
            raise ValueError(f"an array of {code[:20]!r}, which are not plain numbers")
        self.code, self.order = code, "="

    def numpy(self) -> np.dtype[Any]:
        return np.dtype(self.order + self.code)


class _Array:
    """What ``numpy.ndarray`` would be; an instruction of its own brings the values."""

    values: np.ndarray[Any, np.dtype[Any]] | None = None


@dataclass(frozen=True)
class _Storage:
    """Numbers that stand elsewhere in the file."""

    key: str
    kind: np.dtype[Any]
    count: int


@dataclass(frozen=True)
class _Tensor:
    """A view of a storage, which may come later in the file."""

    storage: _Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


# The machine


class _Machine:
    """A stack, a memory, and what the known instructions do with them."""

    def __init__(self, size: int) -> None:
        self.stack: list[Any] = []
        self.waiting: list[list[Any]] = []  # the stacks below, while a group of values is put together
        self.memory: dict[int, Any] = {}
        self.storages: dict[str, _Storage] = {}
        self.steps = 0
        self.left = size  # bytes that may yet be copied: a text that is used again and again must not multiply

    def run(self, stream: BinaryIO) -> Any:
        for instruction, argument, _ in pickletools.genops(stream):
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise ValueError(f"more than {MOST_STEPS} instructions")
            if instruction.name not in _ACTIONS:
                raise ValueError(f"the instruction {instruction.name}, which plain values do not need")
            _ACTIONS[instruction.name](self, argument)
        if len(self.stack) != 1 or self.waiting:
            raise ValueError("a pickle of more than one value, or of none")
        return self.pop()

    # Values and groups of values

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def top(self) -> Any:
        if not self.stack:
            raise ValueError("an instruction without its values")
        return self.stack[-1]

    def pop(self) -> Any:
        self.top()
        return self.stack.pop()

    def take(self, count: int) -> list[Any]:
        return [self.pop() for _ in range(count)][::-1]

    def begin_group(self) -> None:
        self.waiting.append(self.stack)
        self.stack = []

    def group(self) -> list[Any]:
        if not self.waiting:
            raise ValueError("the end of a group without its beginning")
        items, self.stack = self.stack, self.waiting.pop()
        return items

    def extend(self, items: list[Any]) -> None:
        _is(list, self.top()).extend(items)

    def fill(self, items: list[Any]) -> None:
        target = _is(dict, self.top())
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | bytes | int):  # the hash of a tuple may take for ever
                raise ValueError(f"a dictionary with a {_kind(key)} as key")
            target[key] = value

    def new_dict(self, items: list[Any]) -> None:
        self.push({})
        self.fill(items)

    # What would be names, calls and states

    def name(self, module: Any, attribute: Any) -> None:
        name = f"{_is(str, module)} {_is(str, attribute)}".replace("numpy._core.", "numpy.core.")  # since numpy 2
        if name not in _MADE and name not in _ONLY_NAMED:
            shown = repr(name.replace(" ", ".")[:80])[1:-1]  # a terminal might obey what it holds
            raise ValueError(f"the name {shown}, which plain values, arrays and tensors do not need")
        self.push(_Name(name))

    def call(self) -> None:
        function, arguments = self.take(2)
        if not isinstance(function, _Name) or function.word not in _MADE:
            raise ValueError("a call of something that is not a known function")
        try:
            self.push(_MADE[function.word](self, *_is(tuple, arguments)))
        except TypeError:
            raise ValueError(f"a call of {function.word} with other arguments than plain files have") from None

    def build(self) -> None:
        state, target = self.pop(), self.top()
        if isinstance(target, _Dtype):
            _, order, *_ = _is(tuple, state)
            if _is(str, order) not in ("<", ">", "|", "="):
                raise ValueError("an array with its bytes in an unknown order")
            target.order = order
        elif isinstance(target, _Array):
            _, shape, dtype, by_columns, raw = _is(tuple, state)
            raw = self.encode(raw) if isinstance(raw, str) else _is(bytes, raw)  # a text by Python 2
            target.values = _array(_is(_Dtype, dtype).numpy(), _numbers(shape), bool(by_columns), raw)
        elif not (isinstance(target, dict) and isinstance(state, dict)):  # the versions of layers, not needed
            raise ValueError(f"a {_kind(target)} with a state")

    def encode(self, text: Any, coding: Any = "latin1") -> bytes:
        """Bytes, which Python 3 writes as texts for Python 2."""
        if _is(str, coding) not in ("latin1", "latin-1"):
            raise ValueError(f"bytes in the coding {coding[:20]!r}")
        self.left -= len(_is(str, text))
        if self.left < 0:
            raise ValueError("the same bytes many times over")
        return _is(str, text).encode("latin-1")

    def store(self) -> None:
        word, kind, key, _, count, *view = _is(tuple, self.pop())
        if _is(str, word) != "storage" or _is(_Name, kind).word not in _STORAGES or view not in ([], [None]):
            raise ValueError("something else than the storage of a tensor")
        (count,) = _numbers((count,))
        storage = _Storage(_is(str, key), _STORAGES[kind.word], count)
        if self.storages.setdefault(storage.key, storage) != storage:
            raise ValueError("a storage of two kinds")
        self.push(storage)


def _is(kind: type[T], value: Any) -> T:
    if not isinstance(value, kind):
        raise ValueError(f"a {_kind(value)} in place of a {kind.__name__.strip('_')}")
    return value


def _known(table: Mapping[K, T], key: K) -> T:
    if key not in table:
        raise ValueError("a reference to something that is not there")
    return table[key]


def _kind(value: Any) -> str:
    return type(value).__name__.strip("_")


def _numbers(values: Any) -> tuple[int, ...]:
    """The sizes or strides of an array."""
    if len(_is(tuple, values)) > 64 or any(type(n) is not int or not 0 <= n <= MOST for n in values):
        raise ValueError("sizes that are not a few whole numbers")
    return _is(tuple, values)


def _array(kind: np.dtype[Any], shape: tuple[int, ...], by_columns: bool, raw: bytes) -> Any:
    """A view of the bytes."""
    if math.prod(shape) * kind.itemsize != len(raw):
        raise ValueError(f"an array of shape {list(shape)} in {len(raw)} bytes")
    return np.frombuffer(raw, kind).reshape(shape, order="F" if by_columns else "C")


def _scalar(_: _Machine, dtype: Any, raw: Any) -> int | float | bool:
    number: int | float | bool = _array(_is(_Dtype, dtype).numpy(), (), False, _is(bytes, raw)).item()
    return number


def _tensor(_: _Machine, storage: Any, offset: Any, size: Any, stride: Any, *__: Any) -> _Tensor:
    (offset,) = _numbers((offset,))
    return _Tensor(_is(_Storage, storage), offset, _numbers(size), _numbers(stride))


_STORAGES: Mapping[str, np.dtype[Any]] = {
    "torch DoubleStorage": np.dtype("<f8"),
    "torch FloatStorage": np.dtype("<f4"),
    "torch HalfStorage": np.dtype("<f2"),
    "torch LongStorage": np.dtype("<i8"),
    "torch IntStorage": np.dtype("<i4"),
    "torch ShortStorage": np.dtype("<i2"),
    "torch CharStorage": np.dtype("i1"),
    "torch ByteStorage": np.dtype("u1"),
    "torch BoolStorage": np.dtype("?"),
}
_ONLY_NAMED = {"numpy ndarray", *_STORAGES}  # as arguments
_MADE: Mapping[str, Callable[..., Any]] = {
    "numpy dtype": lambda _, code, *__: _Dtype(_is(str, code)),
    "numpy.core.multiarray _reconstruct": lambda *_: _Array(),
    "numpy.core.multiarray scalar": _scalar,
    "torch._utils _rebuild_tensor_v2": _tensor,
    "collections OrderedDict": lambda _: {},
    "_codecs encode": _Machine.encode,
    "__builtin__ bytes": lambda _: b"",
}
_ACTIONS: Mapping[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(("PROTO", "FRAME", "STOP"), lambda m, a: None),
    **dict.fromkeys(("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"), _Machine.push),
    **dict.fromkeys(("FLOAT", "BINFLOAT"), _Machine.push),
    **dict.fromkeys(("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"), _Machine.push),
    **dict.fromkeys(("STRING", "BINSTRING", "SHORT_BINSTRING"), _Machine.push),
    **dict.fromkeys(("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"), _Machine.push),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), lambda m, a: m.memory.__setitem__(a, m.top())),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), lambda m, a: m.push(_known(m.memory, a))),
    "MEMOIZE": lambda m, _: m.memory.__setitem__(len(m.memory), m.top()),
    "NONE": lambda m, _: m.push(None),
    "NEWTRUE": lambda m, _: m.push(True),
    "NEWFALSE": lambda m, _: m.push(False),
    "MARK": lambda m, _: m.begin_group(),
    "EMPTY_TUPLE": lambda m, _: m.push(()),
    "EMPTY_LIST": lambda m, _: m.push([]),
    "EMPTY_DICT": lambda m, _: m.push({}),
    "TUPLE1": lambda m, _: m.push(tuple(m.take(1))),
    "TUPLE2": lambda m, _: m.push(tuple(m.take(2))),
    "TUPLE3": lambda m, _: m.push(tuple(m.take(3))),
    "TUPLE": lambda m, _: m.push(tuple(m.group())),
    "LIST": lambda m, _: m.push(m.group()),
    "DICT": lambda m, _: m.new_dict(m.group()),
    "APPEND": lambda m, _: m.extend(m.take(1)),
    "APPENDS": lambda m, _: m.extend(m.group()),
    "SETITEM": lambda m, _: m.fill(m.take(2)),
    "SETITEMS": lambda m, _: m.fill(m.group()),
    "GLOBAL": lambda m, a: m.name(*a.split(" ", 1)),
    "STACK_GLOBAL": lambda m, _: m.name(*m.take(2)),
    "REDUCE": lambda m, _: m.call(),
    "BUILD": lambda m, _: m.build(),
    "BINPERSID": lambda m, _: m.store(),
}


# The result


class _Result:
    """What was described, as a tree: a list to which a pickle refers ten times is there ten times."""

    def __init__(self, machine: _Machine, raw: Callable[[str], bytes]) -> None:
        self.raw = raw
        self.machine = machine
        self.parts = 0
        self.flat: dict[str, Tensor] = {}

    def tree(self, value: Any, depth: int = 0) -> Any:
        self.parts += 1
        if self.parts > MOST_PARTS * self.machine.steps or depth > DEEPEST:
            raise ValueError("lists within lists without an end")
        if isinstance(value, list | tuple):
            return type(value)([self.tree(item, depth + 1) for item in value])
        if isinstance(value, dict):
            return {key: self.tree(item, depth + 1) for key, item in value.items()}
        if isinstance(value, _Array) and value.values is not None:
            return value.values
        if isinstance(value, _Tensor):
            return self.tensor(value)
        if value is None or type(value) in (bool, int, float, str, bytes):
            return value
        raise ValueError(f"a {_kind(value)} without its contents")

    def tensor(self, view: _Tensor) -> Tensor:
        storage, numel = view.storage, math.prod(view.size)
        if storage.key not in self.flat:
            raw = self.raw(storage.key)
            if len(raw) != storage.count * storage.kind.itemsize:
                raise ValueError("a storage of another size than its tensors")
            values = np.frombuffer(raw, storage.kind)
            self.flat[storage.key] = torch.from_numpy(values.astype(values.dtype.newbyteorder("=")))
        last = view.offset + sum((n - 1) * step for n, step in zip(view.size, view.stride, strict=True))
        if numel > storage.count or (numel and last >= storage.count):
            raise ValueError(f"a tensor of shape {list(view.size)} in a storage of {storage.count} numbers")
        return self.flat[storage.key].as_strided(view.size, view.stride, view.offset)
