"""Two drivers write one load at once, and are killed; the load has the rows of one of them.

When one is killed, another begins with the same load id, as a scheduler starts a job again.
"""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import closing
from pathlib import Path

from rowlease.store import open_store
from tests.stress.faults import SETTINGS
from tests.stress.load_driver import PARTITIONS, ROWS, drive
from tests.stress.replicas import PROCESSES, Seed, Server, until
from tests.stress.rounds import Figures

KILLED = "one of two drivers of a load killed"
DRIVERS = 2
#: Seconds until the next kill, at most.
UNTIL_KILL = 0.12
#: Kills for each load, at most.
MOST_KILLS = 5
LOADED = (
    "select (payload ->> 'n')::int, payload ->> 'by' from rowlease.requests where load_id = '{}'"
)
#: How many rows no load has, because their run was superseded.
LATE = """select count(*) from rowlease.lane r
    where not exists (
      select from rowlease.load l where l.run_number = r.run_number and l.in_lane)"""


class Driver:
    """A process, and what it said last: nothing, `begun`, or how it ended."""

    def __init__(self, dsn: str, load_id: str, name: str) -> None:
        self._heard, said = PROCESSES.Pipe(duplex=False)
        self.name, self._last = name, ""
        self.process = PROCESSES.Process(target=drive, args=(dsn, load_id, name, said), daemon=True)
        self.process.start()
        said.close()

    def last(self) -> str:
        while self._last in ("", "begun") and self._heard.poll():
            try:
                self._last = self._heard.recv()
            except EOFError:
                self._last = "died"
        return self._last

    def is_killed(self) -> bool:
        """Kill it while it writes; False if it does not."""
        pid = self.process.pid or 0
        if self.last() != "begun":
            return False
        os.kill(pid, signal.SIGSTOP)
        is_writing = self.last() == "begun"
        os.kill(pid, signal.SIGKILL if is_writing else signal.SIGCONT)
        if is_writing:
            self.process.join()
            self._last = "killed"
        return is_writing


def one_load(
    server: Server, load_id: str, most: int, draw: random.Random
) -> tuple[Figures, list[str]]:
    """One load, whose drivers are killed so often at most; what was found, and what is broken."""
    kills, drivers = 0, list[Driver]()

    def start() -> None:
        drivers.append(Driver(server.dsn, load_id, f"{load_id}, run {len(drivers)}"))

    def running() -> list[Driver]:
        return [one for one in drivers if one.last() in ("", "begun")]

    try:
        while not any(one.last() in ("done", "repeat") for one in drivers) or running():
            while len(running()) < DRIVERS and not any(
                one.last() in ("done", "repeat") for one in drivers
            ):
                start()
            until(
                "all drivers write, or one has ended",
                lambda: all(one.last() != "" for one in drivers),
            )
            if kills < most:
                time.sleep(draw.uniform(0, UNTIL_KILL))
                kills += any(one.is_killed() for one in draw.sample(drivers, len(drivers)))
            else:
                until("no driver writes", lambda: not running())
    finally:
        for one in drivers:
            one.process.kill()
            one.process.join()
    told = {one.name: one.last() for one in drivers}
    found = server.ask(LOADED.format(load_id))
    distinct = {n for n, _ in found}
    by = {str(name) for _, name in found}
    done = {name for name, last in told.items() if last == "done"}
    lost, doubled = PARTITIONS * ROWS - len(distinct), len(found) - len(distinct)
    broken = [f"{load_id}: {lost} rows lost: {told}"] * bool(lost)
    broken += [f"{load_id}: {doubled} rows twice: {told}"] * bool(doubled)
    if (
        len(by) != 1
        or (done and by != done)
        or not {told[name] for name in by} <= {"done", "killed"}
    ):
        broken.append(f"{load_id}: the rows are of {by}: {told}")
    return Figures(
        faults=kills, acknowledged=len(found), lost=lost, doubled=doubled, broken=len(broken)
    ), broken


def kill_drivers(seed: Seed, home: Path, times: int, name: str) -> tuple[Figures, list[str]]:
    """So many kills, over several loads."""
    began, draw, total, broken = time.monotonic(), random.Random(name), Figures(), list[str]()
    home.mkdir()
    server = Server(seed, home / "server", more=SETTINGS)
    try:
        number = 0
        while total.faults < times:
            most = min(draw.randint(1, MOST_KILLS), times - total.faults)
            found, wrong = one_load(server, f"load {number}", most, draw)
            total, broken, number = total.plus(found), broken + wrong, number + 1
        with closing(open_store(server.dsn)) as fresh:
            fresh.maintain()
        if (late := server.ask(LATE)) != [(0,)]:
            broken.append(f"rows of no load: {late}")
    finally:
        server.kill()
    return total._replace(broken=len(broken), seconds=time.monotonic() - began), broken
