"""Progress: what running tasks report of themselves, written to the database."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from rowlease.errors import RowleaseError
from rowlease.events import Events, ProgressKept
from rowlease.model import LeasedRequest
from rowlease.store import Consuming
from rowlease.worker.retry_policy import is_about_what_was_sent, plain


class Running(Protocol):
    """A request that is held, and may run."""

    request: LeasedRequest

    def progress(self) -> tuple[float, str] | None: ...


class ProgressReporter:
    """Writes down what is new."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._written: dict[Running, tuple[float, str]] = {}

    def write(self, held: Collection[Running], store: Consuming) -> None:
        """Write what running tasks have reported since the last call.

        Where the database is away, the next call writes it. What it refuses is left out: nothing
        depends on it.
        """
        latest = {one: progress for one in held if (progress := one.progress())}
        news = [
            (one.request, *progress)
            for one, progress in latest.items()
            if self._written.get(one) != progress
        ]
        try:
            if news:
                self._events.emit(ProgressKept(_report(news, store)))
        except RowleaseError:
            return
        self._written = latest


def _report(news: list[tuple[LeasedRequest, float, str]], store: Consuming) -> int:
    """Write it down; one by one and in plain characters where something of it is refused."""
    try:
        return store.report_progress(news)
    except Exception as error:
        if not is_about_what_was_sent(error):
            raise
    kept = 0
    for request, fraction, note in news:
        try:
            kept += store.report_progress([(request, fraction, plain(note))])
        except Exception as error:
            if not is_about_what_was_sent(error):
                raise
    return kept
