"""Faults done to rowlease's peers, with the settings that their own pages give.

    python -m benchmarks.peer_drills

runs the drills of all (or of `--only` one), and writes docs/reliability.md. Each drill has a
PostgreSQL server of its own: a producer enqueues numbers, three workers run
a task that notes its start and its end in a file, and the drill does its fault to what has work in
flight. Triggers note who claimed each job, and who wrote its outcome.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import sqlalchemy as sa

from benchmarks.peers import PEERS
from tests.published import publish
from tests.stress.replicas import Seed, Server, until

#: What each peer's drills found, the last time.
STATE = Path(__file__).parents[1] / "build" / "peer-drills.json"
WORKERS, SECONDS_OF_TASK = 3, 1.0
RATE, SECONDS = 8.0, 30.0
#: Seconds that a worker is stopped, at most: until another runs what it had in flight.
STOPPED = 100.0
#: Seconds that everything may take to end, after the last fault.
PATIENCE = 100.0
WATCH = """
create schema drill;
create table drill.change (
  place bigint generated always as identity, id text, is_claim boolean, is_end boolean, by text);
create function drill.note() returns trigger language plpgsql security definer as $$
declare
  v_old jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) end;
  v_new jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) end;
  v_claim boolean := coalesce(v_new ->> '{owner}' <> coalesce(v_old ->> '{owner}', ''), false);
  v_end boolean := tg_op = 'DELETE'
    or coalesce(v_new ->> 'status' in ('succeeded', 'failed')
                and v_new ->> 'status' <> v_old ->> 'status', false);
begin
  if v_claim or v_end then
    insert into drill.change (id, is_claim, is_end, by) values
      (coalesce(v_new, v_old) ->> 'id', v_claim, v_end, current_setting('application_name'));
  end if;
  return null;
end $$;
create trigger drill_note after update or delete on {table}
  for each row execute function drill.note();
