"""`rowlease schedule`."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, NoReturn

import click

from rowlease.cli.options import (
    ListGroup,
    actor_option,
    dry_run_option,
    dsn_option,
    header_option,
    json_option,
    show_json,
)
from rowlease.cli.say import say
from rowlease.errors import InvalidRequest

if TYPE_CHECKING:
    from datetime import datetime

    from rowlease.model import Outcome, Schedule


@click.group(cls=ListGroup)
def schedule() -> None:
    """List, add, pause, resume, remove and fire schedules.

    Without a command: `list`.

    Workers that start, without --burst, create the schedules of their tasks (@task(cron=...)). The
    name of such a schedule is the name of its task. Pause such a schedule instead of removing it,
    because the next worker would create it again.
    """


@schedule.command("list")
@dsn_option
@json_option
def list_all(dsn: str | None, as_json: bool) -> None:
    """Show all schedules and their next firings."""
    from rowlease.client.database import connect

    with connect(dsn) as store:
        rows = store.list_schedules()
    if as_json:
        show_json([row._asdict() for row in rows])
    elif not rows:
        say("there is no schedule; see `rowlease schedule add --help`")
    for row in [] if as_json else rows:
        say(
            f"{row.schedule_name}: {row.cron} ({row.time_zone}), {row.kind} in {row.queue_name}, "
            f"{next_firing(row)}; last fired for {format_time(row.last_time)}"
        )


def next_firing(row: Schedule) -> str:
    from rowlease.errors import ConfigError
    from rowlease.tasks.cron import Cron

    if row.paused:
        return "paused"
    if row.next_time:
        return f"next at {format_time(row.next_time)}"
    try:
        return f"next at {format_time(Cron(row.cron, row.time_zone).following(row.changed_time))}"
    except ConfigError as error:  # the row was written by hand
        return f"never ({error})"


def format_time(time: datetime | None) -> str:
    return "-" if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


@schedule.command()
@click.argument("name")
@click.argument("cron")
@click.argument("kind")
@click.option("--queue", default="default", show_default=True, help="The name of the queue.")
@click.option("--time-zone", default="UTC", show_default=True, help="For example Europe/Berlin.")
@click.option(
    "--payload",
    metavar="JSON",
    default="{}",
    show_default=True,
    help="The task's arguments. {scheduled_time} is replaced with the time of the firing.",
)
@click.option("--priority", type=int, default=0, show_default=True, help="Bigger is more urgent.")
@click.option(
    "--catch-up",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="The maximum number of missed firings that are enqueued late.",
)
@header_option
@dry_run_option
@actor_option
@dsn_option
@json_option
def add(
    name: str,
    cron: str,
    kind: str,
    queue: str,
    time_zone: str,
    payload: str,
    priority: int,
    catch_up: int,
    headers: dict[str, str],
    dry_run: bool,
    actor: str | None,
    dsn: str | None,
    as_json: bool,
) -> None:
    """Create or change a schedule.

    The schedule NAME enqueues the task KIND at the times of CRON.

    \b
    CRON has five fields, minute, hour, day, month and weekday, or six with
    seconds first:
      rowlease schedule add nightly "0 3 * * *" clean_up --time-zone Europe/Berlin
    """
    from rowlease.client.database import connect
    from rowlease.tasks.cron import Cron
    from rowlease.tasks.headers import encode_headers

    times = Cron(cron, time_zone)
    with connect(dsn) as store:
        known = {row.schedule_name: row for row in store.list_schedules()}.get(name)
        if dry_run:
            show_would("change" if known else "create", name, "", as_json)
            return
        outcome, changed = store.put_schedule(
            name,
            cron,
            kind,
            queue=queue,
            time_zone=time_zone,
            payload=payload,
            priority=priority,
            catch_up=catch_up,
            headers=encode_headers(headers),
            actor=actor,
        )
    first = times.following(changed)
    if as_json:
        show_json({"schedule_name": name, "outcome": outcome, "changed_time": changed})
    elif outcome == "repeat":
        say(f"schedule {name}: unchanged")
    else:
        first_time = (
            f"it first fires at {format_time(first)}, if a worker with the task {kind} runs"
        )
        word = "changed" if known else f"created; {first_time}"
        say(f"schedule {name}: {word}")


@schedule.command()
@click.argument("name")
@actor_option
@dsn_option
@json_option
def pause(name: str, actor: str | None, dsn: str | None, as_json: bool) -> None:
    """Stop a schedule. Requests that the schedule has enqueued still run."""
    act("pause_schedule", name, actor, dsn, as_json, "paused")


@schedule.command()
@click.argument("name")
@actor_option
@dsn_option
@json_option
def resume(name: str, actor: str | None, dsn: str | None, as_json: bool) -> None:
    """Let a paused schedule fire again. Firings missed during the pause are not enqueued."""
    act("resume_schedule", name, actor, dsn, as_json, "resumed")


@schedule.command()
@click.argument("name")
@dry_run_option
@actor_option
@dsn_option
@json_option
def remove(name: str, dry_run: bool, actor: str | None, dsn: str | None, as_json: bool) -> None:
    """Delete a schedule. Requests that the schedule has enqueued still run.

    If the schedule is in a task's code, the next worker that starts creates it again.
    """
    if dry_run:
        would("remove", name, dsn, as_json)
    else:
        act("remove_schedule", name, actor, dsn, as_json, "removed")


@schedule.command()
@click.argument("name")
@dry_run_option
@actor_option
@dsn_option
@json_option
def fire(name: str, dry_run: bool, actor: str | None, dsn: str | None, as_json: bool) -> None:
    """Enqueue one request of a schedule now. The schedule's next firing does not change."""
    from rowlease.client.database import connect

    if dry_run:
        would("fire", name, dsn, as_json)
        return
    with connect(dsn) as store:
        (answer,) = store.fire_schedule(name, actor=actor)
    refuse_unknown(answer.outcome, name)
    if as_json:
        show_json(answer._asdict())
    else:
        say(f"schedule {name}: fired, request {answer.request_id}")


def act(
    routine: str, name: str, actor: str | None, dsn: str | None, as_json: bool, word: str
) -> None:
    from rowlease.client.database import connect

    with connect(dsn) as store:
        outcome = getattr(store, routine)(name, actor=actor)
    refuse_unknown(outcome, name)
    if as_json:
        show_json({"schedule_name": name, "outcome": outcome})
    else:
        say(f"schedule {name}: {word}" + (" already" if outcome == "repeat" else ""))


def would(verb: str, name: str, dsn: str | None, as_json: bool) -> None:
    from rowlease.client.database import connect

    with connect(dsn) as store:
        found = [row for row in store.list_schedules() if row.schedule_name == name]
    if not found:
        unknown(name)
    row = found[0]
    show_would(verb, name, f": {row.cron} ({row.time_zone}), {row.kind}", as_json)


def show_would(verb: str, name: str, described: str, as_json: bool) -> None:
    if as_json:
        show_json({"schedule_name": name, "would": verb, "dry_run": True})
    else:
        say(f"would {verb} the schedule {name}{described}")


def refuse_unknown(outcome: Outcome, name: str) -> None:
    if outcome == "not_found":
        unknown(name)


def unknown(name: str) -> NoReturn:
    raise InvalidRequest(f"there is no schedule {name!r}; `rowlease schedule list` lists them")
