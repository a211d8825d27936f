"""Work beside the training, one piece at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Background:
    """A thread that comes and goes; an error that it met is raised where somebody waits for it."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def start(self, work: Callable[[], None]) -> None:
        self.wait()
        self._thread = threading.Thread(target=self._guarded, args=(work,), daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait for the work; an error that it met is raised here."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # it is raised by `wait`
            self._error = error