"""


class Drilled(NamedTuple):
    """How a peer is drilled.

    Attributes:
        settings: of its worker.
        owner: the column of the worker that has claimed a job.
        left: the numbers of jobs without an outcome.
    """

    name: str
    settings: dict[str, Any]
    table: str
    owner: str
    left: str


DRILLED = (
    Drilled(
        "Procrastinate", {"concurrency": 10}, "procrastinate_jobs", "worker_id",
        "select (args ->> 'n')::int from procrastinate_jobs"
        " where status in ('todo', 'doing') and args ? 'n'",
    ),
    Drilled(
        "PgQueuer", {}, "pgqueuer", "queue_manager_id",
        "select (convert_from(payload, 'utf8')::json ->> 'n')::int from pgqueuer",
    ),
    Drilled(
        "Graphile Worker", {"concurrentJobs": 10}, "graphile_worker._private_jobs", "locked_by",
        "select (payload ->> 'n')::int from graphile_worker._private_jobs",
    ),
)  # fmt: skip


class Drill:
    """A server, the workers of a peer, and a producer."""

    def __init__(self, of: Drilled, seed: Seed, home: Path) -> None:
        self.of, self.ledger = of, home / "ledger"
        (self.peer,) = (one for one in PEERS if one.name == of.name)
        home.mkdir()
        self.ledger.touch()
        self.server = Server(seed, home / "server", more={"synchronous_commit": "on"})
        self.programs: list[subprocess.Popen[bytes]] = []
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.draw, self.started, self.faults, self.ended = random.Random(1), 0, 0, 0
        self.home = home

    def program(self, name: str, *order: object) -> subprocess.Popen[bytes]:
        url = sa.make_url(self.server.dsn).set(
            drivername="postgresql", query={"application_name": name}
        )
        settings = {"seconds": SECONDS_OF_TASK, "run": self.of.settings}
        environment = {
            **os.environ, "PEER_DSN": url.render_as_string(False), "PEER_LEDGER": str(self.ledger),
            "PEER_SETTINGS": json.dumps(settings),
        }  # fmt: skip
        with (self.home / "said").open("ab") as said, (self.home / f"of {name}").open("wb") as file:
            command = [*self.peer.program(), *map(str, order)]
            out = said if order[0] == "stream" else file
            self.programs.append(
                subprocess.Popen(command, env=environment, stdout=out, stderr=file)
            )
        return self.programs[-1]

    def supervise(self) -> None:
        """Start workers in place of those that have ended, as a supervisor does."""
        gone = [name for name, one in self.workers.items() if one.poll() is not None]
        self.ended += sum(self.workers.pop(name).returncode != -signal.SIGKILL for name in gone)
        while len(self.workers) < WORKERS:
            self.started += 1
            name = f"drill {self.started}"
            self.workers[name] = self.program(name, "drill")

    def in_flight(self) -> dict[int, set[int]]:
        """The numbers that each process has begun and not ended."""
        found: dict[int, set[int]] = defaultdict(set)
        for word, n, pid, _ in self.lines(self.ledger):
            (found[int(pid)].add if word == "began" else found[int(pid)].discard)(int(n))
        return found

    def lines(self, file: Path) -> list[list[str]]:
        return [line.split() for line in file.read_text().splitlines()]

    def pick(self) -> subprocess.Popen[bytes] | None:
        """A worker with work in flight."""
        busy = self.in_flight()
        found = [one for one in self.workers.values() if one.poll() is None and busy[one.pid]]
        return self.draw.choice(found) if found else None

    # -- faults

    def kill(self) -> bool:
        if worker := self.pick():
            worker.kill()
            worker.wait()
        return worker is not None

    def stop(self) -> int:
        """Stop two, each until another runs what it had in flight; how many jobs that were."""
        busy = self.in_flight()
        stopped = [one for one in self.workers.values() if one.poll() is None and busy[one.pid]][:2]
        for worker in stopped:
            worker.send_signal(signal.SIGSTOP)
        held = {one.pid: set(self.in_flight()[one.pid]) for one in stopped}
        over = waited(STOPPED)
        waiting = dict(held)
        while waiting:
            for worker in stopped:
                mine = waiting.get(worker.pid)
                if mine is not None and (over() or mine & self.begun_by_others(worker.pid)):
                    worker.send_signal(signal.SIGCONT)
                    del waiting[worker.pid]
            time.sleep(0.02)
        return len(set().union(*held.values()))

    def begun_by_others(self, than: int) -> set[int]:
        lines = self.lines(self.ledger)
        return {int(n) for word, n, pid, _ in lines if word == "began" and int(pid) != than}

    def terminate(self) -> bool:
        sessions = "select pid from pg_stat_activity where application_name like 'drill%'"
        ended = f"select pg_terminate_backend(pid) from ({sessions} order by random() limit 1) s"
        return bool(self.pick()) and bool(self.server.ask(ended))

    def crash(self) -> bool:
        if worker := self.pick():
            self.server.crash()
        return worker is not None

    # -- the whole

    def run(self, fault: str) -> list[object]:
        act, times, pause = FAULTS[fault]
        try:
            installed = self.program("install", "install")
            assert installed.wait(60) == 0
            with psycopg.connect(self.server.dsn, autocommit=True) as own:
                own.execute(
                    WATCH.replace("{owner}", self.of.owner).replace("{table}", self.of.table)
                )
            self.supervise()
            producer = self.program("producer", "stream", RATE, SECONDS)
            until("tasks run", lambda: any(self.in_flight().values()))
            while self.faults < times:
                time.sleep(pause * self.draw.uniform(0.5, 1))
                with suppress(psycopg.OperationalError):
                    self.faults += act(self)
                self.supervise()
                if producer.poll() is not None and not self.pick():
                    break
            assert producer.wait(120) == 0
            over = waited(PATIENCE)
            while not over() and (
                self.left() or any(self.in_flight()[one.pid] for one in self.workers.values())
            ):
                self.supervise()
                time.sleep(0.5)
            return self.found()
        finally:
            self.end()

    def end(self) -> None:
        for program in self.programs:
            program.kill()
        self.server.kill()

    def left(self) -> set[int]:
        with suppress(psycopg.OperationalError):
            return {int(str(n)) for (n,) in self.server.ask(self.of.left)}
        return {-1}

    def found(self) -> list[object]:
        sent = {int(n): float(at) for _, n, at in self.lines(self.home / "said")}
        began, ended = defaultdict[int, int](int), defaultdict[int, list[float]](list)
        for word, n, _, at in self.lines(self.ledger):
            began[int(n)] += word == "began"
            if word == "ended":
                ended[int(n)].append(float(at))
        left = self.left()
        changes = "select id, is_claim, is_end, by from drill.change order by place"
        held, outcomes, by_zombie = dict[Any, Any](), defaultdict[Any, int](int), 0
        for id, is_claim, is_end, by in self.server.ask(changes):
            if is_end:
                outcomes[id] += 1
                by_zombie += held.get(id) != by
            elif is_claim:
                held[id] = by
        lost = [n for n in sent if n not in ended and n not in left]
        waits = [ended[n][0] - at for n, at in sent.items() if n in ended]
        return [
            self.faults, self.ended, len(sent), len(lost), len(left & sent.keys()),
            sum(count > 1 for count in began.values()), sum(len(at) > 1 for at in ended.values()),
            sum(count > 1 for count in outcomes.values()), by_zombie,
            f"{max(waits, default=0):.0f} s",
        ]  # fmt: skip


def waited(seconds: float) -> Callable[[], bool]:
    ends = time.monotonic() + seconds
    return lambda: time.monotonic() >= ends


#: Each fault, how often at most, and seconds between two.
FAULTS: dict[str, tuple[Callable[[Drill], int], int, float]] = {
    "worker killed": (Drill.kill, 10, 2.5),
    "two workers stopped, until another runs their work": (Drill.stop, 1, 8.0),
    "session terminated": (Drill.terminate, 25, 1.0),
    "database crash": (Drill.crash, 3, 6.0),
}
HEADS = (
    "peer", "fault", "count", "workers ended", "acknowledged", "lost", "stuck", "began twice",
    "done twice", "outcome twice", "outcome by who did not hold it", "slowest",
)  # fmt: skip


@contextmanager
def seeded() -> Iterator[tuple[Seed, Path]]:
    with tempfile.TemporaryDirectory(prefix="rowlease-drills-") as folder:
        Path(folder).chmod(0o755)
        yield Seed(Path(folder) / "seed"), Path(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=[one.name for one in DRILLED])
    only = parser.parse_args().only
    STATE.parent.mkdir(exist_ok=True)
    done = json.loads(STATE.read_text()) if STATE.exists() else {}
    drills: dict[str, Drill] = {}

    def end(*_: object) -> None:
        for drill in drills.values():
            drill.end()
        os._exit(1)

    signal.signal(signal.SIGTERM, end)
    with seeded() as (seed, home), ThreadPoolExecutor(len(FAULTS)) as threads:
        for of in DRILLED:
            if only in (None, of.name):
                drills = {fault: Drill(of, seed, home / f"{of.name} {fault}") for fault in FAULTS}
                found = threads.map(Drill.run, drills.values(), drills)
                done[of.name] = [[of.name, *each] for each in zip(FAULTS, found, strict=True)]
                STATE.write_text(json.dumps(done))
    rows = [[name, fault, *found] for of in DRILLED for name, fault, found in done.get(of.name, [])]
    lines = [HEADS, ["---"] * len(HEADS), *rows]
    text = "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
    sys.stdout.write(text + "\n")
    publish("peers", text)


if __name__ == "__main__":
    main()
