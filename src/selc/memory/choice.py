"""Which form of table fits: by its size and the memory that is free."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import torch

from selc.memory.forms import FormName

FEW_COLUMNS = 64  # columns up to which a table that does not fit goes to disk as it is; wider ones lose little by top-k
UNKNOWN = 4 * 2**30  # free memory, in bytes, where the system does not say


def choose_form(rows: int, columns: int, free_bytes: int, tables: int = 2) -> tuple[FormName, str]:
    """A form for tables [rows, columns], and the reason in words.

    Dense while all ``tables`` (the memory of a method, and the probabilities at the end) take half of the free memory
    at most, so a quarter each for two; then half by the same rule, which is the next nearest to dense and the next
    fastest (benchmarks/results/store.md). Beyond that top-k with more than 64 columns, and a file on disk with fewer:
    that is exact, and top-k would save little.
    """
    size = 4 * rows * columns
    each = f"{rows:,} x {columns:,} numbers are {_gigabytes(size)} per table"
    room = f"{_gigabytes(free_bytes)} of memory are free"
    if tables * size <= free_bytes / 2:
        return "dense", f"{each}, and {room}: tables are kept whole."
    if tables * size / 2 <= free_bytes / 2:
        return "half", f"{each}, and {room}: tables are kept in 16 bits (form half)."
    if columns > FEW_COLUMNS:
        return "top-k", f"{each}, and {room}: of each row the largest entries are kept (form top-k)."
    return "disk", f"{each}, and {room}: tables are kept on disk (form disk)."


def free_bytes(device: torch.device | None = None) -> int:
    """How much memory this process may still take: of a GPU, of this machine, or of the container that it runs in.

    Of several processes on a machine each has its part.
    """
    if device is not None and device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    found = [value for value in (_available(), _left_in_container()) if value is not None]
    return min(found, default=UNKNOWN) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def _available() -> int | None:
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with suppress(AttributeError, OSError, ValueError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    return None


def _left_in_container() -> int | None:
    folder = Path("/sys/fs/cgroup")
    with suppress(OSError, ValueError):
        return int((folder / "memory.max").read_text()) - int((folder / "memory.current").read_text())
    return None


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"
