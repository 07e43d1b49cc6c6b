"""Health probes and metrics of a worker, for its command."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rowlease.metrics.tally import Tally
    from rowlease.worker.host.health import HealthReport, Outlet


@contextmanager
def health_probes(
    address: str | None, report: Callable[[], HealthReport], tally: Callable[[], Tally], dsn: str
) -> Iterator[None]:
    """Answer health probes and scrapes over HTTP during the block, if there is an address."""
    if address is None:
        yield
        return
    from rowlease.http_server import HttpServer, read_address
    from rowlease.worker.host.probes import probe_answers

    host, port = read_address(address)
    answers = probe_answers(report, scrapes_of(report, tally, dsn))
    with HttpServer(host, port, answers) as server:
        logging.getLogger("rowlease").info("health probes at http://%s:%d/ready", host, server.port)
        yield


def scrapes_of(
    report: Callable[[], HealthReport], tally: Callable[[], Tally], dsn: str
) -> Callable[[str], tuple[str, bytes]] | None:
    """A function that answers scrapes; None if prometheus_client is not installed."""
    if find_spec("prometheus_client") is None:
        return None
    from rowlease.metrics.prometheus_format import worker_exposition
    from rowlease.store import place_of

    def scrape(accept: str) -> tuple[str, bytes]:
        health = report()
        gauges = {
            "live": health.live,
            "ready": health.ready,
            "draining": health.draining,
            "slots": health.slots,
            "busy_slots": health.busy,
        }
        return worker_exposition(tally(), gauges, accept, place_of(dsn))

    return scrape


def outlets_of(health_file: Path | None) -> tuple[list[Outlet], float]:
    """The outlets for health reports, and the seconds between two reports."""
    from rowlease.worker.host.health import interval_of
    from rowlease.worker.host.probes import HealthFile, Systemd

    systemd = Systemd.of_environment()
    outlets: list[Outlet] = [HealthFile(health_file)] if health_file else []
    if systemd:
        outlets.append(systemd)
    return outlets, interval_of([systemd.watchdog] if systemd and systemd.watchdog else [])
