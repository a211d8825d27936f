"""Per-sample memory: one row per sample of the training set, addressed by index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast, get_args

import torch
from torch import Tensor, nn

from selc.errors import ConfigError, InputError
from selc.memory.disk import Disk
from selc.memory.forms import Form, FormName, Half, Held
from selc.memory.topk import TopK, Whole
from selc.world import current

BLOCK = 65_536  # rows per block at most: large enough to be fast
BLOCK_NUMBERS = 2**24  # and numbers per block, 64 MB: small enough for any width
CACHED = 2**18  # numbers of which only one per row is kept, 1 MB: they stay in the processor's cache


class Store(nn.Module):
    """A table [rows, columns] that is saved with the model and moves with it, in one of four forms.

    Parameters
    ----------
    rows, columns : int
        Its size: samples and, as a rule, classes.
    dtype : torch.dtype, default torch.float32
        Of a dense table; the other forms are for float32.
    form : "dense", "half", "disk" or "top-k", default "dense"
        Every number in 32 bits; in 16 bits; in 32 bits in a scratch file in ``folder``; or the ``k`` largest entries of
        each row and the sum of the others, for probabilities over many classes.
    owned : Tensor of int, optional
        Sorted numbers of the rows that are held here, where other processes hold the others.
    k : int, optional
        Entries of a row that top-k keeps.
    folder : Path, optional
        Where a table on disk lies; by default where temporary files do.

    Notes
    -----
    Rows are global row numbers everywhere. `read`, `write`, `ema` and `blocks` are about the rows that are held here,
    `argmax`, `top`, `at` and `full` about all of them, in every process. Nothing outside may rely on the table being
    dense: whole-table access goes through ``blocks``.

    Examples
    --------
    >>> import torch
    >>> from selc import Store
    >>> store = Store.from_labels(torch.tensor([0, 1, 1]), num_classes=2)
    >>> moved = store.ema(torch.tensor([2]), torch.tensor([[1.0, 0.0]]), momentum=0.25)
    >>> store.full()[2], store.argmax()
    (tensor([0.7500, 0.2500]), tensor([0, 1, 0]))
    """

    table: Tensor  # of the forms that keep every number
    owned: Tensor | None
    here: Tensor

    def __init__(
        self,
        rows: int,
        columns: int,
        dtype: torch.dtype = torch.float32,
        *,
        form: FormName = "dense",
        owned: Tensor | None = None,
        k: int | None = None,
        folder: Path | None = None,
    ) -> None:
        super().__init__()
        self.rows, self.columns = rows, columns
        self._form = _form(form, columns, dtype, k, folder)
        for name, tensor in self._form.make(rows if owned is None else len(owned)).items():
            self.register_buffer(name, tensor)
        self.register_buffer("owned", owned, persistent=False)
        self.register_buffer("here", torch.empty(0), persistent=False)  # is where the rows are handed out
        self.register_load_state_dict_pre_hook(_fitting)  # type: ignore[no-untyped-call]
        if owned is not None:
            self.to(owned.device)

    @classmethod
    def from_labels(cls, labels: Tensor, num_classes: int, **options: Any) -> Store:
        """A table whose rows are the one-hot vectors of ``labels`` [rows]; ``options`` are those of a `Store`."""
        store = cls(len(labels), num_classes, **options).to(labels.device)
        store.write_labels(store.held_rows(), labels if store.owned is None else labels[store.owned])
        return store

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], columns: int) -> Store:
        """The table that holds these tensors, as `tensors` gave them; they are not copied."""
        form = _form_of(tensors, columns)
        if form is None:
            shapes = {name: list(t.shape) for name, t in tensors.items()}
            raise InputError(f"the tensors of a table must belong to {columns} columns; got {shapes}.")
        k = form.k if isinstance(form, TopK) else None
        store = cls(0, columns, torch.float32 if form.name == "half" else form.dtype, form=form.name, k=k)
        store._buffers.update(tensors)
        store.rows = len(next(iter(tensors.values())))
        return store.to(next(iter(tensors.values())).device)

    def __len__(self) -> int:
        return self.rows

    @property
    def form(self) -> FormName:
        return self._form.name

    @property
    def device(self) -> torch.device:
        """Where the rows are handed out."""
        return self.here.device

    @property
    def bytes_per_row(self) -> float:
        """What a row takes, in memory or on disk."""
        tensors = self.tensors().values()
        return sum(t.numel() * t.element_size() for t in tensors) / max(len(next(iter(tensors))), 1)

    def like(self) -> Store:
        """An empty table of the same size and form, for the same rows and in the same place."""
        k = self._form.k if isinstance(self._form, TopK) else None
        folder = self._form.folder if isinstance(self._form, Disk) else None
        dtype = self._form.dtype if self.form == "dense" else torch.float32
        store = Store(self.rows, self.columns, dtype, form=self.form, owned=self.owned, k=k, folder=folder)
        return store.to(self.device)

    def read(self, index: Tensor) -> Tensor:
        """The rows at ``index``, as a copy."""
        return self._form.read(self._held, self._slot(index))

    @torch.no_grad()
    def write(self, index: Tensor, rows: Tensor) -> None:
        """Replace the rows at ``index``."""
        self._form.write(self._held, self._slot(index), rows.detach())

    @torch.no_grad()
    def ema(self, index: Tensor, rows: Tensor, momentum: float) -> Tensor:
        """Move the rows at ``index`` towards ``rows`` and return them: t <- momentum t + (1 - momentum) rows.

        They are returned in full; a form that cannot keep all of a row keeps what it can.
        """
        return self._form.ema(self._held, self._slot(index), rows.detach(), 1.0 - momentum)

    @torch.no_grad()
    def write_labels(self, index: Tensor, labels: Tensor) -> None:
        """Replace the rows at ``index`` by the one-hot vectors of ``labels``."""
        size = block_rows(self._form.kept_columns)
        for part, label in zip(index.split(size), labels.split(size), strict=True):
            self._form.write_labels(self._held, self._slot(part), label.long())

    def held_rows(self) -> Tensor:
        """The rows that are held here, in order."""
        return torch.arange(self.rows, device=self.device) if self.owned is None else self.owned

    def among_held(self, index: Tensor) -> Tensor:
        """Those of the rows ``index`` that are held here."""
        return index if self.owned is None else index[torch.isin(index, self.owned)]

    def blocks(self, size: int | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """The rows that are held here, piece by piece, as (index, rows): the whole table may not fit."""
        for index in self.held_rows().split(size or self._block()):
            yield index, self.read(index)

    def argmax(self) -> Tensor:
        """The column of the largest entry of every row, [rows]."""
        return self.top()[1]

    def top(self) -> tuple[Tensor, Tensor]:
        """The largest entry of every row and its column, [rows] each."""
        values, columns = self._column(), self._column(torch.int64)
        for place, slot in self._slots():
            values[place], columns[place] = self._form.top(self._held, slot)
        return self._everybody(values), self._everybody(columns)

    def at(self, columns: Tensor) -> Tensor:
        """One entry of every row, that in the given one of ``columns`` [rows], [rows]."""
        mine = columns if self.owned is None else columns[self.owned]
        values = self._column()
        for place, slot in self._slots():
            values[place] = self._form.at(self._held, slot, mine[place])
        return self._everybody(values)

    def full(self) -> Tensor:
        """The whole table as one tensor, for whoever knows that it fits."""
        kind = self._form.dtype if self.form == "dense" else torch.float32
        rows = torch.empty(self._count(), self.columns, dtype=kind, device=self.device)
        first = 0
        for _, block in self.blocks():
            rows[first : first + len(block)] = block
            first += len(block)
        return self._everybody(rows)

    def tensors(self) -> dict[str, Tensor]:
        """What is held, as it is stored: the first dimension is the row, in the order of `held_rows`."""
        return {name: self._held[name] for name in self._form.shapes(0)}

    @torch.no_grad()
    def load(self, index: Tensor, tensors: Mapping[str, Tensor]) -> None:
        """Put back rows of `tensors`, of this or of another table of as many columns; its form may be another one."""
        theirs = _form_of(tensors, self.columns)
        ours = self._form.shapes(len(index))
        slot = self._slot(index.to(self.device))
        if {name: (tuple(t.shape), t.dtype) for name, t in tensors.items()} == ours:
            for name, tensor in tensors.items():
                place = self._held[name]
                place.index_copy_(0, slot.to(place.device), tensor.to(place.device))
            return
        wrong = [t for t in tensors.values() if t.shape[:1] != index.shape]
        if theirs is None or wrong:
            shapes: Any = {name: list(t.shape) for name, t in tensors.items()}
            shapes = shapes["table"] if shapes.keys() == {"table"} else shapes
            raise InputError(
                f"a saved table must have the rows and columns of the training set, {[len(index), self.columns]}; "
                f"got {shapes}. It belongs to other data."
            )
        for part in torch.arange(len(index)).split(self._block()):
            self._form.write(self._held, slot[part.to(slot.device)], theirs.read(tensors, part).to(self.device))

    @property
    def _held(self) -> dict[str, Tensor]:
        return cast(dict[str, Tensor], self._buffers)

    def _slot(self, index: Tensor) -> Tensor:
        """The places of rows among those that are held."""
        if self.owned is None:
            return index
        slot = torch.searchsorted(self.owned, index).clamp_(max=max(len(self.owned) - 1, 0))
        if not torch.equal(self.owned[slot], index):
            strange = index[self.owned[slot] != index]
            raise InputError(
                f"index must name rows that this process holds; got row {int(strange[0])}, which another one holds."
            )
        return slot

    def _count(self) -> int:
        """How many rows are held here."""
        return self.rows if self.owned is None else len(self.owned)

    def _column(self, dtype: torch.dtype | None = None) -> Tensor:
        """Room for one number of each row that is held: made in one piece, as many small ones would break up memory."""
        kind = self._form.dtype if self.form == "dense" else torch.float32
        return torch.empty(self._count(), dtype=dtype or kind, device=self.device)

    def _slots(self) -> Iterator[tuple[slice, Tensor]]:
        """The places of all rows that are held, some at a time."""
        size = max(1, min(BLOCK, CACHED // self._form.kept_columns))
        for first in range(0, self._count(), size):
            place = slice(first, min(first + size, self._count()))
            yield place, torch.arange(place.start, place.stop, device=self.device)

    def _block(self) -> int:
        return block_rows(self.columns)

    def _everybody(self, mine: Tensor) -> Tensor:
        """What every process has worked out for its own rows, for all rows."""
        return mine if self.owned is None else current().gather_rows(self.owned, mine, self.rows)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Store:
        """Move to another device; a table on disk stays where it is."""
        still = {} if self._form.moves else self.tensors()
        for name in still:
            del self._buffers[name]
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._buffers.update(still)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Store:
        """A table of its own; the copy of one on disk is on disk."""
        twin = self.like()
        for name, tensor in self.tensors().items():
            twin._held[name].copy_(tensor)
        twin.train(self.training)
        memo[id(self)] = twin
        return twin


def block_rows(columns: int) -> int:
    """How many rows of so many columns are worked on at once."""
    return max(1, min(BLOCK, BLOCK_NUMBERS // max(columns, 1)))


def _form(name: FormName, columns: int, dtype: torch.dtype, k: int | None, folder: Path | None) -> Form:
    if name not in get_args(FormName):
        raise ConfigError(f"form must be one of {', '.join(get_args(FormName))}; got {name!r}.")
    if name != "dense" and dtype != torch.float32:
        raise ConfigError(f"a table of {dtype} must have the form dense; got {name!r}.")
    if k is not None and (k < 1 or name != "top-k"):
        raise ConfigError(f"k must be at least 1, and goes with the form top-k; got {k} with {name!r}.")
    if name == "half":
        return Half(columns)
    if name == "disk":
        return Disk(columns, folder)
    if name == "top-k":
        return Whole(columns) if k is None and Whole.fits(columns) else TopK(columns, k)
    return Form(columns, dtype)


def _form_of(tensors: Held, columns: int) -> Form | None:
    """How to read saved tensors; None if they cannot be those of a table with so many columns."""
    table, values = tensors.get("table"), tensors.get("values")
    if table is not None:
        form = Half(columns) if table.dtype == torch.float16 else Form(columns, table.dtype)
    elif values is not None and values.dim() == 2 and values.shape[1] > 0:
        form = TopK(columns, values.shape[1])
    else:
        return None
    rows = next(iter(tensors.values())).shape[:1].numel()  # of a single number: 1, and that is no row
    found = {name: (tuple(t.shape), t.dtype) for name, t in tensors.items()}
    return form if found == form.shapes(rows) else None


def _fitting(store: Store, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """A saved table may have another form; it belongs to one training set, and is refused if that is another one."""
    ours = store.tensors()
    saved = {name.removeprefix(prefix): part for name, part in state.items() if name.startswith(prefix)}
    if not saved or {name: part.shape for name, part in saved.items()} == {n: t.shape for n, t in ours.items()}:
        return
    store.load(store.held_rows(), saved)
    for name in saved:
        del state[prefix + name]
    state.update({prefix + name: tensor for name, tensor in ours.items()})  # they are in place already
