"""Runs workers under load, meddles at random, and checks the history of it all.

Workers are processes of their own: their tasks run in threads or in child processes.
All connections go through a proxy. The faults follow from the seed; the moments do not.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import timedelta
from itertools import count
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import psycopg

from rowlease import Client, EnqueueUnknown, Handle, untyped_request
from rowlease.errors import StoreError
from tests.stress import fault_tasks
from tests.stress.history import (
    STEP,
    Asked,
    Change,
    Fault,
    History,
    Ordered,
    Report,
    Told,
    check,
    lost,
)
from tests.stress.meddler import CutOff
from tests.stress.replicas import Seed, Server, until
from tests.stress.witness import kept, witness

#: The executor of each worker.
WORKERS = ("thread", "process", "thread")
#: Seconds between two faults, at most.
PAUSE = 0.2
#: Seconds that a worker is stopped: its leases run out meanwhile.
STOPPED = fault_tasks.LEASE.total_seconds() + 0.3
#: How many workers may be stopped at once.
MOST_STOPPED = 2
#: Whether more requests wait than workers soon run; the producer pauses then.
CROWDED = "select count(*) > 60 from rowlease.queue"
PATIENCE = 120.0
#: How long a session waits until it looks for a deadlock, which it does once.
DEADLOCK_SECONDS = 0.3
#: A claim that is not on disk is lost in a crash of the server: the log is written rarely.
SETTINGS = {
    "synchronous_commit": "on",
    "wal_writer_delay": "10s",
    "max_connections": "80",
    "deadlock_timeout": f"{DEADLOCK_SECONDS}s",
}
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
HOLDS = "select from rowlease.queue where status = 'Processing' and locked_by"


class Run:
    """A server, its workers and one producer."""

    def __init__(self, server: Server, wire: CutOff, ledger: Path, draw: random.Random) -> None:
        self.server, self.wire, self.ledger, self.draw = server, wire, ledger, draw
        self.history = History(max_crashes=MAX_CRASHES, pays=lambda row: row.number in self.paid)
        self.paid: set[int] = set()
        self.calls_at_crash = 0
        self.clock = 0.0
        self.workers: list[BaseProcess] = []
        self.stopped: dict[int, threading.Timer] = {}
        self.stop = threading.Event()
        # Its workers start in milliseconds: a process that has imported all is forked.
        self._processes = multiprocessing.get_context("forkserver")
        self._processes.set_forkserver_preload(["__main__", fault_tasks.__name__])

    # -- the load

    def produce(self) -> None:
        """Enqueue in all ways, one call after the other."""
        draw, numbers = random.Random(self.draw.random()), count()
        with Client(self.wire.dsn, retry_for=timedelta(seconds=5)) as client:
            while not self.stop.wait(draw.uniform(0, 0.03)):
                with suppress(psycopg.OperationalError):
                    if self.server.ask(CROWDED) == [(True,)]:
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
            handles = client.enqueue_many(requests, batch_id=batch)
        except EnqueueUnknown:
            self.history.add(Asked(called, "unknown", dedup=dedup))
        except StoreError:
            self.history.add(Asked(called, "refused", dedup=dedup))
        else:
            ids = tuple(handle.request_id for handle in handles)
            self.history.add(Asked(called, str(handles[0].outcome), ids, dedup=dedup))
            return handles
        return []

    # -- workers

    def start_worker(self, executor: str) -> None:
        arguments = (self.wire.dsn, self.ledger, executor)
        worker = self._processes.Process(
            target=fault_tasks.work, args=arguments, daemon=True, name=executor
        )
        worker.start()
        self.workers.append(worker)

    def pick(self) -> BaseProcess:
        """A worker that is not stopped."""
        return self.draw.choice([one for one in self.workers if one.pid not in self.stopped])

    def kill_worker(self) -> None:
        """Kill one that holds leases, and start another."""
        worker = self.pick()
        self.halt(worker)
        self.workers.remove(worker)
        worker.kill()
        worker.join()
        self.start_worker(worker.name)

    def stop_worker(self) -> None:
        """Stop one that holds leases; its children go on, and it does when its leases are over."""
        until("a worker may be stopped", lambda: len(self.stopped) < MOST_STOPPED)
        pid = self.halt(self.pick())
        self.stopped[pid] = threading.Timer(STOPPED, self.go_on, [pid])
        self.stopped[pid].start()

    def halt(self, worker: BaseProcess) -> int:
        """Stop it if it holds leases."""
        pid = worker.pid or 0
        os.kill(pid, signal.SIGSTOP)
        if not self.server.ask(f"{HOLDS} like '%:{pid}:%'"):
            os.kill(pid, signal.SIGCONT)
            raise NothingDone
        return pid

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

    def end_session(self, how: str) -> None:
        sessions = self.server.ask(SESSIONS)
        if not sessions:
            raise NothingDone
        self.server.ask(f"select {how}({self.draw.choice(sessions)[0]})")

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
            while not (found := self.server.ask(HELD.format(own.info.backend_pid))):
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

    def crash(self) -> None:
        """Crash when there was some load since the last time."""
        enough = self.calls_at_crash + CALLS_BETWEEN_CRASHES
        until("requests come in", lambda: len(self.history.events) >= enough)
        self.server.crash()
        self.calls_at_crash = len(self.history.events)


class NothingDone(Exception):
    """There was nothing to do it to."""


#: Each fault, and how often the long form does it.
FAULTS: dict[str, tuple[Callable[[Run], None], int]] = {
    "worker killed": (Run.kill_worker, 1000),
    "worker stopped beyond its leases": (Run.stop_worker, 500),
    "child process killed": (Run.kill_child, 500),
    "session terminated": (lambda run: run.end_session("pg_terminate_backend"), 2000),
    "statement cancelled": (lambda run: run.end_session("pg_cancel_backend"), 2000),
    "cut before the server gets it": (lambda run: run.cut(arrives=False), 1000),
    "cut before the client gets the answer": (lambda run: run.cut(arrives=True), 1000),
    "database crash": (Run.crash, 100),
    "connections exhausted": (Run.exhaust, 200),
    "deadlock with a worker": (Run.deadlock, 200),
    "database clock stepped": (Run.step_clock, 200),
}
COMBINED = "all of them, at random"
LONG = {**{fault: times for fault, (_, times) in FAULTS.items()}, COMBINED: 1000}


class Figures(NamedTuple):
    """What a round was, and what was found in its history."""

    faults: int = 0
    acknowledged: int = 0
    leases: int = 0
    refused: int = 0
    lost: int = 0
    doubled: int = 0
    broken: int = 0
    seconds: float = 0.0

    def plus(self, other: Figures) -> Figures:
        return Figures._make(one + more for one, more in zip(self, other, strict=True))


@contextmanager
def running(seed: Seed, home: Path, ledger: Path, draw: random.Random) -> Iterator[Run]:
    home.mkdir()
    server = Server(seed, home / "server", more=SETTINGS)
    try:
        witness(server.ask)
        server.ask(f"select rowlease.configure_queue('default', '{QUEUE}')")
        with CutOff(server.dsn) as wire:
            run = Run(server, wire, ledger, draw)
            run.ledger.touch(0o666)
            try:
                for executor in WORKERS:
                    run.start_worker(executor)
                yield run
            finally:
                run.stop.set()
                for timer in [*run.stopped.values()]:
                    timer.cancel()
                for worker in run.workers:
                    worker.kill()
    finally:
        server.kill()


def one_round(
    seed: Seed, home: Path, faults: list[str], name: str, ledger: Path | None = None
) -> tuple[Figures, list[str]]:
    """Do these faults, wait until all is done, and check; what was found, and what is broken.

    Args:
        ledger: the file in which workers note what they were answered; None means one in `home`.
    """
    began = time.monotonic()
    draw = random.Random(name)
    with running(seed, home, ledger or home / "ledger", draw) as run:
        producer = threading.Thread(target=run.produce)
        producer.start()
        until("workers work", lambda: "Report" in run.ledger.read_text(), PATIENCE)
        for fault in faults:
            run.stop.wait(draw.uniform(0, PAUSE))
            meddle(run, fault)
        run.stop.set()
        producer.join()
        until("stopped workers go on", lambda: not run.stopped)
        until("all is done", lambda: is_done(run.server), PATIENCE)
        for worker in run.workers:
            worker.terminate()
        codes = []
        for worker in run.workers:
            worker.join(PATIENCE)
            codes.append(worker.exitcode)
        history = kept(run.server.ask, run.history)
    for line in run.ledger.read_text().splitlines():
        name, *values = json.loads(line)
        history.add({"Told": Told, "Report": Report}[name](*values))
    broken = [str(each) for each in check(history)]
    if codes != [0] * len(WORKERS):
        broken.append(f"workers ended with {codes}")
    return figures(history, broken, time.monotonic() - began), broken


def meddle(run: Run, fault: str) -> None:
    """Do it, as soon as there is something to do it to."""
    act, _ = FAULTS[fault]

    def is_done() -> bool:
        with suppress(NothingDone, psycopg.OperationalError):
            act(run)
            return True
        return False

    until(fault, is_done)
    run.history.add(Fault(fault))


def is_done(server: Server) -> bool:
    left = "select from rowlease.queue where status <> 'Failed'"
    batches = "select from rowlease.batch where finished_time is null"
    return not server.ask(left) and not server.ask(batches)


def figures(history: History, broken: list[str], seconds: float) -> Figures:
    calls = [one for one in history.events if isinstance(one, Asked) and one.ids]
    changes = [one for one in history.events if isinstance(one, Change)]
    return Figures(
        faults=sum(isinstance(one, Fault) for one in history.events),
        acknowledged=sum(len(one.numbers) for one in calls),
        leases=len({(one.request, one.token) for one in changes if one.status == "Processing"}),
        refused=sum(isinstance(e, Report) and e.answer == "lease_lost" for e in history.events),
        lost=len(lost(history)),
        doubled=sum("doubled" in each or "effect twice" in each for each in broken),
        broken=len(broken),
        seconds=seconds,
    )


def drawn(fault: str, times: int, draw: random.Random) -> list[str]:
    """So many faults; of all of them, each equally often."""
    if fault != COMBINED:
        return [fault] * times
    faults = [*FAULTS] * -(-times // len(FAULTS))
    draw.shuffle(faults)
    return faults[:times]
