from __future__ import annotations

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
