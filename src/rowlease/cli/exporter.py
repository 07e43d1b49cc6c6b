"""`rowlease exporter`."""

from __future__ import annotations

import logging
import threading
from contextlib import closing
from datetime import timedelta
from email.message import Message
from functools import partial

import click

from rowlease.cli.options import dsn_option, duration, needs_extra
from rowlease.errors import StoreError

#: The default port on the loopback address.
PORT = "9640"


@click.command()
@click.option(
    "--listen",
    default=PORT,
    show_default=True,
    metavar="[HOST:]PORT",
    help="Answer GET /metrics at this address. Without HOST, only programs on this host can "
    "connect.",
)
@click.option(
    "--cache",
    type=duration,
    default="5s",
    show_default=True,
    help="The time for which scrapes get the values of one reading of the database.",
)
@click.option("--once", is_flag=True, help="Print the metrics, and end.")
@dsn_option
def exporter(dsn: str | None, listen: str, cache: timedelta, once: bool) -> None:
    """Serve the metrics of a database to Prometheus.

    Run one exporter for each database. It reads counters and small tables, but never the queue
    itself. It needs the role rowlease_reader.
    """
    needs_extra("metrics", "prometheus_client", command="exporter")
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.exposition import choose_encoder

    from rowlease.cli.logs import set_up_logging
    from rowlease.client.database import database
    from rowlease.doctor import examine
    from rowlease.http_server import HttpAnswer, HttpServer, read_address
    from rowlease.metrics.examination import Examination
    from rowlease.metrics.exporter import DatabaseMetrics
    from rowlease.store import open_store
    from rowlease.worker.host.signals import stopped_by_signals

    set_up_logging("text", "info")
    log = logging.getLogger("rowlease")
    host, port = read_address(listen)
    with (
        database(dsn) as place,
        closing(open_store(place, application_name="rowlease exporter")) as store,
    ):
        try:
            store.check_schema()
        except StoreError as error:
            if once or not error.transient:
                raise
            log.warning("cannot read the database: %s", error)
        registry = CollectorRegistry()
        examination = Examination(partial(examine, place))
        registry.register(DatabaseMetrics(store, cache, examination))
        if once:
            examination.examine()
            click.echo(generate_latest(registry), nl=False)  # noqa: TID251
            return

        def answer(_: str, headers: Message) -> HttpAnswer:
            encode, content_type = choose_encoder(headers.get("Accept", ""))
            return HttpAnswer(200, content_type, encode(registry))

        stop = threading.Event()
        with HttpServer(host, port, answer) as server, examination, stopped_by_signals(stop.set):
            log.info("metrics of %s at http://%s:%d/metrics", store.where, host, server.port)
            stop.wait()
