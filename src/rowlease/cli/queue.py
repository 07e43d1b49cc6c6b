"""`rowlease queue`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import click

from rowlease.cli.options import (
    ListGroup,
    actor_option,
    dry_run_option,
    dsn_option,
    duration,
    json_option,
    show_json,
)
from rowlease.cli.say import say
from rowlease.cli.tables import show_rows, show_table
from rowlease.counts import counted

if TYPE_CHECKING:
    from rowlease.client.queues import Change, QueueInfo, Queues
    from rowlease.declared_queues import QueueSettings

QUEUE_TABLE_COLUMNS = ("queue", "state", "pending", "scheduled", "processing", "failed", "oldest")
CORRECTED = ("queue_name", "priority", "batch_id", "counter", "was", "actual")


def settings_of(
    _context: click.Context, _param: click.Parameter, given: tuple[str, ...]
) -> QueueSettings:
    """Parse settings such as `capacity=1000`, `max_in_flight=none` and `policy_weights=[1,2]`."""
    from rowlease.client.queues import parse_setting

    found: dict[str, Any] = {}
    for one in given:
        name, sign, text = one.partition("=")
        if not sign:
            raise click.BadParameter(f"{one!r} has no value; write {one}=VALUE")
        found[name] = parse_setting(text)
    return cast("QueueSettings", found)


settings_argument = click.argument(
    "settings", nargs=-1, metavar="[SETTING=VALUE]...", callback=settings_of
)


@click.group(cls=ListGroup)
def queue() -> None:
    """Create, change, show, drain or delete queues. Without a command: `list`.

    \b
    docs/queues.md lists all settings. Some of them:
      capacity=1000        the maximum number of waiting requests, or none
      max_in_flight=20     the maximum number of running requests, or none
      max_attempts=8       the maximum number of attempts
      policy=weighted      the order of claims: strict, weighted or aging
      rate=100/1m          the maximum number of starts in a period, or none
    """


@contextmanager
def open_queues(dsn: str | None) -> Iterator[Queues]:
    from rowlease.client.database import connect
    from rowlease.client.queues import Queues

    with connect(dsn) as store:
        yield Queues(store)


@queue.command()
@click.argument("name")
@settings_argument
@actor_option
@dsn_option
@json_option
def create(
    name: str, settings: QueueSettings, actor: str | None, dsn: str | None, as_json: bool
) -> None:
    """Create a queue.

    If the queue exists with these settings, nothing is changed.

    \b
      rowlease queue create images capacity=1000 policy=aging
    """
    with open_queues(dsn) as queues:
        outcome = queues.create(name, actor=actor, **settings)
    if as_json:
        show_json({"queue_name": name, "outcome": outcome})
    else:
        say(f"queue {name}: " + ("created" if outcome == "ok" else "exists already"))


@queue.command("set")
@click.argument("name")
@settings_argument
@dry_run_option
@actor_option
@dsn_option
@json_option
def change(
    name: str,
    settings: QueueSettings,
    dry_run: bool,
    actor: str | None,
    dsn: str | None,
    as_json: bool,
) -> None:
    """Change settings of a queue.

    \b
      rowlease queue set images capacity=none max_in_flight=20
    """
    if not settings:
        raise click.UsageError("give at least one setting, such as capacity=1000")
    with open_queues(dsn) as queues:
        changes = queues.set(name, dry_run=dry_run, actor=actor, **settings)
    show_changes(changes, as_json, dry_run, f"queue {name}: unchanged")


@queue.command("list")
@dsn_option
@json_option
def list_all(dsn: str | None, as_json: bool) -> None:
    """List all queues, with the number of requests in each status."""
    from rowlease.durations import format_duration as age

    with open_queues(dsn) as queues:
        rows = [as_data(row) for row in queues.list()]
    if as_json:
        show_json(rows)
        return
    show_table(
        QUEUE_TABLE_COLUMNS,
        (
            (
                row["queue_name"],
                "paused" if row["paused"] else "open",
                *(row[count] for count in QUEUE_TABLE_COLUMNS[2:-1]),
                age(row["oldest_seconds"]),
            )
            for row in rows
        ),
    )


@queue.command()
@click.argument("name")
@dsn_option
@json_option
def show(name: str, dsn: str | None, as_json: bool) -> None:
    """Show the settings of a queue, and its number of requests."""
    from rowlease.client.queues import format_setting
    from rowlease.durations import format_duration as age

    with open_queues(dsn) as queues:
        data = as_data(queues.show(name))
    if as_json:
        show_json(data)
        return
    settings = data.pop("settings")
    data["oldest"] = age(data.pop("oldest_seconds"))
    for key, value in {**data, **settings}.items():
        say(f"{key:<21} {format_setting(value)}")


@queue.command()
@click.argument("name")
@actor_option
@dsn_option
@json_option
def pause(name: str, actor: str | None, dsn: str | None, as_json: bool) -> None:
    """Stop claims from a queue.

    Its running requests and its producers continue.
    """
    with open_queues(dsn) as queues:
        queues.pause(name, actor=actor)
    done(name, as_json, "paused")


@queue.command()
@click.argument("name")
@actor_option
@dsn_option
@json_option
def resume(name: str, actor: str | None, dsn: str | None, as_json: bool) -> None:
    """Allow claims from a paused queue again."""
    with open_queues(dsn) as queues:
        queues.resume(name, actor=actor)
    done(name, as_json, "resumed")


@queue.command()
@click.argument("name")
@click.option("--timeout", type=duration, help="The longest time to wait. Default: no limit.")
@actor_option
@dsn_option
@json_option
def drain(
    name: str, timeout: timedelta | None, actor: str | None, dsn: str | None, as_json: bool
) -> None:
    """Pause a queue, and wait until none of its requests runs.

    The queue stays paused, with its waiting requests, until `rowlease queue resume`. The exit code
    is 1 if requests still run after the timeout.
    """
    with open_queues(dsn) as queues:
        running = queues.drain(name, timeout, actor=actor)
    if as_json:
        show_json({"queue_name": name, "paused": True, "processing": running})
    elif running:
        say(f"queue {name}: paused; {counted(running, 'request')} still running")
    else:
        say(f"queue {name}: paused; no request is running")
    if running:
        raise SystemExit(1)


@queue.command()
@click.argument("name")
@click.option(
    "--purge", is_flag=True, help="Also delete its waiting requests and dead letters for good."
)
@dry_run_option
@actor_option
@dsn_option
@json_option
def delete(
    name: str, purge: bool, dry_run: bool, actor: str | None, dsn: str | None, as_json: bool
) -> None:
    """Delete a queue that nothing uses.

    The queue must have no requests, and no live worker, schedule or staged load may use it. Its
    history stays until it expires.
    """
    with open_queues(dsn) as queues:
        count = queues.delete(name, purge=purge, dry_run=dry_run, actor=actor)
    if as_json:
        show_json({"queue_name": name, "num_purged": count, "dry_run": dry_run})
        return
    what = f"queue {name}" + (f" and {counted(count, 'request')}" if count else "")
    say(f"would delete {what}" if dry_run else f"{what}: deleted")


@queue.command()
@click.argument("name", required=False)
@actor_option
@dsn_option
@json_option
def recount(name: str | None, actor: str | None, dsn: str | None, as_json: bool) -> None:
    """Correct counts after rows were changed by hand.

    Compares the counts of the queue NAME, or of every queue, with the rows, and prints those that
    were wrong. No request is changed, except that groups blocked by a missing request go on.
    """
    from rowlease.client.database import connect

    with connect(dsn) as store:
        rows = store.recount(name, actor=actor)
    show_rows(rows, CORRECTED, as_json, "every count was right")


def show_changes(changes: list[Change], as_json: bool, dry_run: bool, nothing: str) -> None:
    if as_json:
        show_json({"changes": [each._asdict() for each in changes], "dry_run": dry_run})
        return
    for each in changes:
        would = "would change" if each.setting else "would create"
        say(f"{would} {each}".removesuffix(": created") if dry_run else str(each))
    if not changes:
        say(nothing)


def done(name: str, as_json: bool, word: str) -> None:
    if as_json:
        show_json({"queue_name": name, "paused": word == "paused"})
    else:
        say(f"queue {name}: {word}")


def as_data(info: QueueInfo) -> dict[str, Any]:
    """A queue as JSON data."""
    data = info._asdict()
    oldest = data.pop("oldest")
    settings = data.pop("settings")
    seconds = None if oldest is None else oldest.total_seconds()
    return {**data, "oldest_seconds": seconds, "settings": settings}
