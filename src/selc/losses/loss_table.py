"""The form of a `SELCLoss`'s table: chosen when it is made, kept when a state is loaded, the same in all processes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from selc.errors import ConfigError
from selc.memory.choice import choose_form, free_bytes
from selc.memory.forms import FormName
from selc.memory.store import Store
from selc.world import World

StoreName = Literal["auto", "dense", "half", "disk", "top-k"]
log = logging.getLogger("selc")


def form_for(store: StoreName, rows: int, columns: int, device: torch.device) -> tuple[FormName, str]:
    """The form for a table [rows, columns] on ``device``, and the reason where it was chosen here.

    Room is left for a second table, which ``targets`` makes.
    """
    if store not in get_args(StoreName):
        raise ConfigError(f"store must be one of {', '.join(get_args(StoreName))}; got {store!r}.")
    if store != "auto":
        return store, ""
    return choose_form(rows, columns, free_bytes(device))


def as_saved(store: Store, state: Mapping[str, Any], prefix: str) -> Store:
    """The table for a state that is about to be loaded: one that keeps its numbers as they are.

    It is ``store`` itself if that does, or if the state is of something else, which is refused by whoever loads it.
    Numbers of 32 bits go to disk where there is no such table: it is another form because they did not fit.
    """
    saved = {name.removeprefix(prefix): part for name, part in state.items() if name.startswith(prefix)}
    form = _kind(saved)
    if (
        form is None
        or form == _kind(store.tensors())
        or any(part.shape[:1] != (len(store),) for part in saved.values())
    ):
        return store
    form = "disk" if form in (None, "dense") else form
    log.warning("SELCLoss: the table goes on in the form %s, in which it was saved, and not as %s.", form, store.form)
    return Store(len(store), store.columns, form=form).to(store.device)


def alike(store: Store, world: World) -> Store:
    """The table in the form that the first process has; every process calls it before the first step.

    They choose by the memory that each finds free, so that they may not have chosen the same.
    """
    form = world.broadcast(store.form)
    if form == store.form or {form, store.form} == {"dense", "disk"}:  # the same bits
        return store
    log.warning("SELCLoss: the table is kept in the form %s, as in the first process, and not as %s.", form, store.form)
    other = Store(len(store), store.columns, form=form).to(store.device)
    other.load(other.held_rows(), store.tensors())
    return other


def _kind(tensors: Mapping[str, Tensor]) -> FormName | None:
    """What tensors of a table keep: every number in 32 or in 16 bits, or the largest; None: they are of no table."""
    if "values" in tensors:
        return "top-k"
    if "table" not in tensors:
        return None
    return "half" if tensors["table"].dtype == torch.float16 else "dense"
