"""Runs workers under load, meddles at random, and checks the history of it all.

Workers are processes of their own: their tasks run in threads or in child processes.
All connections go through a proxy. The faults follow from the seed; the moments do not.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from datetime import timedelta
from itertools import count
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil
import psycopg

from rowlease import Client, EnqueueUnknown, Handle, TaskRequest, untyped_request
from rowlease.errors import StoreConflict, StoreError
from tests.pooler import Pooler
from tests.stress import fault_tasks
from tests.stress.history import (
    STEP,
    Asked,
    History,
    Ordered,
)
from tests.stress.injections import ASK_TO_REFUSE, ENDED, REFUSED
from tests.stress.meddler import CutOff
from tests.stress.replicas import PROCESSES, Server, connect, until

#: The executor of each worker.
WORKERS = ("thread", "process", "thread", "thread", "thread", "thread")
#: Seconds that a worker is stopped: its leases run out meanwhile.
STOPPED = fault_tasks.LEASE.total_seconds() + 0.3
#: How many workers may be stopped at once.
MOST_STOPPED = 4
#: Whether more requests wait than workers soon run; the producer pauses then.
CROWDED = "select count(*) > 80 from rowlease.queue where status <> 'Failed'"
#: How long a session waits until it looks for a deadlock, which it does once.
DEADLOCK_SECONDS = 0.3
#: A claim that is not on disk is lost in a crash of the server: the log is written rarely.
SETTINGS = {
    "synchronous_commit": "on",
    "wal_writer_delay": "10s",
    "max_connections": "80",
    "deadlock_timeout": f"{DEADLOCK_SECONDS}s",
    "log_error_verbosity": "terse",  # for ENDED
}
#: How old the snapshot of a producer's own transaction is, in seconds.
OLD_SNAPSHOT = 0.02
#: How long all connections of the server are taken, in seconds.
EXHAUSTED = 0.3
CLOCK = """create or replace function rowlease.now() returns timestamptz language sql volatile
    return clock_timestamp() + interval '{} s'"""
LEASED = "select from rowlease.queue where status = 'Processing'"
#: What is locked by a session that waits for another one.
HELD = """select objid::int from pg_locks where locktype = 'advisory' and objsubid = 2 and granted
    and {} = any(pg_blocking_pids(pid))"""
MAX_CRASHES = 5
QUEUE = f"""{{"max_attempts": 10, "max_crashes": {MAX_CRASHES},
    "retry_base_ms": 50, "retry_cap_ms": 500}}"""
SESSIONS = (
    "select pid from pg_stat_activity where backend_type = 'client backend'"
    " and application_name like 'rowlease%'"
)


CALLS_BETWEEN_CRASHES = 20
#: The processes that hold leases.
HOLDERS = """select distinct split_part(locked_by, ':', 2)::int from rowlease.queue
    where status = 'Processing'"""
#: The processes of workers that the database knows.
KNOWN = "select split_part(worker_id, ':', 2)::int from rowlease.worker"


class Run:
    """A server, its workers and one producer.

    Args:
        pooler: the proxy by way of which they reach the server, if there is one.
    """

    def __init__(
        self,
        server: Server,
        wire: CutOff,
        ledger: Path,
        draw: random.Random,
        pooler: Pooler | None = None,
    ) -> None:
        self.server, self.wire, self.ledger, self.draw = server, wire, ledger, draw
        self.pooler = pooler
        self.history = History(max_crashes=MAX_CRASHES, pays=lambda row: row.number in self.paid)
        self.paid: set[int] = set()
        self.calls_at_crash = 0
        self.clock = 0.0
        self.log_read = 0
        self.workers: list[BaseProcess] = []
        self.stopped: dict[int, threading.Timer] = {}
        self.stop = threading.Event()
        self._sessions: dict[int, psycopg.Connection] = {}

    def ask(self, text: str) -> list[tuple[Any, ...]]:
        """The rows of a statement, as the superuser, on a session that each thread keeps."""
        session = self._sessions.get(thread := threading.get_ident())
        if session is None or session.closed:
            session = connect(self.server.dsn)
            self._sessions[thread] = session
        return session.execute(text).fetchall()

    def end(self) -> None:
        """Kill what is left."""
        self.stop.set()
        for timer in [*self.stopped.values()]:
            timer.cancel()
        for worker in self.workers:
            worker.kill()
        for session in self._sessions.values():
            session.close()

    # -- the load

    def produce(self) -> None:
        """Enqueue in all ways, one call after the other."""
        draw, numbers = random.Random(self.draw.random()), count()
        with Client(self.wire.dsn, retry_for=timedelta(seconds=5)) as client:
            while not self.stop.wait(draw.uniform(0, 0.03)):
                with suppress(psycopg.OperationalError):
                    if self.ask(CROWDED) == [(True,)]:
                        continue
                handles = self.enqueue(client, draw, numbers)
                if handles and draw.random() < 0.05:
                    self.history.add(Ordered(handles[0].request_id, "cancel"))
                    with suppress(StoreError):
                        handles[0].cancel()

    def enqueue(
        self, client: Client, draw: random.Random, numbers: Iterator[int]
    ) -> list[Handle[Any]]:
        kind = draw.choice(["pay", "pay", "answer", "stumble"])
        dedup = f"key {draw.randrange(4)}" if draw.random() < 0.1 else None
        called = tuple(next(numbers) for _ in range(1 if dedup else draw.choice([1, 1, 2, 5])))
        if kind == "pay":
            self.paid.update(called)
        group = f"group {draw.randrange(3)}" if draw.random() < 0.15 else None
        delay = timedelta(seconds=draw.uniform(0, 0.2)) if draw.random() < 0.1 else None
        requests = [
            untyped_request(
                kind, {"n": n}, priority=draw.randrange(3), delay=delay,
                dedup_key=dedup, group_key=group,
            )
            for n in called
        ]  # fmt: skip
        batch = f"batch {called[0]}" if draw.random() < 0.1 and not dedup else None
        try:
            if draw.random() < 0.2:
                handles = self.enqueue_in_transaction(client, requests, batch)
            else:
                handles = client.enqueue_many(requests, batch_id=batch)
        except EnqueueUnknown:
            self.history.add(Asked(called, "unknown", dedup=dedup))
        except (StoreError, psycopg.OperationalError):
            self.history.add(Asked(called, "refused", dedup=dedup))
        else:
            ids = tuple(handle.request_id for handle in handles)
            self.history.add(Asked(called, str(handles[0].outcome), ids, dedup=dedup))
            return handles
        return []

    def enqueue_in_transaction(
        self, client: Client, requests: list[TaskRequest[Any]], batch: str | None
    ) -> list[Handle[Any]]:
        """In a transaction of the producer, which is repeated if it was rolled back.

        It has the isolation level that is the server's default, and a snapshot that is not new.
        """
        ends = time.monotonic() + 5
        while True:
            with closing(psycopg.connect(self.wire.dsn, connect_timeout=5)) as own:
                own.execute("select 1")
                time.sleep(OLD_SNAPSHOT)
                try:
                    handles = client.bind(own).enqueue_many(requests, batch_id=batch)
                    own.commit()
                except (StoreConflict, psycopg.errors.SerializationFailure) as error:
                    if time.monotonic() > ends:
                        raise StoreConflict from error
                except psycopg.OperationalError as error:
                    raise EnqueueUnknown(receipt="") from error
                else:
                    return handles

    # -- workers

    def start_worker(self, executor: str) -> None:
        arguments = (self.wire.dsn, self.ledger, executor)
        worker = PROCESSES.Process(
            target=fault_tasks.work, args=arguments, daemon=True, name=executor
        )
        worker.start()
        self.workers.append(worker)

    def is_known(self) -> bool:
        """Whether the database knows all workers that have not ended."""
        running = {one.pid for one in self.workers if one.is_alive()}
        return running <= {pid for (pid,) in self.server.ask(KNOWN)}

    def kill_worker(self) -> None:
        """Kill one that holds leases, and start another."""
        worker = self.halt()
        self.workers.remove(worker)
        worker.kill()
        worker.join()
        self.start_worker(worker.name)

    def stop_worker(self) -> None:
        """Stop one that holds leases; its children go on, and it does when its leases are over."""
        until("a worker may be stopped", lambda: len(self.stopped) < MOST_STOPPED)
        pid = self.halt().pid or 0
        self.stopped[pid] = threading.Timer(STOPPED, self.go_on, [pid])
        self.stopped[pid].start()

    def halt(self) -> BaseProcess:
        """Stop one that holds leases, and is not stopped."""
        holders = {pid for (pid,) in self.ask(HOLDERS)}
        found = [one for one in self.workers if one.pid in holders and one.pid not in self.stopped]
        if not found:
            raise NothingDone
        worker = self.draw.choice(found)
        pid = worker.pid or 0
        os.kill(pid, signal.SIGSTOP)
        if (pid,) not in self.ask(HOLDERS):
            os.kill(pid, signal.SIGCONT)
            raise NothingDone
        return worker

    def go_on(self, pid: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        self.stopped.pop(pid, None)

    def kill_child(self) -> None:
        parents = [one.pid for one in self.workers if one.name == "process"]
        with suppress(psutil.Error):
            children = [child for pid in parents for child in psutil.Process(pid).children()]
            if children:
                self.draw.choice(children).kill()
                return
        raise NothingDone

    # -- sessions, round trips, the server

    def end_statement(self, how: str) -> None:
        """End one that a session executes; the server's log says whether it was in time."""
        self.ended(how)
        if self.ask(f"select witness.hit('{how}')") != [(True,)]:
            raise NothingDone
        ends = time.monotonic() + 0.2
        while not self.ended(how):
            if time.monotonic() > ends:
                raise NothingDone
            time.sleep(0.002)

    def ended(self, how: str) -> bool:
        """Whether the log has such an end since the last look."""
        log = self.server.log.read_bytes()[self.log_read :]
        whole = log[: log.rfind(b"\n") + 1]
        if found := ENDED[how].search(whole):
            self.log_read += found.end()
        return found is not None

    def cut(self, arrives: bool) -> None:
        self.wire.cut_next(arrives=arrives)
        until("a round trip is cut", lambda: self.wire.met)

    def exhaust(self) -> None:
        """Take every free connection of the server, and end one of the others."""
        with ExitStack() as held:
            while True:
                try:
                    one = psycopg.connect(self.server.dsn, autocommit=True)
                except psycopg.OperationalError:
                    break
                held.enter_context(closing(one))
            ends = time.monotonic() + EXHAUSTED
            sessions = one.execute(SESSIONS).fetchall()
            if not sessions:
                raise NothingDone
            one.execute("select pg_terminate_backend(%s)", self.draw.choice(sessions))
            while time.monotonic() < ends:
                with suppress(psycopg.OperationalError):
                    held.enter_context(closing(psycopg.connect(self.server.dsn)))

    def deadlock(self) -> None:
        """Lock leased requests, and then what a task has locked that waits for one of them."""
        with psycopg.connect(self.server.dsn) as own:
            # The worker's session is the one that the server ends.
            own.execute("set deadlock_timeout = '10s'; set lock_timeout = '2s'")
            own.execute(f"{LEASED} for update skip locked")
            ends = time.monotonic() + DEADLOCK_SECONDS / 2
            while not (found := self.ask(HELD.format(own.info.backend_pid))):
                if time.monotonic() > ends:
                    raise NothingDone
            try:
                own.execute(fault_tasks.LOCK, found[0])
            except psycopg.errors.LockNotAvailable:
                raise NothingDone from None
            own.rollback()

    def step_clock(self) -> None:
        """Step the database's clock, forward or back."""
        self.clock = 0.0 if self.clock else STEP
        self.server.ask(CLOCK.format(self.clock))

    def refuse(self, moment: str) -> None:
        """Have a transaction fail to serialize, at a statement or at its commit."""
        self.ask(ASK_TO_REFUSE.format(moment))
        until("a transaction is refused", lambda: self.ask(REFUSED.format(moment)) == [(True,)])

    def kill_pooler(self) -> None:
        """Kill the proxy, with the connections of all clients, and start it again."""
        assert self.pooler
        self.pooler.kill()
        self.pooler.start()

    def crash(self) -> None:
        """Crash when there was some load since the last time."""
        enough = self.calls_at_crash + CALLS_BETWEEN_CRASHES
        until("requests come in", lambda: len(self.history.events) >= enough)
        self.server.crash()
        self.calls_at_crash = len(self.history.events)


class NothingDone(Exception):
    """There was nothing to do it to."""


Faults = dict[str, tuple[Callable[[Run], None], int]]
#: Each fault, and how often the long form does it.
FAULTS: Faults = {
    "worker killed": (Run.kill_worker, 5000),
    "worker stopped beyond its leases": (Run.stop_worker, 3000),
    "child process killed": (Run.kill_child, 500),
    "session terminated in a statement": (lambda run: run.end_statement("terminate"), 10_000),
    "statement cancelled in time": (lambda run: run.end_statement("cancel"), 10_000),
    "cut before the server gets it": (lambda run: run.cut(arrives=False), 1000),
    "cut before the client gets the answer": (lambda run: run.cut(arrives=True), 1000),
    "database crash": (Run.crash, 200),
    "connections exhausted": (Run.exhaust, 200),
    "deadlock with a worker": (Run.deadlock, 200),
    "database clock stepped": (Run.step_clock, 200),
    "serialization failure in a statement": (lambda run: run.refuse("statement"), 2000),
    "serialization failure at a commit": (lambda run: run.refuse("commit"), 2000),
}
#: Faults of a proxy, for rounds that have one.
POOLER_FAULTS: Faults = {"pooler killed": (Run.kill_pooler, 100)}
