"""A round of the fault runner: faults of one server, whose history is checked at its end."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psycopg

from tests.pooler import pooled
from tests.stress.faults import (
    FAULTS,
    POOLER_FAULTS,
    QUEUE,
    SETTINGS,
    WORKERS,
    NothingDone,
    Run,
)
from tests.stress.history import Asked, Change, Fault, History, Report, Told, check, lost
from tests.stress.injections import HIT, REFUSE
from tests.stress.meddler import CutOff
from tests.stress.replicas import Seed, Server, until
from tests.stress.witness import kept, witness

#: Seconds between two faults, at most.
PAUSE = 0.1
PATIENCE = 120.0
COMBINED = "all of them, at random"
#: How many sessions of the server a proxy has for all clients.
POOLED_SESSIONS = 12


class Kind(NamedTuple):
    """A kind of rounds.

    Attributes:
        faults: what happens, equally often.
        times: how often something happens in the long form.
        level: the server's default isolation level, which callers' own transactions have.
        is_pooled: whether workers and producers reach the server by way of PgBouncer.
    """

    faults: Sequence[str]
    times: int
    level: str = "read committed"
    is_pooled: bool = False


REFUSALS = [name for name in FAULTS if name.startswith("serialization failure")]
KINDS = {
    **{fault: Kind([fault], times) for fault, (_, times) in FAULTS.items()},
    COMBINED: Kind([*FAULTS], 1000),
    "serialization failures at REPEATABLE READ": Kind(REFUSALS, 2000, "repeatable read"),
    "serialization failures at SERIALIZABLE": Kind(REFUSALS, 2000, "serializable"),
    "pooler: session terminated in a statement": Kind(
        ["session terminated in a statement"], 1000, is_pooled=True
    ),
    **{fault: Kind([fault], times, is_pooled=True) for fault, (_, times) in POOLER_FAULTS.items()},
}


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
def running(seed: Seed, home: Path, ledger: Path, draw: random.Random, kind: Kind) -> Iterator[Run]:
    home.mkdir()
    level = {"default_transaction_isolation": kind.level}
    server = Server(seed, home / "server", more={**SETTINGS, **level})
    try:
        witness(server.ask)
        server.ask(HIT)
        server.ask(REFUSE)
        server.ask(f"select rowlease.configure_queue('default', '{QUEUE}')")
        with ExitStack() as opened:
            pooler = (
                opened.enter_context(pooled(server.dsn, POOLED_SESSIONS))
                if kind.is_pooled
                else None
            )
            wire = opened.enter_context(CutOff(pooler.dsn if pooler else server.dsn))
            run = Run(server, wire, ledger, draw, pooler)
            run.ledger.touch(0o666)
            try:
                for executor in WORKERS:
                    run.start_worker(executor)
                yield run
            finally:
                run.end()
    finally:
        server.kill()


def one_round(
    seed: Seed,
    home: Path,
    faults: list[str],
    name: str,
    ledger: Path | None = None,
    kind: Kind | None = None,
) -> tuple[Figures, list[str]]:
    """Do these faults, wait until all is done, and check; what was found, and what is broken.

    Args:
        ledger: the file in which workers note what they were answered; None means one in `home`.
        kind: what the server and the way to it are like; None means as for most kinds.
    """
    began = time.monotonic()
    draw = random.Random(name)
    with running(seed, home, ledger or home / "ledger", draw, kind or KINDS[COMBINED]) as run:
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
        until("workers take signals", run.is_known, PATIENCE)
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
    act, _ = {**FAULTS, **POOLER_FAULTS}[fault]

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


def drawn(kind: Kind, times: int, draw: random.Random) -> list[str]:
    """So many faults of a kind, each of them equally often."""
    faults = [*kind.faults] * -(-times // len(kind.faults))
    draw.shuffle(faults)
    return faults[:times]
