"""`rowlease up`."""

from __future__ import annotations

import threading

import click

from rowlease.cli.say import say


@click.command()
def up() -> None:
    """Run the embedded server until Ctrl-C, for development.

    It is migrated first. While it runs, every rowlease command and program without ROWLEASE_DSN
    uses it, and other programs with the DSN of `rowlease url`.
    """
    from rowlease.client.database import database
    from rowlease.config import DSN_VARIABLE, configured_dsn
    from rowlease.errors import ConfigError
    from rowlease.store import redact
    from rowlease.worker.host.signals import stopped_by_signals

    if (configured := configured_dsn()) is not None:
        raise ConfigError(
            f"another database is configured, {redact(configured)}: `rowlease up` runs the "
            f"embedded server, which programs use while {DSN_VARIABLE} is not set"
        )
    stop = threading.Event()
    with database() as dsn, stopped_by_signals(stop.set):
        say(f"PostgreSQL is up: {redact(dsn)}")
        say(f"In another terminal: export {DSN_VARIABLE}=$(rowlease url)")
        say("Ctrl-C stops it; the data stay.")
        stop.wait()
