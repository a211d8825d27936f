"""Our own writer of safetensors files says what safetensors' does, in less memory."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save
from torch import Tensor

from selc._io.files import write_tensors
from selc.errors import RunFolderError

TYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
]


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 50


def some_of_each() -> dict[str, Tensor]:
    tensors = {f"of {kind}/{len(shape)}": numbers(*shape).to(kind) for kind in TYPES for shape in [(), (3,), (5, 7)]}
    tensors |= {"empty": torch.zeros(0, 4), "turned": numbers(6, 5).T, "every other": numbers(20)[::2]}
    tensors["image weights"] = numbers(4, 3, 2, 2).to(memory_format=torch.channels_last)
    return tensors | {"with grad": numbers(3).requires_grad_(), "naïve \U0001f40b": numbers(2)}


def parts(content: bytes) -> dict[str, tuple[Any, Any, bytes]]:
    """Type, shape and bytes of each tensor, by the description of the format: 8 bytes of length, JSON, data."""
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    header.pop("__metadata__", None)
    return {
        name: (about["dtype"], about["shape"], content[start:][slice(*about["data_offsets"])])
        for name, about in header.items()
    }


def test_it_holds_what_safetensors_itself_would_write(tmp_path: Path) -> None:
    tensors = some_of_each()
    write_tensors(tmp_path / "ours", tensors)
    theirs = save({name: tensor.detach().contiguous() for name, tensor in tensors.items()})
    assert parts((tmp_path / "ours").read_bytes()) == parts(theirs)


def test_safetensors_reads_it(tmp_path: Path) -> None:
    tensors = some_of_each()
    write_tensors(tmp_path / "ours", tensors)
    read = load_file(tmp_path / "ours")
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert read[name].dtype == tensor.dtype
        assert torch.equal(read[name], tensor), name


def test_tensors_lie_at_multiples_of_their_width(tmp_path: Path) -> None:
    write_tensors(tmp_path / "ours", some_of_each())
    content = (tmp_path / "ours").read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    widths = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
    header = json.loads(content[8:start])
    assert header.keys() == some_of_each().keys()
    for about in header.values():
        assert (start + about["data_offsets"][0]) % widths[about["dtype"]] == 0


def test_size_and_checksum_are_those_of_the_file(tmp_path: Path) -> None:
    written = write_tensors(tmp_path / "ours", {"large": numbers(1500, 1500), "small": numbers(3)})  # in three pieces
    content = (tmp_path / "ours").read_bytes()
    assert written == (len(content), hashlib.sha256(content).hexdigest())


def test_no_tensors_make_a_file_too(tmp_path: Path) -> None:
    write_tensors(tmp_path / "ours", {})
    assert load_file(tmp_path / "ours") == {}


def test_a_type_that_the_format_lacks_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="complex128 in 'w'"):
        write_tensors(tmp_path / "ours", {"w": torch.zeros(2, dtype=torch.complex128)})
    assert not list(tmp_path.iterdir())


MEMORY = """
import resource, sys
from pathlib import Path
import torch
from selc._io.files import write_tensors
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
tensors = {str(k): torch.ones(2**23) for k in range(4)}  # 128 MB
tensors["turned"] = torch.ones(2**12, 2**9).T  # 8 MB: has to be copied to be written row by row
write_tensors(Path(sys.argv[1]) / "first", {"w": torch.ones(10)})
before = peak()
write_tensors(Path(sys.argv[1]) / "second", tensors)
print((peak() - before) // 1024)
"""


@pytest.mark.exhaustive
def test_it_makes_no_second_copy_in_memory(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MEMORY, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(result.stdout) < 32, f"{result.stdout.strip()} MB more to write 136"
