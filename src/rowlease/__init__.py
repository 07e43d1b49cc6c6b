"""A job queue in one SQL table.

    from rowlease import Client, Worker, task

Each name is imported when it is first used, so that the command line starts quickly.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rowlease.client.async_client import AsyncClient as AsyncClient
    from rowlease.client.async_client import AsyncProducer as AsyncProducer
    from rowlease.client.async_handle import AsyncBatch as AsyncBatch
    from rowlease.client.async_handle import AsyncHandle as AsyncHandle
    from rowlease.client.batch import Batch as Batch
    from rowlease.client.client import Client as Client
    from rowlease.client.client import Producer as Producer
    from rowlease.client.database import connect as connect
    from rowlease.client.handle import Handle as Handle
    from rowlease.context import current as current
    from rowlease.declared_queues import Queue as Queue
    from rowlease.errors import DeadLetter as DeadLetter
    from rowlease.errors import EnqueueUnknown as EnqueueUnknown
    from rowlease.errors import LeaseLost as LeaseLost
    from rowlease.errors import NoResult as NoResult
    from rowlease.errors import QueueFull as QueueFull
    from rowlease.errors import Retry as Retry
    from rowlease.errors import RowleaseError as RowleaseError
    from rowlease.errors import Snooze as Snooze
    from rowlease.lifespans import lifespan as lifespan
    from rowlease.log_fields import RequestFields as RequestFields
    from rowlease.middleware import Middleware as Middleware
    from rowlease.middleware import add_middleware as add_middleware
    from rowlease.tasks.chains import chain as chain
    from rowlease.tasks.codec import register_type as register_type
    from rowlease.tasks.requests import TaskRequest as TaskRequest
    from rowlease.tasks.requests import untyped_request as untyped_request
    from rowlease.tasks.task import Task as Task
    from rowlease.tasks.task import task as task
    from rowlease.worker import Worker as Worker

    __version__: str

#: The public names, by their modules.
_NAMES = {
    "client.async_client": "AsyncClient AsyncProducer",
    "client.async_handle": "AsyncBatch AsyncHandle",
    "client.batch": "Batch",
    "client.client": "Client Producer",
    "client.database": "connect",
    "client.handle": "Handle",
    "context": "current",
    "declared_queues": "Queue",
    "errors": "DeadLetter EnqueueUnknown LeaseLost NoResult QueueFull Retry RowleaseError Snooze",
    "lifespans": "lifespan",
    "log_fields": "RequestFields",
    "middleware": "Middleware add_middleware",
    "tasks.chains": "chain",
    "tasks.codec": "register_type",
    "tasks.requests": "TaskRequest untyped_request",
    "tasks.task": "Task task",
    "worker": "Worker",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"rowlease.{_HOMES[name]}"), name)
    if name == "__version__":
        from importlib.metadata import version

        return version("rowlease")
    raise AttributeError(f"module 'rowlease' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
