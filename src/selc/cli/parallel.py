"""Commands under torchrun: the processes join, one of them speaks, and an error in any of them ends all.

torchrun says in the environment how many processes there are. Each of them runs the same command. The first to meet an
error says so; the others notice that it has gone, and leave without a word.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from datetime import timedelta
from typing import Any, NoReturn

from selc.cli.common import speaking
from selc.errors import ConfigError, SelcError

# One process may read data for hours while the others wait. Who has died is noticed by the lost connection, at once.
WAIT = timedelta(days=1)
ERROR = "selc/error"
LOST = ("gloo", "nccl", "connection", "socket", "tcpstore", "process group", "processgroup")  # in messages of torch


def processes() -> int:
    """How many processes the launcher has started."""
    text = os.environ.get("WORLD_SIZE", "1")
    if not text.isdigit() or int(text) < 1:
        raise ConfigError(f"WORLD_SIZE must be the number of processes; got {text!r}. Start them with torchrun.")
    return int(text)


def restarted() -> bool:
    """Whether torchrun has started the processes again after one of them was lost."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") or 0) > 0


@contextmanager
def together() -> Iterator[None]:
    """A command in one process, or in each of several that work together."""
    with speaking():
        size = processes()
        if size > 1:
            missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
            if missing:
                raise ConfigError(
                    f"{missing[0]} must be set beside WORLD_SIZE, which is {size}; got none. Start the processes with "
                    "torchrun, or unset WORLD_SIZE."
                )
        else:
            yield
            return
    with ExitStack() as stack:
        if os.environ["RANK"] != "0":
            stack.enter_context(redirect_stdout(stack.enter_context(open(os.devnull, "w"))))
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
        yield from _joined()


def _joined() -> Iterator[None]:
    import torch
    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    from selc.world import current, local_rank

    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(local_rank())
    # Started again, the processes find the store of torchrun as they left it: each start has its own part of it.
    start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store: Any = None
    try:
        found, rank, size = next(iter(rendezvous("env://", timeout=WAIT)))
        store = dist.PrefixStore(f"selc/start-{start}", found)  # type: ignore[attr-defined]
        backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=WAIT)
        yield
        current().barrier()
    except SelcError as error:
        _end(store, error.for_command)
    except (RuntimeError, ValueError) as error:
        if not any(word in str(error).lower() for word in LOST):
            raise
        _end(
            store,
            "every process must stay until the end; got a training from which one has gone. What was saved is intact: "
            "torchrun --max-restarts starts again by itself, else go on with `selc resume`.",
        )
    dist.destroy_process_group()
    _leave(0)


def _end(store: Any, sentence: str) -> None:
    """Say what went wrong, unless another process has said something already, and leave."""
    try:
        first = store is None or store.add(ERROR, 1) == 1
    except RuntimeError:  # the store went with the process that held it
        first = True
    if first:
        print(f"error: {sentence}", file=sys.stderr, flush=True)
    _leave(2)


def _leave(code: int) -> NoReturn:
    """Everything is written: go without what Python does at its end.

    Now and then a thread of torch's backend is still there then, and the process is aborted although all went well.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
