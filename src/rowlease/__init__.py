"""A job queue in one SQL table.

    from rowlease import Client, Worker, task

Each name is imported when it is first used, so that the command line starts quickly.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rowlease.async_client import AsyncClient, AsyncProducer
    from rowlease.async_handle import AsyncHandle
    from rowlease.client import Client, Producer
    from rowlease.codec import register_type
    from rowlease.context import current
    from rowlease.database import connect
    from rowlease.errors import (
        DeadLetter,
        EnqueueUnknown,
        LeaseLost,
        NoResult,
        QueueFull,
        Retry,
        RowleaseError,
        Snooze,
    )
    from rowlease.handle import Handle
    from rowlease.middleware import Middleware, add_middleware
    from rowlease.queue_settings import Queue
    from rowlease.requests import TaskRequest, untyped_request
    from rowlease.tasks import Task, task
    from rowlease.worker import Worker

__all__ = [
    "AsyncClient",
    "AsyncHandle",
    "AsyncProducer",
    "Client",
    "DeadLetter",
    "EnqueueUnknown",
    "Handle",
    "LeaseLost",
    "Middleware",
    "NoResult",
    "Producer",
    "Queue",
    "QueueFull",
    "Retry",
    "RowleaseError",
    "Snooze",
    "Task",
    "TaskRequest",
    "Worker",
    "add_middleware",
    "connect",
    "current",
    "register_type",
    "task",
    "untyped_request",
]

_HOMES = {
    "AsyncClient": "rowlease.async_client",
    "AsyncHandle": "rowlease.async_handle",
    "AsyncProducer": "rowlease.async_client",
    "Client": "rowlease.client",
    "DeadLetter": "rowlease.errors",
    "EnqueueUnknown": "rowlease.errors",
    "Handle": "rowlease.handle",
    "LeaseLost": "rowlease.errors",
    "Middleware": "rowlease.middleware",
    "NoResult": "rowlease.errors",
    "Producer": "rowlease.client",
    "Queue": "rowlease.queue_settings",
    "QueueFull": "rowlease.errors",
    "Retry": "rowlease.errors",
    "RowleaseError": "rowlease.errors",
    "Snooze": "rowlease.errors",
    "Task": "rowlease.tasks",
    "TaskRequest": "rowlease.requests",
    "Worker": "rowlease.worker",
    "add_middleware": "rowlease.middleware",
    "connect": "rowlease.database",
    "current": "rowlease.context",
    "register_type": "rowlease.codec",
    "task": "rowlease.tasks",
    "untyped_request": "rowlease.requests",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'rowlease' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
