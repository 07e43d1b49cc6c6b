"""Loads whose executors, tasks, drivers and server are killed, fail and are doubled.

Each row enters once, and all rows are those of one run. `ROWLEASE_STRESS_TIMES=20 pytest -s
tests/stress/test_spark_faults.py` is the long form, 500 loads. A fifth of those whose executors or
drivers are killed come through streams. What is drawn for a run follows from ROWLEASE_STRESS_SEED,
the fault, the turn and the way in, all of which a failing run names.
"""

from __future__ import annotations

import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import psycopg
import pytest

from rowlease.store import open_store
from tests.spark.jvm import worker_path
from tests.stress.meddler import (
    AFTER,
    ANSWERED,
    ASKED,
    BEFORE,
    ROWS,
    Act,
    CutOff,
    Meddler,
    executor_behind,
    is_executor,
)
from tests.stress.replicas import Seed, Server

TIMES = int(os.environ.get("ROWLEASE_STRESS_TIMES", "1"))
SEED = os.environ.get("ROWLEASE_STRESS_SEED", "1")
#: Removes the requests of a run.
FORGET = "truncate rowlease.queue, rowlease.lane, rowlease.lane_part, rowlease.queue_depth"
#: Rows of the lane that no load has, because their run or their part does not count.
LATE = """
    select count(*) from rowlease.lane r
     where not exists (select from rowlease.load l where l.run_number = r.run_number and l.in_lane)
"""
#: For each of TIMES: loads that are cut off, loads of several drivers, crashes of the server. The
#: short form has fewer.
CUTS, CONTESTS, CRASHES = (8, 5, 4) if TIMES > 1 else (1, 2, 1)
Sql = Callable[..., list[tuple[Any, ...]]]
Acts = dict[str, tuple[int, Act]]
#: Seconds within which a driver answers.
PATIENCE = 180.0
pytestmark = pytest.mark.timeout(600 + TIMES * 600)
alone = pytest.mark.skipif(TIMES == 1, reason="the short form has this fault together with others")


