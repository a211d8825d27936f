"""The rows of per-sample tables as tensors of a file, and back into whatever tables hold them now."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from selc.memory.store import Store

ROWS = "rows/"  # before the names of tables in a file, and of their index


def each_once(tables: Mapping[str, Store]) -> tuple[dict[str, Store], dict[str, str]]:
    """The tables without those that come a second time, and for these the name under which they came first.

    What a method believes is often its own table, or the network's probabilities: it need not be written twice.
    """
    first: dict[int, str] = {}
    same = {name: first.setdefault(id(table), name) for name, table in tables.items()}
    return {name: tables[name] for name in first.values()}, {n: came for n, came in same.items() if n != came}


def rows_of(tables: Mapping[str, Store], rows: Tensor | None = None) -> dict[str, Tensor]:
    """The content of tables for a file: all of it, or ``rows`` and their index."""
    result = {} if rows is None else {f"{ROWS}index": rows}
    for name, table in tables.items():
        for kind, content in table.tensors().items():
            chosen = content
            if rows is not None:
                slots = rows if table.owned is None else torch.searchsorted(table.owned.cpu(), rows)
                chosen = content.index_select(0, slots.to(content.device))
            result[f"{ROWS}{name}/{kind}"] = chosen
    return result


def parted(content: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What a file holds: the tensors that are no rows, and the rows by the names of their tables."""
    rows = {name.removeprefix(ROWS): tensor for name, tensor in content.items() if name.startswith(ROWS)}
    return {name: tensor for name, tensor in content.items() if not name.startswith(ROWS)}, rows


def fill(table: Store, index: Tensor | None, content: dict[str, Tensor]) -> int:
    """Put the rows of a file into a table, as far as it holds them; return their number."""
    if not content:
        return 0
    if index is None:
        index = torch.arange(len(next(iter(content.values()))))
    if table.owned is not None:
        mine = torch.isin(index, table.owned.cpu()).nonzero().flatten()
        index, content = index[mine], {kind: rows.index_select(0, mine) for kind, rows in content.items()}
    table.load(index, content)
    return len(index)


def copied(content: dict[str, Tensor]) -> dict[str, Tensor]:
    """The rows of tables as copies in memory: the training goes on to change them."""
    return {k: v.detach().to("cpu", copy=True) if k.startswith(ROWS) else v for k, v in content.items()}
