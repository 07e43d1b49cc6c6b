"""Filters for links to lists of requests."""

from __future__ import annotations

from rowlease.filters.language import quote
from rowlease.model import DeadLetterGroup


def queue(name: str, status: str | None = None) -> str:
    """The requests of a queue, of one status or all."""
    return terms(queue=name, status=status)


def kind(name: str) -> str:
    """The requests of a kind."""
    return terms(kind=name)


def group(key: str) -> str:
    """The requests of a group."""
    return terms(group=key)


def load(load_id: str) -> str:
    """The requests of a load."""
    return terms(load=load_id)


def worker(worker_id: str) -> str:
    """The requests that a worker runs."""
    return terms(worker=worker_id, status="processing")


def dead(group: DeadLetterGroup) -> str:
    """The dead letters of a group."""
    return terms(
        queue=group.queue_name, kind=group.kind, status="failed", pattern=group.error_pattern
    )


def terms(**given: str | None) -> str:
    return " ".join(f"{key}:{quote(value)}" for key, value in given.items() if value is not None)
