"""`rowlease top`."""

from __future__ import annotations

import time

import click

from rowlease.cli.options import dsn_option, json_option, show_json
from rowlease.errors import ConfigError

#: Seconds between the two samples from which the rates of a single frame are computed.
SECONDS_BETWEEN_SAMPLES = 1.0


@click.command()
@click.option("--once", is_flag=True, help="Print one frame, and end.")
@dsn_option
@json_option
def top(dsn: str | None, as_json: bool, once: bool) -> None:
    """Show queues, requests and workers live.

    The last line shows the keys: select a queue and open it, then a request; find requests by a
    filter; see errors, schedules and loads; sort; quit with q.

    Once a second the command reads counters and small tables, but never the queue itself; the pages
    of a queue and of a search read at most 200 rows of each table. With --json it prints one frame.
    It needs the role rowlease_reader, rowlease_operator or rowlease_worker; pages other than the
    first need one of the first two.
    """
    from rich.console import Console

    from rowlease.client.database import connect
    from rowlease.top import Overview, Sampler, watch

    console = Console()
    if not (once or as_json or console.is_terminal):
        raise ConfigError("stdout is not a terminal; use --once or --json")
    with connect(dsn, application_name="rowlease top") as store:
        if once or as_json:
            sampler = Sampler(store)
            sampler.sample()
            time.sleep(SECONDS_BETWEEN_SAMPLES)
            sample = sampler.sample()
            show_json(sample.as_json()) if as_json else console.print(Overview(sample, store.where))
            return
        try:
            watch(store, console)
        except KeyboardInterrupt:
            return  # Ctrl-C is the usual way to leave
