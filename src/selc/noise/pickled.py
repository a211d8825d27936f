"""Numbers out of a file that torch.save wrote, without running what is in it.

Such a file holds a pickle, a small program that may call any function. Here its instructions are only read: those that
build numbers, texts, lists, dicts, numpy arrays and tensors are followed by hand, anything else is refused. Functions
appear as names and are never looked up, and no more memory is taken than a few times the size of the file.
"""

from __future__ import annotations

import io
import pickletools
import re
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from selc.errors import InputError

_MAGIC = 0x1950A86A20F9469CFC6C  # the first object in a file of torch.save before version 1.6
_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_NEW: dict[str, Callable[[], Any]] = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
_LITERAL = re.compile(r"(SHORT_|LONG_)?BIN(INT|UNICODE|BYTES|FLOAT)\d*|LONG[14]")
_STORAGES = {
    "torch LongStorage": "<i8",
    "torch IntStorage": "<i4",
    "torch ShortStorage": "<i2",
    "torch CharStorage": "i1",
    "torch ByteStorage": "u1",
    "torch FloatStorage": "<f4",
    "torch DoubleStorage": "<f8",
}


class _RefusedError(ValueError):
    """An instruction that is not followed."""


class _Name(str):
    """A function or a class by its name."""


class _Array:
    """A numpy array whose content comes with a later instruction."""

    value: np.ndarray[Any, Any] | None = None


class _Type:
    """A numpy type: its code and its byte order."""

    def __init__(self, code: str) -> None:
        if not re.fullmatch("[iufb][1248]", code):
            raise _RefusedError(f"an array of type {code}")
        self.code, self.order = code, "<"

    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.order.replace("|", "=") + self.code)