class Driver:
    """A driver in a process of its own."""

    def __init__(self, folder: Path, repository: Path, master: str | None = None) -> None:
        folder.mkdir()
        masters = [] if master is None else [master]
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.stress.spark_driver",
                    folder,
                    *masters,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=repository,
                env={
                    **os.environ,
                    "PYTHONPATH": worker_path(repository / "src", repository),
                    "SPARK_LOCAL_IP": "127.0.0.1",
                },
            )
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        Thread(target=self._listen, daemon=True).start()
        printed = self.answer()
        if "cannot" in printed:
            pytest.skip(f"Spark cannot start here: {printed['cannot']}")
        assert "master" in printed, self.log.read_text()[-3000:]
        self.master: str = printed["master"]

    def _listen(self) -> None:
        assert self._process.stdout
        with self._process.stdout as lines:
            for line in lines:
                if line.startswith("@"):
                    self._answers.put(json.loads(line[1:]))
        self._answers.put({"error": "the driver is dead", "seen": {}})

    def tell(self, load: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{json.dumps(load)}\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        try:
            return self._answers.get(timeout=PATIENCE)
        except queue.Empty:
            pytest.fail(f"no answer from the driver:\n{self.log.read_text()[-3000:]}")

    def executors(self) -> list[psutil.Process]:
        return [
            each for each in psutil.Process(self._process.pid).children(True) if is_executor(each)
        ]

    def kill(self) -> None:
        """Kill the driver, which is a Python and a JVM."""
        try:
            processes: list[Any] = [
                each
                for each in psutil.Process(self._process.pid).children(True)
                if not is_executor(each)
            ]
        except psutil.NoSuchProcess:
            processes = []
        for each in [self._process, *processes]:
            try:
                each.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue

    def close(self) -> None:
        executors = self.executors() if self._process.poll() is None else []
        self.kill()
        self._process.wait()
        if self._process.stdin:
            self._process.stdin.close()
        for each in executors:
            if each.is_running():
                each.kill()


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[Driver]:
    """The driver that outlives the others, and whose JVM has the cluster's master and workers."""
    made = Driver(tmp_path_factory.mktemp("spark") / "driver", repository)
    yield made
    made.close()


class Run:
    """One load, from its draw to what must hold after it."""

    def __init__(self, fault: str, turn: int, way: str, folder: Path) -> None:
        self.name = f"seed {SEED}, {fault}, turn {turn}, {way}"
        self.draw = random.Random(self.name)
        number = f"{fault}-{turn}-{way}".replace(" ", "-")
        self.load: dict[str, Any] = {
            "way": way,
            "by": "first",
            "load_id": f"{number}/0",
            "rows": self.draw.randrange(400, 1600),
            "keys": self.draw.choice([1, 7, 100, 10_000]),
            "partitions": self.draw.randrange(2, 5),
            "pause": self.draw.choice([0, 1, 5]),
            "speculation": False,
            # Rows without keys wait in the lane, and all others are staged: both ways, in turn.
            "keyed": (turn % 2 == 0) == (way in ("format", "writer")),
        }
        if way in ("sink", "writer"):
            source = folder / number
            source.mkdir()
            lines = [f'{{"n": {n}}}\n' for n in range(self.load["rows"])]
            for part in range(3):
                (source / f"{part}.json").write_text("".join(lines[part::3]))
            self.load["source"] = source.as_uri()
        self.seen: Counter[str] = Counter()
        self.begun = 0
        rows, keys = range(self.load["rows"]), self.load["keys"]
        keyed = {n for n in rows if n % 2} if self.load["keyed"] else set()
        self.bare = set(rows) - keyed
        self.keys = {f"{way}{n % keys}" for n in keyed}

    @property
    def expected(self) -> int:
        return len(self.bare) + len(self.keys)

    def ask(self, driver: Driver, dsn: str, **changes: Any) -> dict[str, Any]:
        """Have the driver do it, and count what Spark saw."""
        driver.tell({**self.load, **changes, "dsn": dsn})
        answer = driver.answer()
        while answer.get("load_id", self.load["load_id"]) != self.load["load_id"]:
            answer = driver.answer()  # of a test that has failed
        self.seen.update(answer["seen"])
        return answer

    @contextmanager
    def watched(self, dsn: str) -> Iterator[None]:
        """Count the load's requests all the time: none or all are there."""
        counts: set[int] = set()
        over = threading.Event()

        def look() -> None:
            with psycopg.connect(dsn, autocommit=True) as connection:
                while not over.wait(0.005):
                    found = connection.execute(
                        "select count(*) from rowlease.requests where load_id = %s",
                        [self.load["load_id"]],
                    ).fetchone()
                    assert found
                    counts.add(found[0])

        watcher = Thread(target=look)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
        assert counts <= {0, self.expected}, f"{self.name}: {sorted(counts)} could be claimed"

    def check(self, sql: Sql, dsn: str, tally: Tally, *, is_last: bool = True) -> None:
        """Rows = distinct keys = one run's; the ledger is right, and nothing is left behind.

        The last check of loads in one database removes them.
        """
        load_id = self.load["load_id"]
        until(
            lambda: (
                sql(
                    "select from pg_stat_activity where datname = current_database()"
                    " and pid <> pg_backend_pid() and backend_type = 'client backend'"
                    " and state <> 'idle'"
                )
                == []
            ),
            f"{self.name}: the last task has let go",
        )
        found = sql(
            "select dedup_key, (payload ->> 'n')::int, payload ->> 'by' from rowlease.requests"
            " where load_id = %s",
            [load_id],
        )
        runs = {by for _, _, by in found}
        assert len(runs) == 1, f"{self.name}: rows of the runs {runs}"
        bare = Counter(n for key, n, _ in found if key is None)
        assert bare == Counter(self.bare), f"{self.name}: {difference(bare, Counter(self.bare))}"
        keys = Counter(key for key, _, _ in found if key is not None)
        assert keys == Counter(self.keys), f"{self.name}: {difference(keys, Counter(self.keys))}"
        rows = self.load["rows"]
        assert sql(
            "select status, num_rows, num_enqueued, num_duplicates from rowlease.load"
            " where load_id = %s",
            [load_id],
        ) == [("Promoted", rows, self.expected, rows - self.expected)], self.name
        assert sql("select sum(pending + scheduled) from rowlease.queue_depth") == sql(
            "select count(*) from rowlease.requests"
        ), self.name
        tally.counts["rows"] += len(found)
        tally.counts["distinct"] += len({key if key is not None else n for key, n, _ in found})
        ((late,),) = sql(LATE)
        tally.counts["late rows dropped"] += late
        with closing(open_store(dsn)) as store:  # a slow sweep makes later ones of its session rare
            store.maintain()
        assert sql(LATE) == [(0,)], self.name
        if is_last:
            sql(FORGET)


def difference(found: Counter[Any], expected: Counter[Any]) -> str:
    more, fewer = found - expected, expected - found
    return (
        f"{more.total()} too many {sorted(more)[:5]}, {fewer.total()} missing {sorted(fewer)[:5]}"
    )


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, f"not within 20 s: {what}"
        time.sleep(0.02)


#: The ways in: `enqueue` by COPY and over JDBC, and the format; the last two are of streams.
WAYS = ("copy", "jdbc", "format", "sink", "writer")
PAIRS = (("jdbc", "copy"), ("format", "copy"), ("jdbc", "format"), ("copy", "format"), WAYS[3:])


def ways(turn: int) -> tuple[str, ...]:
    return PAIRS[turn % len(PAIRS)]


def way_in(fault: str, turn: int) -> str:
    """The way of this turn's load, not by a stream; the seed shuffles them."""
    return random.Random(f"{SEED}, {fault}").sample(WAYS[:3], 3)[turn % 3]


def runs(fault: str, folder: Path, loads: int = 1) -> Iterator[Run]:
    """Two for each turn; the short form has one turn, of so many loads."""
    short = [way_in(fault, number) for number in range(loads)]
    for turn in range(TIMES):
        for way in ways(turn) if TIMES > 1 else short:
            yield Run(fault, turn, way, folder)


class Tally:
    """What was seen over a series."""

    def __init__(self, fault: str) -> None:
        self._fault = fault
        self._began = time.monotonic()
        self.counts: Counter[str] = Counter()

    def add(self, run: Run, **hits: bool) -> None:
        met = ", ".join(name.replace("_", " ") for name, hit in hits.items() if hit)
        at = time.monotonic() - self._began
        sys.stdout.write(f"{run.name}: {run.load['rows']} rows, {met}, at {at:.0f} s\n")
        self.counts["runs"] += 1
        self.counts["staged again"] += run.load["way"] == "jdbc" and run.begun > 1
        self.counts.update({name.replace("_", " "): hit for name, hit in hits.items()})
        self.counts.update({f"Spark: {name}": count for name, count in run.seen.items()})

    def say(self) -> None:
        took = time.monotonic() - self._began
        printed = ", ".join(f"{name} {count}" for name, count in self.counts.items())
        sys.stdout.write(f"\nseed {SEED}, {self._fault}: {printed}; {took:.0f} s\n")


def lose(_: int) -> bool:
    return False


def waits_for(event: threading.Event) -> Act:
    """Delay data on its way, for at most 3 s."""

    def act(_: int) -> bool:
        event.wait(3)
        return True

    return act


def sets(event: threading.Event) -> Act:
    def act(_: int) -> bool:
        event.set()
        return True

    return act


def killing(killed: list[int], passes: bool) -> Act:
    """Kill the executor that this connection belongs to."""

    def act(port: int) -> bool:
        if executor := executor_behind(port):
            executor.kill()
            killed.append(executor.pid)
        return passes

    return act


@alone
def test_an_executor_is_killed(driver: Driver, dsn: str, sql: Sql, tmp_path: Path) -> None:
    tally = Tally("executor killed")
    for run in runs("executor killed", tmp_path, loads=2):  # an executor may be idle when it dies
        killed: list[int] = []
        draw, acts = run.draw, Acts()
        moment = draw.choice([ROWS, BEFORE, AFTER, "any"])
        if moment == "any":
            run.load["pause"] = 5

            def kill_one(draw: random.Random = draw, killed: list[int] = killed) -> None:
                for each in draw.sample(found := driver.executors(), min(1, len(found))):
                    each.kill()
                    killed.append(each.pid)

            timer = threading.Timer(draw.uniform(0.1, 1.0), kill_one)
        else:
            acts[moment] = (draw.randrange(1, 3), killing(killed, moment != AFTER))
            timer = threading.Timer(0, lambda: None)
        with Meddler(dsn, acts) as wire, run.watched(dsn):
            timer.start()
            answer = run.ask(driver, wire.dsn)
            timer.join()
        run.begun = wire.begun
        assert answer["error"] is None, f"{run.name}, {moment}: {answer['error']}"
        run.check(sql, dsn, tally)
        tally.add(
            run,
            **{f"at_{moment}": True},
            executor_killed=bool(killed),
            while_its_task_ran=run.seen["ExecutorLostFailure"] > 0,
        )
    tally.say()
    assert tally.counts["executor killed"] > 0


@alone
def test_tasks_are_doubled(driver: Driver, dsn: str, sql: Sql, tmp_path: Path) -> None:
    tally = Tally("speculation")
    for run in runs("speculation", tmp_path, loads=2):  # a task that is quick gets no copy
        draw, acts = run.draw, Acts()
        run.load.update(pause=5, speculation=True)
        how = draw.choice(["slow", "answer late", "commit late"])
        promoting = threading.Event()
        if how == "answer late":  # the copy commits as well
            acts[AFTER] = (2, waits_for(promoting))
        elif how == "commit late":  # the first commits when its copy has won, in mid-promotion
            acts[BEFORE] = (2, waits_for(promoting))
        acts[ASKED] = (1, sets(promoting))
        with Meddler(dsn, acts) as wire, run.watched(dsn):
            answer = run.ask(driver, wire.dsn)
        run.begun = wire.begun
        assert answer["error"] is None, f"{run.name}, {how}: {answer['error']}"
        run.check(sql, dsn, tally)
        tally.add(run, **{how.replace(" ", "_"): True}, with_a_copy=run.seen["copies"] > 0)
    tally.say()
    assert tally.counts["with a copy"] > 0


def test_the_driver_is_killed_and_run_again(
    driver: Driver, dsn: str, sql: Sql, tmp_path: Path, repository: Path
) -> None:
    tally = Tally("driver killed")
    for turn in range(TIMES):
        pair = [Run("driver killed", turn, way, tmp_path) for way in ways(turn)]
        draw = pair[0].draw
        aimed = pair[turn % 2]  # the other is wherever it is
        moment = draw.choice([ROWS, BEFORE, "late", ASKED, ASKED, "asking", ANSWERED])
        released, dead = threading.Event(), threading.Event()
        victim = Driver(tmp_path / f"victim {turn}", repository, driver.master)

        def kill(
            _: int,
            moment: str = moment,
            victim: Driver = victim,
            released: threading.Event = released,
            dead: threading.Event = dead,
        ) -> bool:
            victim.kill()
            dead.set()
            if moment == "late":  # a packet that is on its way for long
                released.wait(PATIENCE)
            return moment in (BEFORE, "late", "asking")

        on = {"late": BEFORE, "asking": ASKED}.get(moment, moment)
        with ExitStack() as stack:
            for run in pair:
                acts: Acts = {on: (1, kill)} if run is aimed else {}
                wire = stack.enter_context(Meddler(dsn, acts))
                run.load["pause"] = draw.choice([0, 1])
                victim.tell({**run.load, "dsn": wire.dsn})
            assert dead.wait(PATIENCE), f"{aimed.name}, {moment}: {victim.log.read_text()[-3000:]}"
            release = draw.choice(["at once", ASKED, "after"])
            if release == "at once":
                released.set()
            for run in sorted(pair, key=lambda each: each is not aimed):
                before = sql(
                    "select count(*) from rowlease.load where status = 'Promoted' and load_id = %s",
                    [run.load["load_id"]],
                )
                act: Acts = {ASKED: (1, sets(released))}
                with Meddler(dsn, act if release == ASKED else None) as wire, run.watched(dsn):
                    answer = run.ask(
                        driver, wire.dsn, partitions=run.draw.randrange(1, 6), by="second"
                    )
                    run.begun = wire.begun
                if run is aimed:
                    released.set()
                assert answer["error"] is None, f"{run.name}, {moment}: {answer['error']}"
                again = run.ask(driver, dsn, by="third")
                assert again["error"] is None, f"{run.name}, again: {again['error']}"
                tally.add(
                    run,
                    **{f"at_{moment}" if run is aimed else "at_any_moment": True},
                    promoted_before_the_death=before == [(1,)],
                )
        victim.close()
        for run in pair:
            run.check(sql, dsn, tally, is_last=run is pair[-1])
    tally.say()


def test_faults_come_together(driver: Driver, dsn: str, sql: Sql, tmp_path: Path) -> None:
    """A slow task gets a copy, an executor dies after a commit, and promote's answer is lost."""
    tally = Tally("combination")
    for run in runs("combination", tmp_path):
        killed: list[int] = []
        run.load.update(pause=5, speculation=True)
        acts: Acts = {
            AFTER: (run.draw.randrange(1, 3), killing(killed, False)),
            ANSWERED: (1, lose),
        }
        with Meddler(dsn, acts) as wire, run.watched(dsn):
            answer = run.ask(driver, wire.dsn)
        run.begun = wire.begun
        assert answer["error"] is None, f"{run.name}: {wire.happened}: {answer['error']}"
        run.check(sql, dsn, tally)
        tally.add(
            run,
            executor_killed=bool(killed),
            with_a_copy=run.seen["copies"] > 0,
            answer_of_promote_lost=ANSWERED in wire.happened,
        )
    tally.say()
    assert tally.counts["executor killed"] > 0
    assert tally.counts["answer of promote lost"] > 0


def enqueued(run: Run, driver: Driver, dsn: str) -> None:
    """Run the load once more: it is enqueued now, if it was not before."""
    answer = run.ask(driver, dsn, by="last", partitions=run.draw.randrange(1, 4))
    assert answer["error"] is None, f"{run.name}, last: {answer['error']}"


def packets(driver: Driver, dsn: str, sql: Sql, way: str, folder: Path) -> int:
    """About as many packets as a load sends without a fault."""
    run, tally = Run("nothing", 0, way, folder), Tally("nothing")
    with CutOff(dsn) as wire:
        answer = run.ask(driver, wire.dsn)
    assert answer["error"] is None, answer["error"]
    run.check(sql, dsn, tally)
    return wire.packets


def cut_off(dsn: str, draw: random.Random, most: int) -> CutOff:
    """One connection or the driver with all its tasks, before or after a packet has arrived."""
    return CutOff(dsn, draw.randrange(1, most + 1), draw.random() < 0.5, draw.random() < 0.5)


def test_a_driver_or_a_task_is_cut_off_at_any_packet(
    driver: Driver, dsn: str, sql: Sql, tmp_path: Path
) -> None:
    tally = Tally("cut off")
    used = [way_in("cut off", turn) for turn in range(TIMES * CUTS)]
    most = {way: packets(driver, dsn, sql, way, tmp_path) for way in set(used)}
    for turn, way in enumerate(used):
        run = Run("cut off", turn, way, tmp_path)
        with cut_off(dsn, run.draw, most[run.load["way"]]) as wire, run.watched(dsn):
            failed = run.ask(driver, wire.dsn)["error"] is not None
            before = sql("select from rowlease.load where status = 'Promoted' and load_id = %s",
                         [run.load["load_id"]])  # fmt: skip
            enqueued(run, driver, dsn)
        run.check(sql, dsn, tally)
        tally.add(run, cut=wire.met, failed=failed, promoted=bool(before),
                  promoted_and_failed=failed and bool(before))  # fmt: skip
    tally.say()
    if TIMES > 1:  # a few cuts may all come too late, or hit what is tried again
        assert tally.counts["cut"] > 0
        assert tally.counts["failed"] > 0


def test_drivers_write_one_load_at_once(driver: Driver, dsn: str, sql: Sql, tmp_path: Path) -> None:
    """Two or three; some are cut off, and of some a part is committed after another's promotion."""
    tally = Tally("drivers at once")
    used = [way_in("drivers at once", turn) for turn in range(TIMES * CONTESTS)]
    most = {way: packets(driver, dsn, sql, way, tmp_path) for way in set(used)}
    for turn, way in enumerate(used):
        run = Run("drivers at once", turn, way, tmp_path)
        draw, promoted = run.draw, threading.Event()
        names = ("first", "second", "third")[: draw.choice([2, 2, 3])]
        with ExitStack() as stack:
            stack.enter_context(run.watched(dsn))
            wires: list[CutOff | Meddler] = []
            for by in names:
                fault = draw.choice(["none", "cut off", "late"])
                acts: Acts = {ANSWERED: (1, sets(promoted))}
                if fault == "late":
                    acts[BEFORE] = (draw.randrange(1, 3), waits_for(promoted))
                wires.append(
                    cut_off(dsn, draw, most[run.load["way"]])
                    if fault == "cut off"
                    else Meddler(dsn, acts)
                )
                stack.enter_context(wires[-1])
                partitions, pause = draw.randrange(2, 5), draw.choice([0, 1])
                driver.tell({**run.load, "by": by, "partitions": partitions, "pause": pause,
                             "dsn": wires[-1].dsn})  # fmt: skip
                time.sleep(draw.choice([0, 0.1, 0.5]))
            answers = [driver.answer() for _ in names]
            enqueued(run, driver, dsn)
        run.check(sql, dsn, tally)
        for answer in answers:
            run.seen.update(answer["seen"])
        errors = [answer["error"] for answer in answers if answer["error"]]
        tally.counts["drivers"] += len(names)
        tally.counts["drivers that failed"] += len(errors)
        tally.counts["taken over"] += sum("LoadLost" in each for each in errors)
        tally.counts["of three drivers"] += len(names) == 3
        tally.add(
            run,
            one_was_cut_off=any(isinstance(each, CutOff) and each.met for each in wires),
            one_was_late=any(
                isinstance(each, Meddler) and BEFORE in each.happened for each in wires
            ),
        )
    tally.say()
    assert tally.counts["taken over"] > 0


@pytest.fixture(scope="module")
def server(seed: Seed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("crashes")
    # What is acknowledged must survive a crash.
    started = Server(seed, home / "server", more={"synchronous_commit": "on"})
    yield started
    started.kill()


def test_the_server_crashes_in_the_promotion(
    driver: Driver, server: Server, tmp_path: Path
) -> None:
    tally, dsn = Tally("server crashes"), server.dsn
    for turn in range(TIMES * CRASHES):
        run = Run("server crashes", turn, way_in("server crashes", turn), tmp_path)
        crashes: list[Thread] = []

        def crash(_: int, crashes: list[Thread] = crashes, draw: random.Random = run.draw) -> bool:
            def crash_soon(pause: float = draw.choice([0, draw.uniform(0, 0.02)])) -> None:
                time.sleep(pause)
                server.crash()

            crashes.append(Thread(target=crash_soon))
            crashes[0].start()
            return True

        with Meddler(dsn, {ASKED: (1, crash)}) as wire:
            failed = run.ask(driver, wire.dsn)["error"] is not None
        for each in crashes:
            each.join()
        enqueued(run, driver, dsn)
        with psycopg.connect(dsn, autocommit=True) as connection:

            def sql(text: str, given: Any = None, on: Any = connection) -> list[tuple[Any, ...]]:
                cursor = on.execute(text, given)
                return [] if cursor.description is None else cursor.fetchall()

            run.check(sql, dsn, tally)
        tally.add(run, crashed=bool(crashes), failed=failed, written_again=wire.begun > 1)
    tally.say()
    assert tally.counts["crashed"] > 0
