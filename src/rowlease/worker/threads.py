"""The threads of a worker, by name."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Thread

logger = logging.getLogger("rowlease")


class Threads:
    """Starts threads and waits for them.

    Args:
        failed: called when an error ends a thread, in that thread.

    Attributes:
        error: the first one that ended a thread.
    """

    def __init__(self, failed: Callable[[], object]) -> None:
        self._failed = failed
        self._threads: dict[str, Thread] = {}
        self.error: BaseException | None = None

    def start(self, name: str, run: Callable[..., object], *arguments: object) -> None:
        """Run this in a thread."""

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
        """Has this thread ended after so many seconds, or was it never started?"""
        if name not in self._threads:
            return True
        self._threads[name].join(within)
        return not self._threads[name].is_alive()
