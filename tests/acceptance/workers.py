"""Runs workers in a thread or in a process, and waits for what they report."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from rowlease.events import Event, Events
from rowlease.model import NewRequest
from rowlease.store import Store
from rowlease.worker import Summary, Worker
from tests.acceptance.tasks import act, endless

PATIENCE = 60.0  # seconds; only a failing test waits that long


#: Renewed after a second, so that the worker soon learns the database's answer; a busy machine may
#: stall for the other two.
SHORT_LEASE = timedelta(seconds=3)


E = TypeVar("E", bound=Event)


Sql = Callable[..., list[tuple[Any, ...]]]


class Emitted:
    """The events of a worker; `first` waits for one."""

    def __init__(self) -> None:
        self.all: list[Event] = []
        self._new: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def __call__(self, event: Event) -> None:
        self._new.put(event)

    def first(
        self,
        kind: type[E],
        which: Callable[[E], bool] = lambda event: True,
    ) -> E:
        """Wait for the next event of this kind."""
        deadline = time.monotonic() + PATIENCE
        for event in self.all:
            if isinstance(event, kind) and which(event):
                self.all.remove(event)
                return event
        while True:
            left = deadline - time.monotonic()
            assert left > 0, f"no {kind.__name__} after {[type(e).__name__ for e in self.all[-9:]]}"
            try:
                event = self._new.get(timeout=left)
            except queue.Empty:
                continue
            if isinstance(event, kind) and which(event):
                return event
            self.all.append(event)

    def rest(self) -> list[Event]:
        """All events that no test has asked for, without waiting for more."""
        while not self._new.empty():
            self.all.append(self._new.get())
        return self.all


@contextmanager
def working(
    dsn: str | Store, tasks: Any = None, **settings: Any
) -> Iterator[tuple[Worker, Emitted]]:
    """A worker in a thread; at the end it is stopped, and running requests are abandoned."""
    emitted, events = Emitted(), Events()
    events.subscribe(emitted)
    tasks = tasks or [act, endless]
    worker = Worker(dsn, tasks, events=events, **{"concurrency": 1, **settings})
    errors = []

    def run() -> None:
        try:
            worker.run()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield worker, emitted
    finally:
        worker.stop()
        worker.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert not errors, errors


def drain(dsn: str | Store, **settings: Any) -> Summary:
    """Work in this thread until the queue is empty."""
    quiet = {"concurrency": 2, "events": Events(), **settings}
    return Worker(dsn, [act, endless], burst=True, **quiet).run()


@contextmanager
def worker_process(
    dsn: str, tasks: str = act.__module__, *, before: str = "", **settings: Any
) -> Iterator[subprocess.Popen[str]]:
    """A worker in a process of its own, whose log is in its stdout; killed at the end.

    The process runs `before` when it has imported the worker.
    """
    code = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        "import logging, datetime\n"
        "logging.basicConfig(level=logging.DEBUG, stream=sys.stdout, format='%(message)s')\n"
        "from rowlease.worker import Worker\n"
        f"{before}\n"
        f"print(Worker({dsn!r}, {tasks!r}, **{settings!r}).run(), flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str], word: str) -> str:
    """The next line of the log with this word."""
    assert process.stdout
    seen = []
    for text in process.stdout:
        seen.append(text)
        if word in text:
            return text
    raise AssertionError(f"no {word!r} in {''.join(seen)}")


def put(store: Store, *actions: Any, **options: Any) -> list[int]:
    """Enqueue one request for each action: its name, or its payload."""
    payloads = [{"do": action} if isinstance(action, str) else action for action in actions]
    requests = [
        NewRequest(**{"kind": "act", "payload": json.dumps(payload), **options})
        for payload in payloads
    ]
    return [answer.request_id or 0 for answer in store.enqueue_many("default", requests)]


def statuses(sql: Sql) -> dict[str, int]:
    return dict(sql("select status, count(*) from rowlease.requests group by 1"))


def errors(sql: Sql) -> dict[int, str]:
    found = sql("select request_id, last_error from rowlease.queue where last_error is not null")
    return dict(found)


def open_gate(gate: Path) -> None:
    gate.write_text("through")
