"""The command `rowlease worker`."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import click

from rowlease.cli.options import dsn_option, duration, json_option, show_json
from rowlease.cli.say import say
from rowlease.counts import counted

if TYPE_CHECKING:
    from rowlease.events import Events
    from rowlease.worker import Worker
    from rowlease.worker.settings import WorkerKeywords, WorkerSettings


class RunResult(NamedTuple):
    """The summary as data and as text, and the exit code."""

    data: dict[str, Any]
    text: str
    exit_code: int


def named_queues(
    _context: click.Context, _param: click.Parameter, given: tuple[str, ...]
) -> list[str] | dict[str, int] | None:
    """The names in order; or, if a name has a weight, all names with their weights (default: 1).

    None if there is no name. A queue whose name has a = must be given with a weight.
    """
    if not any("=" in one for one in given):
        return list(given) or None
    weights: dict[str, int] = {}
    for one in given:
        name, sign, weight = one.rpartition("=")
        if sign and not weight.isdecimal():
            raise click.BadParameter(f"the weight {weight!r} of {name!r} is not from 1 to 1000")
        weights[name or one] = int(weight) if sign else 1
    if len(weights) < len(given):
        raise click.BadParameter("a queue is given twice; give each queue once")
    return weights


@click.command
@click.argument("tasks", nargs=-1, required=True)
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME[=WEIGHT]",
    callback=named_queues,
    help="May be given several times. Earlier queues are served first. With weights (1 to 1000), "
    "each queue gets its share: --queue fast=3 --queue slow=1. Default: the queues of the tasks.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1),
    help="The number of slots. Default: one process per usable core, 32 threads, or 100 "
    "coroutines.",
)
@click.option(
    "--executor",
    type=click.Choice(["process", "thread", "coroutine"]),
    help="The kind of slot. Default: process; coroutine if all tasks are `async def`.",
)
@click.option(
    "--prefetch", type=click.IntRange(0), help="The maximum number of requests prefetched per slot."
)
@click.option(
    "--max-tasks-per-child",
    type=click.IntRange(1),
    help="The number of requests that a child process runs before another one replaces it.",
)
@click.option(
    "--max-memory-per-child",
    type=click.IntRange(1),
    metavar="MIB",
    help="The memory in RAM of a child process above which another one replaces it after its task. "
    "Linux only.",
)
@click.option("--lease", type=duration, help="A lease's duration. Default: the queue's setting.")
@click.option(
    "--consumer-priority",
    type=int,
    default=0,
    show_default=True,
    help="Workers with a larger priority get requests first while they have free slots.",
)
@click.option(
    "--create-queues",
    is_flag=True,
    help="First create missing queues as the modules of TASKS declare them. This also needs the "
    "role rowlease_operator.",
)
@click.option(
    "--burst",
    is_flag=True,
    help="End when nothing is left that may start now. Requests that are "
    "scheduled, paused, behind a rate or behind a batch stay.",
)
@click.option(
    "--grace",
    type=duration,
    default="30s",
    show_default=True,
    help="The time that running tasks have to finish after SIGTERM or Ctrl-C.",
)
@click.option(
    "--cancel-grace",
    type=duration,
    default="10s",
    show_default=True,
    help="The time that a running task has to stop after a cancel, before it is killed.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="The number of workers. Each has its own process, and is replaced if it dies. The workers "
    "share the usable cores.",
)
@click.option(
    "--health",
    metavar="[HOST:]PORT",
    help="Answer GET /live, /ready and /startup at this address with 200 or 503, and /metrics for "
    "Prometheus. Without HOST, only programs on this host can connect.",
)
@click.option(
    "--health-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="PATH",
    help="Touch this file every second while the worker is live, and PATH.ready while it is ready.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    envvar="ROWLEASE_LOG_FORMAT",
    show_default=True,
    help="The format of the lines on stderr. Also set by ROWLEASE_LOG_FORMAT.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    envvar="ROWLEASE_LOG_LEVEL",
    show_default=True,
    help="The lowest level of lines on stderr; debug logs every request. Also set by "
    "ROWLEASE_LOG_LEVEL.",
)
@click.option(
    "--supervised", type=int, hidden=True, help="The descriptor of the channel to the supervisor."
)
@dsn_option
@json_option
def worker(
    tasks: tuple[str, ...],
    dsn: str | None,
    as_json: bool,
    health: str | None,
    health_file: Path | None,
    log_format: str,
    log_level: str,
    supervised: int | None,
    create_queues: bool,
    queues: list[str] | dict[str, int] | None,
    concurrency: int | None,
    **others: Unpack[WorkerKeywords],
) -> None:
    """Lease requests, and run the tasks of modules.

    TASKS are `package.module`, for all tasks of a module, or `package.module:name`.

    \b
    SIGTERM, Ctrl-C  claim no more, and finish the running tasks; a second signal
                     abandons them at once
    SIGQUIT          write the stacks of all processes to stderr, and continue
    """
    from rowlease.cli.declared_queues import create_missing
    from rowlease.cli.logs import log_of_tasks, write_behind_stderr
    from rowlease.worker.settings import WorkerSettings

    settings = WorkerSettings(queues=queues, concurrency=concurrency, **others)
    several = settings.processes > 1
    write_behind_stderr()
    with (
        log_of_tasks(log_format, log_level, with_process=several),
        database_of_tasks(dsn) as place,
    ):
        if supervised is not None:
            run_supervised(tasks, place, supervised, settings, is_counted=health is not None)
            return
        if create_queues:
            create_missing(tasks, settings.queues, place)
        run = run_supervisor if several else run_alone
        data, text, exit_code = run(tasks, place, health, health_file, settings)
    try:
        show_json(data) if as_json else say(text)
    except BrokenPipeError:
        # The reader has closed the pipe, which is not an error. The interpreter flushes stdout
        # once more when it exits, so replace stdout with a descriptor that can be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(exit_code)


@contextmanager
def database_of_tasks(dsn: str | None) -> Iterator[str]:
    """The DSN of the database. Tasks find that of the embedded server in ROWLEASE_DSN, too.

    It is there before the tasks are imported, because their module may read it. Any other DSN stays
    where it was configured: programs that a task starts would see it in their environment, which is
    why an operator may have written it into a file.
    """
    from rowlease.client.database import database
    from rowlease.config import DSN_VARIABLE, configured_dsn

    is_embedded = configured_dsn(dsn) is None
    with database(dsn) as place:
        try:
            if is_embedded:
                os.environ[DSN_VARIABLE] = place
            yield place
        finally:
            if is_embedded:
                os.environ.pop(DSN_VARIABLE, None)  # a task may have removed it


def run_alone(
    tasks: tuple[str, ...],
    dsn: str,
    health: str | None,
    health_file: Path | None,
    settings: WorkerSettings,
) -> RunResult:
    """Run one worker in this process."""
    from rowlease.cli.probes import health_probes, outlets_of
    from rowlease.event_log import logged_events
    from rowlease.metrics.tally import Tally
    from rowlease.metrics.worker_metrics import count_events
    from rowlease.worker.host.health import HealthReporter

    outlets, interval = outlets_of(health_file)
    events = logged_events()
    with open_worker(tasks, dsn, settings, events) as worker:
        tally = count_events(events, worker.kinds) if health else Tally()
        report, changed = worker.health.report, worker.health.changed
        with (
            health_probes(health, report, lambda: tally, dsn),
            HealthReporter(report, outlets, changed, interval),
        ):
            summary = worker.run()
    return RunResult(summary._asdict(), str(summary), 0)


def run_supervised(
    tasks: tuple[str, ...], dsn: str, fd: int, settings: WorkerSettings, *, is_counted: bool
) -> None:
    """Run one worker of a supervisor, and send reports to the supervisor.

    Args:
        is_counted: whether to send the worker's counts, too.
    """
    from rowlease.event_log import logged_events
    from rowlease.metrics.worker_metrics import count_events
    from rowlease.worker.host.health import HealthReporter
    from rowlease.worker.host.signals import stacks_on_sigquit
    from rowlease.worker.host.supervised import WorkerEnd

    # Handle SIGQUIT before anything else: without a handler, the signal would end the process.
    events = logged_events()
    with stacks_on_sigquit(lambda: None), open_worker(tasks, dsn, settings, events) as worker:
        tally = count_events(events, worker.kinds) if is_counted else None
        channel = WorkerEnd(fd, worker.stop, tally)
        with HealthReporter(worker.health.report, [channel], worker.health.changed):
            channel.summary(worker.run())


def run_supervisor(
    _tasks: tuple[str, ...],
    dsn: str,
    health: str | None,
    health_file: Path | None,
    settings: WorkerSettings,
) -> RunResult:
    """Run several workers, each in its own process, with the options of this command."""
    from rowlease.cli.probes import health_probes, outlets_of
    from rowlease.client.database import connect
    from rowlease.event_log import logged_events
    from rowlease.worker.host.supervisor import Supervisor

    events = logged_events()
    outlets, interval = outlets_of(health_file)
    command = click.get_current_context().obj
    if command is None:
        # With -P, workers, like this process, do not import rowlease from the working directory.
        command = [sys.executable, "-P", "-m", "rowlease", "worker", "--supervised", "{}"]
        command += sys.argv[sys.argv.index("worker") + 1 :]
    with connect(dsn):
        pass  # report a database error once here, instead of once in each worker
    supervisor = Supervisor(
        command,
        settings.processes,
        events,
        grace=settings.grace,
        burst=settings.burst,
        outlets=outlets,
        interval=interval,
    )
    with health_probes(health, supervisor.report, supervisor.tally, dsn):
        summary = supervisor.run()
    count, restarts = settings.processes, supervisor.num_restarts
    text = f"{summary} by {counted(count, 'worker')}"
    if restarts:
        text += f", {counted(restarts, 'restart')}"
    data = {**summary._asdict(), "processes": count, "restarts": restarts}
    return RunResult(data, text, supervisor.exit_code)


@contextmanager
def open_worker(
    tasks: tuple[str, ...], dsn: str, settings: WorkerSettings, events: Events
) -> Iterator[Worker]:
    """Make a worker. Its store is closed at the end of the block."""
    from rowlease.cli.logs import take_console
    from rowlease.client.database import connect
    from rowlease.store import redact
    from rowlease.tasks.loading import load_tasks
    from rowlease.worker import Worker

    sys.path.insert(0, "")
    found = load_tasks(*tasks)
    take_console()
    with connect(dsn, application_name="rowlease worker") as store:
        worker = Worker.of(store, found, settings, events)
        logging.getLogger("rowlease").info("rowlease worker at %s", redact(dsn))
        yield worker