def read_torch_file(path: Path) -> Any:
    """What torch.save wrote: numbers, texts, lists, dicts, and arrays as numpy arrays."""
    try:
        return _plain(_read(path))
    except (ValueError, LookupError, TypeError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(
            f"{path} must be a file of torch.save with arrays, tensors or lists of numbers in it; got {error}. "
            "Save the labels as .npy instead."
        ) from None


def _read(path: Path) -> Any:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
                raise _RefusedError("a compressed archive, which torch.save does not write")
            content = next((n for n in archive.namelist() if n.endswith("/data.pkl")), None)
            if content is None:
                raise _RefusedError("a zip file without a data.pkl")
            folder = content.removesuffix("data.pkl")
            return _follow(io.BytesIO(archive.read(content)), lambda key: archive.read(f"{folder}data/{key}"))
    with open(path, "rb") as file:
        if _follow(file) != _MAGIC:
            raise _RefusedError("something else")
        _follow(file), _follow(file)  # its version, and the sizes of numbers where it was written
        return _follow(file)


def _no_storage(key: str) -> bytes:
    raise _RefusedError("a tensor in the format of torch before 1.6")


def _follow(file: IO[bytes], storage: Callable[[str], bytes] = _no_storage) -> Any:
    """Build the object that a pickle describes."""
    stack: list[Any] = []
    marks: list[int] = []  # where the items of a tuple, list or dict that is being built begin
    memo: dict[Any, Any] = {}
    encoded: dict[str, bytes] = {}  # each text once, however often the pickle refers to it

    def since_mark() -> list[Any]:
        first = marks.pop()
        items = stack[first:]
        del stack[first:]
        return items

    for opcode, argument, _ in pickletools.genops(file):
        name = opcode.name
        if name in ("PROTO", "FRAME"):
            pass
        elif name == "STOP":
            break
        elif name == "MARK":
            marks.append(len(stack))
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _NEW:
            stack.append(_NEW[name]())
        elif _LITERAL.fullmatch(name):
            stack.append(argument)
        elif name in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name == "TUPLE":
            stack.append(tuple(since_mark()))
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            size = int(name[-1])
            stack[-size:] = [tuple(stack[-size:])]
        elif name in ("APPEND", "APPENDS"):
            items = since_mark() if name == "APPENDS" else [stack.pop()]
            _kind(stack[-1], list).extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = since_mark() if name == "SETITEMS" else [stack.pop(-2), stack.pop()]
            _kind(stack[-1], dict).update(zip(items[::2], items[1::2], strict=True))
        elif name == "GLOBAL":
            stack.append(_Name(argument))
        elif name == "STACK_GLOBAL":
            qualified = stack.pop()
            stack.append(_Name(f"{stack.pop()} {qualified}"))
        elif name == "BINPERSID":
            stack.append(_stored(stack.pop(), storage))
        elif name == "REDUCE":
            arguments = stack.pop()
            stack.append(_made(_kind(stack.pop(), _Name), _kind(arguments, tuple), encoded))
        elif name == "BUILD":
            state = stack.pop()
            _fill(stack[-1], state)
        else:
            raise _RefusedError(f"the instruction {name}")
    return stack.pop()


def _made(function: _Name, arguments: tuple[Any, ...], encoded: dict[str, bytes]) -> Any:
    """What a call would make, for the few functions whose effect is known."""
    module, _, name = function.partition(" ")
    if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
        return _Array()
    if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "scalar":
        kind, content = arguments
        return np.frombuffer(content, _kind(kind, _Type).dtype(), count=1)[0].item()
    if function == "numpy dtype":
        return _Type(_kind(arguments[0], str))
    if function == "_codecs encode":
        text, encoding = arguments
        if encoding != "latin1":
            raise _RefusedError(f"bytes in the encoding {encoding}")
        if text not in encoded:
            encoded[text] = _kind(text, str).encode("latin1")
        return encoded[text]
    if function == "collections OrderedDict" and not arguments:
        return {}
    if function == "torch._utils _rebuild_tensor_v2":
        content, offset, size, stride = arguments[:4]
        if len(size) != 1 or (tuple(stride) != (1,) and size[0] > 1):
            raise _RefusedError(f"a tensor of shape {list(size)} and stride {list(stride)}")
        return _kind(content, np.ndarray)[offset : offset + size[0]]
    raise _RefusedError(f"a call of {module}.{name}")


def _fill(thing: Any, state: Any) -> None:
    if isinstance(thing, _Array):
        _, shape, kind, by_columns, content = state
        if by_columns and len(shape) > 1:
            raise _RefusedError("an array in Fortran's order")
        array = np.frombuffer(_kind(content, bytes), _kind(kind, _Type).dtype())
        thing.value = array.reshape(shape)
    elif isinstance(thing, _Type):
        thing.order = _kind(state[1], str)
    else:
        raise _RefusedError(f"a {type(thing).__name__} with a state")


def _stored(identity: Any, storage: Callable[[str], bytes]) -> np.ndarray[Any, Any]:
    word, kind, key, _, count = identity
    if word != "storage" or kind not in _STORAGES:
        raise _RefusedError(f"stored values of type {kind}")
    return np.frombuffer(storage(key), _STORAGES[kind], count=count)


def _kind(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise _RefusedError(f"a {type(value).__name__} in place of a {kind.__name__}")
    return value


def _plain(value: Any) -> Any:
    """The finished object: an array, a list of numbers, or a dict of such things and of others, which are left out."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if isinstance(k, str) and _is_list(v)}
    if not _is_list(value):
        raise _RefusedError(f"a {type(value).__name__.strip('_').lower()}")
    if isinstance(value, _Array):
        if value.value is None:
            raise _RefusedError("an array without content")
        return value.value
    return value


def _is_list(value: Any) -> bool:
    """Whether it may be labels. Lists of lists are not: they may share parts, and so stand for more than memory."""
    if isinstance(value, list | tuple):
        return all(isinstance(item, int | float) for item in value)
    return isinstance(value, _Array | np.ndarray)
