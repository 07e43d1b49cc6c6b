"""Airflow 3: an operator that enqueues a request, and waits for its result.

EnqueueOperator(
    task_id="resize", kind="resize", payload={"image": "a.png"}, conn_id="rowlease",
    deferrable=True,
)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from importlib import import_module
from typing import Any

from rowlease.client.async_client import AsyncClient
from rowlease.client.client import Client
from rowlease.client.handle import Handle
from rowlease.config import configured_dsn
from rowlease.errors import ConfigError, NoResult

_sdk: Any = import_module("airflow.sdk")
_triggers: Any = import_module("airflow.triggers.base")
AirflowException: Any = import_module("airflow.exceptions").AirflowException

#: The maximum number of characters in a dedup key.
MAX_KEY_CHARACTERS = 400


class EnqueueOperator(_sdk.BaseOperator):  # type: ignore[misc]
    """Enqueue a request, and return its result when it is complete.

    A request has the dedup key of its task instance. So if Airflow runs the task instance again
    while the first request waits or runs, no second request is enqueued, and the operator waits for
    the first. The task fails if the request becomes a dead letter or is cancelled.

    Args:
        kind: the name of the rowlease task.
        payload: its arguments, by name.
        conn_id: an Airflow connection to the database. None means the DSN in ROWLEASE_DSN or in the
            settings file, on the Airflow worker and on the triggerer.
        queue_name, priority, headers, max_attempts: options of the request.
        dedup_key: None means the key of the task instance.
        wait: false to return the request's id at once.
        deferrable: true to wait in Airflow's triggerer, which takes no worker slot.
        timeout: the longest time to wait; None means no limit.
    """

    template_fields: Sequence[str] = ("kind", "payload", "queue_name", "headers", "dedup_key")

    def __init__(
        self,
        *,
        kind: str,
        payload: Mapping[str, Any] | None = None,
        conn_id: str | None = None,
        queue_name: str = "default",
        priority: int = 0,
        headers: Mapping[str, str] | None = None,
        max_attempts: int | None = None,
        dedup_key: str | None = None,
        wait: bool = True,
        deferrable: bool = False,
        timeout: timedelta | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.kind = kind
        self.payload = payload
        self.conn_id = conn_id
        self.queue_name = queue_name
        self.priority = priority
        self.headers = headers
        self.max_attempts = max_attempts
        self.dedup_key = dedup_key
        self.wait = wait
        self.deferrable = deferrable
        self.timeout = timeout
        self._request_id: int | None = None

    def execute(self, context: Any) -> Any:
        """Enqueue the request; wait for it, or defer."""
        with Client(dsn_of(self.conn_id)) as client:
            handle = self._enqueue(client, self.dedup_key or key_of(context["ti"]))
            self._request_id = handle.request_id
            self.log.info("request %s: %s", handle.request_id, handle.outcome)
            if not self.wait:
                return handle.request_id
            if not self.deferrable:
                try:
                    return handle.result(self.timeout)
                except NoResult as error:
                    raise AirflowException(str(error)) from error
        self.defer(
            trigger=ResultTrigger(handle.request_id, self.conn_id),
            method_name="execute_complete",
            timeout=self.timeout,
        )

    def _enqueue(self, client: Client, dedup_key: str) -> Handle[Any]:
        """The request of this task instance: a new one, or the first one while it waits or runs."""
        while True:
            handle = client.enqueue_untyped(
                self.kind,
                self.payload,
                queue=self.queue_name,
                priority=self.priority,
                headers=self.headers,
                max_attempts=self.max_attempts,
                dedup_key=dedup_key,
            )
            if handle.request_id:
                return handle
            # The first request ended during the call, so there is no id to wait for.

    def execute_complete(self, context: Any, event: Mapping[str, Any]) -> Any:
        """Return the result that the trigger has sent."""
        if "error" in event:
            raise AirflowException(event["error"])
        return event["result"]

    def on_kill(self) -> None:
        """Cancel the request when Airflow kills the task. Needs the rights of an operator."""
        if self._request_id is not None:
            with Client(dsn_of(self.conn_id)) as client:
                client.get(self._request_id).cancel()


class ResultTrigger(_triggers.BaseTrigger):  # type: ignore[misc]
    """Waits for the end of a request in Airflow's triggerer."""

    def __init__(self, request_id: int, conn_id: str | None) -> None:
        super().__init__()
        self.request_id = request_id
        self.conn_id = conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class and its arguments. They contain no password."""
        name = f"{type(self).__module__}.{type(self).__qualname__}"
        return name, {"request_id": self.request_id, "conn_id": self.conn_id}

    async def run(self) -> AsyncIterator[Any]:
        """Wait, and send the result or the reason why there is none."""
        dsn = await _sdk.BaseHook.aget_connection(self.conn_id) if self.conn_id else None
        async with AsyncClient(configured_dsn() if dsn is None else _uri(dsn)) as client:
            try:
                result = await client.get(self.request_id).result()
            except NoResult as error:
                yield _triggers.TriggerEvent({"error": str(error)})
            else:
                yield _triggers.TriggerEvent({"result": result})


def dsn_of(conn_id: str | None) -> str:
    """The DSN of an Airflow connection, or else the configured one.

    Raises:
        ConfigError: there is no connection id, and no DSN is configured.
    """
    if conn_id is not None:
        return _uri(_sdk.BaseHook.get_connection(conn_id))
    found = configured_dsn()
    if found is None:
        raise ConfigError("no database: give the operator a conn_id, or set ROWLEASE_DSN")
    return found


def key_of(instance: Any) -> str:
    """The dedup key of a task instance: the same in each of its tries."""
    parts = (instance.dag_id, instance.run_id, instance.task_id, str(instance.map_index))
    key = "airflow/" + "/".join(parts)
    return key if len(key) <= MAX_KEY_CHARACTERS else f"airflow/{sha256(key.encode()).hexdigest()}"


def _uri(connection: Any) -> str:
    return str(connection.get_uri())
