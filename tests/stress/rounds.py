"""A round of the fault runner: faults of one server, whose history is checked at its end."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psycopg

from tests.stress.faults import FAULTS, HIT, QUEUE, SETTINGS, WORKERS, NothingDone, Run
from tests.stress.history import Asked, Change, Fault, History, Report, Told, check, lost
from tests.stress.meddler import CutOff
from tests.stress.replicas import Seed, Server, until
from tests.stress.witness import kept, witness

#: Seconds between two faults, at most.
PAUSE = 0.1
PATIENCE = 120.0
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
        server.ask(HIT)
        server.ask(f"select rowlease.configure_queue('default', '{QUEUE}')")
        with CutOff(server.dsn) as wire:
            run = Run(server, wire, ledger, draw)
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
