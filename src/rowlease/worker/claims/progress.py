"""Writes the progress that running tasks report to the database."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from rowlease.errors import RowleaseError
from rowlease.events import Events, ProgressKept
from rowlease.model import LeasedRequest
from rowlease.store import Store
from rowlease.worker.call_retry_policy import ascii_only, is_caused_by_data


class Running(Protocol):
    """The members of a lease that the reporter uses."""

    request: LeasedRequest

    def progress(self) -> tuple[float, str] | None: ...


class ProgressReporter:
    """Writes the progress of tasks if it has changed since the last call of `write`."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._written: dict[Running, tuple[float, str]] = {}

    def write(self, held: Collection[Running], store: Store) -> None:
        """Write the progress that running tasks have reported since the last call.

        If the database is unavailable, nothing is written, and the next call tries again with the
        latest progress. Progress that the database refuses is skipped: no other data depends on it.
        """
        latest = {one: progress for one in held if (progress := one.progress())}
        changed = [
            (one.request, *progress)
            for one, progress in latest.items()
            if self._written.get(one) != progress
        ]
        try:
            if changed:
                self._events.emit(ProgressKept(_report(changed, store)))
        except RowleaseError:
            return
        self._written = latest


def _report(changed: list[tuple[LeasedRequest, float, str]], store: Store) -> int:
    """Write all reports in one call. If this call is refused, write each report alone, in ASCII."""
    try:
        return store.report_progress(changed)
    except Exception as error:
        if not is_caused_by_data(error):
            raise
    kept = 0
    for request, fraction, note in changed:
        try:
            kept += store.report_progress([(request, fraction, ascii_only(note))])
        except Exception as error:
            if not is_caused_by_data(error):
                raise
    return kept
