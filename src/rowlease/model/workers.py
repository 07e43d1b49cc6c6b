"""Workers as the database knows them, and how long they may be silent."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

#: The seconds between two heartbeats.
HEARTBEAT = 5.0
#: The age of the last heartbeat, in seconds, at which a worker is shown as silent. Two heartbeats
#: are missing by then.
WORKER_SILENT = 3 * HEARTBEAT
#: The age of the last heartbeat, in seconds, at which a worker no longer counts as alive, as in the
#: view `workers`. From then on, a kind that only this worker knew is unknown. The workers of a
#: Spark pool end when this much time has passed since the heartbeat of their driver. No heartbeat
#: arrives during a failover of the database, but most failovers are shorter.
WORKER_GONE = 2 * WORKER_SILENT


class SharedKind(NamedTuple):
    """A kind that live workers of a queue have for different tasks.

    Attributes:
        task: one of these tasks: the place of its function, and its parameters.
        worker_id: one of the workers that have this task.
    """

    queue_name: str
    kind: str
    task: str
    worker_id: str


class WorkerState(NamedTuple):
    """A worker at its last heartbeat, in the column order of the routine `list_workers`.

    Attributes:
        silent: the time since the last heartbeat. A worker sends one every 5 s.
    """

    worker_id: str
    host: str
    pid: int
    version: str
    queue_names: tuple[str, ...]
    slots: int
    busy: int
    consumer_priority: int
    started_time: datetime
    silent: timedelta

    @property
    def is_silent(self) -> bool:
        """Whether heartbeats are missing."""
        return self.silent.total_seconds() > WORKER_SILENT

    @property
    def is_alive(self) -> bool:
        """Whether the worker counts as alive, as in the view `workers`."""
        return self.silent.total_seconds() < WORKER_GONE
