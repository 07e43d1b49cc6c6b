"""Starts the threads of a worker, and waits for them to end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from threading import Thread

from rowlease.clock import now

logger = logging.getLogger("rowlease")


class Threads:
    """The threads of a worker, by name.

    Args:
        failed: a function that a thread calls when it ends with an error.

    Attributes:
        error: the first error that ended a thread, or None.
    """

    def __init__(self, failed: Callable[[], object]) -> None:
        self._failed = failed
        self._threads: dict[str, Thread] = {}
        self.error: BaseException | None = None

    def start(self, name: str, run: Callable[..., object], *arguments: object) -> None:
        """Call `run` in a new thread."""

        def guarded() -> None:
            try:
                run(*arguments)
            except BaseException as error:
                logger.debug("the thread %s failed", name, exc_info=True)
                self.error = self.error or error
                self._failed()

        thread = Thread(target=guarded, name=f"rowlease-{name}", daemon=True)
        thread.start()
        self._threads[name] = thread

    def has_ended(self, name: str, within: float) -> bool:
        """Wait up to `within` seconds for a thread to end. Return False if it still runs."""
        if name not in self._threads:
            return True
        self._threads[name].join(within)
        return not self._threads[name].is_alive()

    def wait(self, names: Iterable[str], within: float) -> None:
        """Wait up to `within` seconds for all of these threads to end."""
        until = now() + within
        for name in names:
            self.has_ended(name, max(0.0, until - now()))
