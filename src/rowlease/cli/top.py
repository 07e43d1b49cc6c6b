"""`rowlease top`."""

from __future__ import annotations

import time

import click

from rowlease.cli.options import dsn_option, json_option, show_json
from rowlease.errors import ConfigError

#: Seconds between the two samples from which the rates of a single frame are computed.
APART = 1.0


@click.command()
@click.option("--once", is_flag=True, help="Print one frame, and end.")
@dsn_option
@json_option
def top(dsn: str | None, as_json: bool, once: bool) -> None:
    """Show queues and workers live. Press q to leave.

    Once a second the command reads counters and small tables, but never the queue itself. With
    --json it prints one frame. It needs the role rowlease_reader, rowlease_operator or
    rowlease_worker.
    """
    from rich.console import Console

    from rowlease.database import connect
    from rowlease.top import Frame, Sampler, watch

    console = Console()
    if not (once or as_json or console.is_terminal):
        raise ConfigError("stdout is not a terminal; use --once or --json")
    with connect(dsn, application_name="rowlease top") as store:
        sampler = Sampler(store)
        if once or as_json:
            sampler.sample()
            time.sleep(APART)
            sample = sampler.sample()
            show_json(sample.as_json()) if as_json else console.print(Frame(sample, store.where))
            return
        try:
            watch(sampler, store.where, console)
        except KeyboardInterrupt:
            return  # Ctrl-C is the usual way to leave
