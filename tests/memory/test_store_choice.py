from __future__ import annotations

from pathlib import Path

import pytest
import torch

from selc.memory.choice import choose_form, free_bytes

GB = 10**9


@pytest.mark.parametrize(
    ("rows", "columns", "free", "form"),
    [
        (50_000, 10, 8 * GB, "dense"),
        (1_280_000, 1000, 32 * GB, "dense"),  # 5.1 GB, in a quarter of the memory
        (1_280_000, 1000, 16 * GB, "half"),
        (1_280_000, 1000, 8 * GB, "top-k"),
        (10_000_000, 100_000, 512 * GB, "top-k"),
        (500_000_000, 10, 16 * GB, "disk"),  # 20 GB; top-k would be larger
        (100, 64, 1000, "disk"),
        (100, 65, 1000, "top-k"),
    ],
)
def test_the_form_is_chosen_by_size(rows: int, columns: int, free: int, form: str) -> None:
    chosen, why = choose_form(rows, columns, free)
    assert chosen == form
    assert f"{rows:,} x {columns:,}" in why


def test_methods_with_many_tables_need_more() -> None:
    assert choose_form(1_000_000, 100, 2 * GB, tables=2)[0] == "dense"
    assert choose_form(1_000_000, 100, 2 * GB, tables=12)[0] == "top-k"


def test_the_reason_names_what_there_is_and_what_is_done() -> None:
    _, why = choose_form(1_280_000, 1000, 8 * GB)
    assert why == (
        "1,280,000 x 1,000 numbers are 5.1 GB per table, and 8.0 GB of memory are free: "
        "of each row the largest entries are kept (form top-k)."
    )


def test_free_memory_is_less_than_there_is() -> None:
    import os

    assert 0 < free_bytes() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert free_bytes(torch.device("cpu")) > 0


@pytest.mark.parametrize(
    ("limit", "processes", "free"),
    [("max", 1, 2000 * 1024), ("1500000", 1, 1_100_000), ("900000000", 1, 2000 * 1024), ("1500000", 4, 275_000)],
)
def test_free_is_what_machine_and_container_leave_to_each_process(
    limit: str, processes: int, free: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux tells kilobytes of the machine, and bytes of the container: a limit, or the word max, and what is used."""
    for name, text in {
        "proc/meminfo": "MemTotal: 9000 kB\nMemAvailable:    2000 kB\n",
        "sys/fs/cgroup/memory.max": f"{limit}\n",
        "sys/fs/cgroup/memory.current": "400000\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr("selc.memory.choice.Path", lambda path: tmp_path / path.lstrip("/"))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(processes))
    assert free_bytes() == free


def test_where_the_machine_does_not_say_what_is_free_it_is_half_of_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("selc.memory.choice.Path", lambda path: tmp_path / path.lstrip("/"))
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1000}.__getitem__, raising=False)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert free_bytes() == 4096 * 1000 / 2


def test_a_machine_that_says_nothing_at_all_has_four_gigabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("selc.memory.choice.Path", lambda path: tmp_path / path.lstrip("/"))
    monkeypatch.delattr("os.sysconf", raising=False)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert free_bytes() == 4 * 1024**3


@pytest.mark.parametrize(("rows", "size"), [(250_000, "0.1 GB"), (249_000, "99.6 MB")])
def test_a_tenth_of_a_gigabyte_is_told_in_gigabytes(rows: int, size: str) -> None:
    assert f"{rows:,} x 100 numbers are {size} per table" in choose_form(rows, 100, GB)[1]
