"""Ways to spoil a valid file: bytes, numbers in text, values in a tree, and what lies inside a container."""

from __future__ import annotations

import gzip
import io
import json
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

LARGEST = 2_000_000  # bytes of a spoilt file; what is small on the disk and large in memory has tests of its own
ODD_NUMBERS = (
    *("-1", "0", "1", "127", "128", "255", "256", "65535", "65536", "2147483647", "2147483648", "4294967295"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775809", "1e308", "1e309", "-0.0", "1e-400"),
    *("nan", "NaN", "inf", "-Infinity", "0x10", "1_000", "9" * 400, "9" * 5000, "1.5", "", "٣", "½"),
)
ODD_TEXTS = (
    *("\0", "\ufeff", "\u202e", "\ud7ff", "é", "\r", "\n", "\r\n", "\t", '"', "'", ",", ";", "=", "[", "]", "{", "}"),
    *("\x1b[2J", "../", "/etc/passwd", "<script>", "%s%n", "a" * 5000, "𝕏", "\x85", "\u2028", "#", "\\", "NULL"),
)
Change = Callable[[bytes, Random], bytes]


# Bytes


def flip_bits(data: bytes, rng: Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        if out:
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def set_bytes(data: bytes, rng: Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if out:
            out[rng.randrange(len(out))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(out)


def early_bytes(data: bytes, rng: Random) -> bytes:
    """In the head, where formats keep what matters."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 2, 4))):
        if out:
            out[rng.randrange(min(len(out), 64))] = rng.randrange(256)
    return bytes(out)


def cut(data: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def cut_front(data: bytes, rng: Random) -> bytes:
    return data[rng.randrange(len(data) + 1) :]


def remove(data: bytes, rng: Random) -> bytes:
    a, b = _span(data, rng)
    return data[:a] + data[b:]


def repeat(data: bytes, rng: Random) -> bytes:
    a, b = _span(data, rng)
    times = rng.choice((2, 2, 3, 10, 1000))
    return (data[:b] + data[a:b] * times + data[b:])[:LARGEST]


def swap(data: bytes, rng: Random) -> bytes:
    a, b = _span(data, rng)
    c = rng.randint(b, len(data))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def add(data: bytes, rng: Random) -> bytes:
    place = rng.randrange(len(data) + 1)
    more = rng.choice((rng.randbytes(rng.randrange(1, 40)), b"\0" * rng.choice((1, 8, 4096)), b"\xff" * 8))
    return data[:place] + more + data[place:]


def blow_up(data: bytes, rng: Random) -> bytes:
    """A length, a size or a count of 2, 4 or 8 bytes that is too large, too small or negative."""
    form = rng.choice("HIQ")
    width = struct.calcsize(form)
    if len(data) < width:
        return data
    top = 1 << (8 * width)
    value = rng.choice((0, 1, top - 1, top // 2, top // 2 - 1, rng.randrange(top), 1 << rng.randrange(8 * width)))
    near_ends = rng.choice((64, 64, len(data)))
    place = rng.randrange(min(near_ends, len(data) - width + 1))
    if rng.random() < 0.3:
        place = len(data) - width - place
    return data[:place] + struct.pack(rng.choice("<>") + form, value) + data[place + width :]


def _span(data: bytes, rng: Random) -> tuple[int, int]:
    a = rng.randrange(len(data) + 1)
    length = rng.choice((1, 4, 16, 256, len(data)))
    return a, min(len(data), a + rng.randrange(length + 1))


# Text


def other_number(data: bytes, rng: Random) -> bytes:
    found = list(re.finditer(rb"-?\d+(\.\d+)?", data))
    if not found:
        return add_text(data, rng)
    one = rng.choice(found)
    return data[: one.start()] + rng.choice(ODD_NUMBERS).encode() + data[one.end() :]


def add_text(data: bytes, rng: Random) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + rng.choice(ODD_TEXTS).encode() + data[place:]


def other_cell(data: bytes, rng: Random) -> bytes:
    """A cell of a table in text, or a word of anything else."""
    found = list(re.finditer(rb"[^,\n;\t]+", data))
    if not found:
        return add_text(data, rng)
    one = rng.choice(found)
    value = rng.choice(ODD_NUMBERS + ODD_TEXTS)
    return data[: one.start()] + value.encode() + data[one.end() :]


def other_line(data: bytes, rng: Random) -> bytes:
    """A line twice, none, or somewhere else."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    line = lines.pop(rng.randrange(len(lines)))
    for _ in range(rng.choice((0, 1, 2, 50))):
        lines.insert(rng.randrange(len(lines) + 1), line)
    return b"".join(lines)[:LARGEST]


BINARY: tuple[Change, ...] = (
    *(flip_bits, flip_bits, set_bytes, early_bytes, cut, cut_front, remove, repeat, swap, add),
    *(blow_up, blow_up, blow_up),
)
TEXT: tuple[Change, ...] = (
    *(flip_bits, set_bytes, cut, remove, repeat, swap, add),
    *(other_number, other_number, add_text, other_cell, other_cell, other_line),
)


def spoilt(data: bytes, rng: Random, changes: tuple[Change, ...], others: list[bytes]) -> bytes:
    """One to four changes, or a splice with another valid file of the kind."""
    if others and rng.random() < 0.08:
        other = rng.choice(others)
        return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        data = rng.choice(changes)(data, rng)
    return data[:LARGEST]


# Trees of values


def odd_value(rng: Random) -> Any:
    """What a program may not expect in JSON or TOML."""
    deep: Any = []
    for _ in range(rng.choice((3, 100, 5000))):
        deep = [deep]
    return rng.choice(
        (
            *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**300, 0.5, -0.5, 1e308),
            *(
                float("nan"),
                float("inf"),
                -float("inf"),
                "",
                "x",
                "0",
                "-1",
                "nan",
                "none",
                "auto",
                "import",
                "a" * 3000,
            ),
            *([], {}, [0], [[]], [1, "a", None], {"": ""}, {"name": 1}, [[1, 2], [3]], ["a"] * 500, rng.random()),
            *(rng.choice(ODD_TEXTS), rng.choice(ODD_TEXTS), "\ud800", deep, {"a": {"b": {"c": {}}}}),
        )
    )


def odd_tree(value: Any, rng: Random) -> Any:
    """The tree with a value replaced, left out, doubled or wrapped."""
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        if isinstance(node, dict | list):
            for key in node if isinstance(node, dict) else range(len(node)):
                places.append((node, key))
                walk(node[key])

    walk(value)
    if not places or rng.random() < 0.03:
        return odd_value(rng)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        node, key = rng.choice(places)
        if (isinstance(node, list) and key >= len(node)) or (isinstance(node, dict) and key not in node):
            continue  # it went with an earlier change
        action = rng.random()
        if action < 0.55:
            node[key] = odd_value(rng)
        elif action < 0.75:
            del node[key]
        elif action < 0.85 and isinstance(node, dict):
            node[rng.choice((str(key) + "x", "", "name", "format", "__class__"))] = node[key]
        elif action < 0.95:
            other, place = rng.choice(places)
            if (isinstance(other, dict) and place in other) or (isinstance(other, list) and place < len(other)):
                node[key] = json.loads(json.dumps(other[place]))
        else:
            node[key] = [node[key]] if rng.random() < 0.5 else {"x": node[key]}
    return value


def json_tree(data: bytes, rng: Random) -> bytes:
    try:
        tree = odd_tree(json.loads(data), rng)
        return _deep_json(tree)
    except (ValueError, RecursionError, TypeError):
        return other_number(data, rng)


def _deep_json(tree: Any) -> bytes:
    try:
        return json.dumps(tree, ensure_ascii=True).encode()
    except RecursionError:  # the writer gives up before a reader has to
        return b"[" * 50_000 + b"]" * 50_000


def toml_tree(data: bytes, rng: Random) -> bytes:
    import tomllib

    import tomli_w

    try:
        tree = odd_tree(tomllib.loads(data.decode()), rng)
        if not isinstance(tree, dict):
            tree = {"data": tree}
        return tomli_w.dumps(_without_none(tree)).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError, TypeError):
        more = rng.choice(("x = 1979-05-27T07:32:00Z\n", "a" + ".a" * 2000 + " = 1\n", "x = " + "[" * 3000 + "\n"))
        return rng.choice((data + more.encode(), more.encode() + data))


def _without_none(node: Any) -> Any:
    if isinstance(node, dict):
        return {str(key): _without_none(item) for key, item in node.items() if item is not None}
    if isinstance(node, list):
        return [_without_none(item) for item in node if item is not None]
    return node


# Inside containers, with their checksums put right: else no reader would get that far


def in_gzip(data: bytes, rng: Random, inner: Callable[[bytes, Random], bytes]) -> bytes:
    return gzip.compress(inner(gzip.decompress(data), rng), 1, mtime=0)


def in_zip(data: bytes, rng: Random, inner: Callable[[bytes, Random], bytes]) -> bytes:
    """A member spoilt, left out, doubled or renamed."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    place = rng.randrange(len(members))
    name, content = members[place]
    action = rng.random()
    if action < 0.8:
        members[place] = name, inner(content, rng)
    elif action < 0.87:
        del members[place]
    elif action < 0.94:
        members[place] = rng.choice(("../x.npy", "/x.npy", "x.npy", "y.npy", "ids.npy", "x", "", "meta.npy")), content
    else:
        members.append((members[rng.randrange(len(members))][0], content))
    out = io.BytesIO()
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are there twice
        with zipfile.ZipFile(out, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
            for name, content in members:
                archive.writestr(zipfile.ZipInfo(name), content)
    return out.getvalue()


def in_tar(data: bytes, rng: Random, inner: Callable[[bytes, Random], bytes]) -> bytes:
    """A member spoilt, or turned into a link, a device, a path that leads away."""
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(data)) as old, tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as new:
        members = [member for member in old.getmembers() if member.isreg()]
        victim = rng.randrange(len(members))
        for place, member in enumerate(members):
            file = old.extractfile(member)
            content = file.read() if file else b""
            if place == victim:
                action = rng.random()
                if action < 0.7:
                    content = inner(content, rng)
                elif action < 0.9:
                    kinds = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE, b"S")
                    member.type, member.linkname, content = rng.choice(kinds), "/etc/passwd", b""
                else:
                    member.name = rng.choice(("../" + member.name, "/" + member.name, "x" * 300, member.name + "/.."))
            member.size = len(content)
            new.addfile(member, io.BytesIO(content))
    return out.getvalue()


def in_png(data: bytes, rng: Random, inner: Callable[[bytes, Random], bytes]) -> bytes:
    """A chunk spoilt, with its length and checksum put right."""
    chunks, place = [], 8
    while place + 12 <= len(data):
        length = int.from_bytes(data[place : place + 4], "big")
        chunks.append((data[place + 4 : place + 8], data[place + 8 : place + 8 + length]))
        place += 12 + length
    victim = rng.randrange(len(chunks))
    kind, content = chunks[victim]
    if kind == b"IDAT" and rng.random() < 0.5:
        chunks[victim] = kind, zlib.compress(inner(zlib.decompress(content), rng))
    else:
        chunks[victim] = kind, inner(content, rng)
    out = data[:8]
    for kind, content in chunks:
        out += struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    return out


def in_safetensors(data: bytes, rng: Random, inner: Callable[[bytes, Random], bytes]) -> bytes:
    """The header as a tree; its length put right."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json_tree(data[8 : 8 + length], rng)
    return struct.pack("<Q", len(header)) + header + data[8 + length :]
