"""A job queue in one SQL table.

    from rowlease import Client, Worker, task

Each name is imported when it is first used, so that the command line starts quickly.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rowlease.client.async_client import AsyncClient, AsyncProducer
    from rowlease.client.async_handle import AsyncBatch, AsyncHandle
    from rowlease.client.batch import Batch
    from rowlease.client.client import Client, Producer
    from rowlease.client.database import connect
    from rowlease.client.handle import Handle
    from rowlease.context import current
    from rowlease.declared_queues import Queue
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
    from rowlease.middleware import Middleware, add_middleware
    from rowlease.tasks.codec import register_type
    from rowlease.tasks.requests import TaskRequest, untyped_request
    from rowlease.tasks.task import Task, task
    from rowlease.worker import Worker

__all__ = [
    "AsyncBatch",
    "AsyncClient",
    "AsyncHandle",
    "AsyncProducer",
    "Batch",
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
    "AsyncBatch": "rowlease.client.async_handle",
    "AsyncClient": "rowlease.client.async_client",
    "AsyncHandle": "rowlease.client.async_handle",
    "AsyncProducer": "rowlease.client.async_client",
    "Batch": "rowlease.client.batch",
    "Client": "rowlease.client.client",
    "DeadLetter": "rowlease.errors",
    "EnqueueUnknown": "rowlease.errors",
    "Handle": "rowlease.client.handle",
    "LeaseLost": "rowlease.errors",
    "Middleware": "rowlease.middleware",
    "NoResult": "rowlease.errors",
    "Producer": "rowlease.client.client",
    "Queue": "rowlease.declared_queues",
    "QueueFull": "rowlease.errors",
    "Retry": "rowlease.errors",
    "RowleaseError": "rowlease.errors",
    "Snooze": "rowlease.errors",
    "Task": "rowlease.tasks.task",
    "TaskRequest": "rowlease.tasks.requests",
    "Worker": "rowlease.worker",
    "add_middleware": "rowlease.middleware",
    "connect": "rowlease.client.database",
    "current": "rowlease.context",
    "register_type": "rowlease.tasks.codec",
    "task": "rowlease.tasks.task",
    "untyped_request": "rowlease.tasks.requests",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'rowlease' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
