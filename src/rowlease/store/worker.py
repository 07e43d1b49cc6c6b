"""The calls of sql/*/worker: register workers, and unregister them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from rowlease.model import SharedKind
from rowlease.store.calls import Calls


class WorkerCalls(Calls):
    """Registers workers; see `rowlease.store.Store`."""

    def worker_heartbeat(
        self,
        worker_id: str,
        *,
        host: str,
        pid: int,
        version: str,
        queues: Sequence[str],
        slots: int,
        busy: int,
        consumer_priority: int = 0,
        kinds: Mapping[str, str] | None = None,
    ) -> None:
        """Report that a worker is alive, its load, and the kinds that it knows.

        Args:
            kinds: for each kind, a text that tells its task from others of this name; None means
                that the worker may know every kind.
        """
        self._call(
            "worker_heartbeat",
            p_worker_id=worker_id,
            p_host=host,
            p_pid=pid,
            p_version=version,
            p_queue_names=list(queues),
            p_slots=slots,
            p_busy=busy,
            p_consumer_priority=consumer_priority,
            p_kinds=None if kinds is None else json.dumps(kinds),
        )

    def set_dead_letter_tasks(
        self, queues: Sequence[str], tasks: Mapping[str, tuple[str, str] | None]
    ) -> None:
        """Record which tasks run when requests of these queues become dead letters.

        Args:
            tasks: for each kind of the worker the queue and the kind of the task's requests, or
                None.
        """
        self._call(
            "set_dead_letter_tasks",
            p_queue_names=list(queues),
            p_kinds=list(tasks),
            p_task_queues=[one and one[0] for one in tasks.values()],
            p_task_kinds=[one and one[1] for one in tasks.values()],
        )

    def list_shared_kinds(self) -> list[SharedKind]:
        """The kinds that live workers of one queue have for different tasks."""
        return self._values(SharedKind, "list_shared_kinds")

    def remove_worker(self, worker_id: str) -> None:
        """Unregister a worker."""
        self._call("remove_worker", p_worker_id=worker_id)
