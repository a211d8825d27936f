"""How a command is asked to stop: Ctrl-C, and the SIGTERM of a cluster."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
GRACE = 4.0  # seconds that SIGTERM leaves to finish what is being written; clusters kill after 30 or so
SAME = 0.5  # seconds within which two Ctrl-C are one: a launcher passes on what its children got already


class AskedToStop(KeyboardInterrupt):
    """Raised in the main thread by the first signal."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.code = 128 + number  # what a shell makes of a signal


@contextmanager
def stoppable(last_words: str) -> Iterator[None]:
    """Let a first signal be an exception, so that what is being written gets finished, and a second one the end.

    SIGTERM is the end after a few seconds, too. It may come at any moment, because files are put in place whole. The
    watching is done by a thread: the main one hears of signals only between two calls, and a call can take long.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Python handles signals in the main thread only
        return
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        if not asked:
            asked.append(number)
            raise AskedToStop(number)

    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    before = {number: signal.signal(number, ask) for number in SIGNALS}
    outlet = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(ours, last_words), daemon=True).start()
    try:
        yield
    finally:
        if not asked:  # else the watching goes on until the process is gone
            signal.set_wakeup_fd(outlet)
            for number, handler in before.items():
                signal.signal(number, handler)
            theirs.close()


def _watch(ours: socket.socket, last_words: str) -> None:
    first = 0.0
    while content := ours.recv(1):
        number = content[0]
        if number not in SIGNALS:
            continue
        if not first:
            first = time.monotonic()
            if number == signal.SIGTERM:
                timer = threading.Timer(GRACE, _end, (number, last_words))
                timer.daemon = True
                timer.start()
        elif time.monotonic() - first > SAME:
            _end(number, last_words)
    ours.close()


def _end(number: int, last_words: str) -> None:
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"\n{last_words}\n".encode())
    os._exit(128 + number)
