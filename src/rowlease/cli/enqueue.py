"""`rowlease enqueue`."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import BinaryIO

import click

from rowlease.cli.options import (
    TIME_FORM,
    dsn_option,
    duration,
    header_option,
    json_option,
    show_json,
    time_of,
)
from rowlease.cli.say import say
from rowlease.errors import ConfigError, EnqueueUnknown, InvalidRequest


@click.command()
@click.argument("kind")
@click.option("--payload", metavar="JSON", help="The task's arguments; - means stdin. Default: {}.")
@click.option(
    "--lines",
    type=click.File("rb"),
    metavar="FILE",
    help="A file with one payload per line; - means stdin. All requests are enqueued, or none.",
)
@click.option("--queue", default="default", show_default=True, help="The name of the queue.")
@click.option("--priority", type=int, default=0, show_default=True, help="Bigger is more urgent.")
@click.option("--delay", type=duration, help="The time until the request may run: 30s, 5m, 1h.")
@click.option(
    "--at", "due_time", callback=time_of, help=f"The time from which it may run: {TIME_FORM}."
)
@click.option("--dedup-key", help="A key that at most one live request of the queue may have.")
@click.option("--group-key", help="Requests of a group run one at a time, in order.")
@click.option(
    "--max-attempts",
    type=click.IntRange(1, 10**6),
    help="The maximum number of attempts. Default: the queue's setting.",
)
@click.option(
    "--retry-base", type=duration, help="The first back-off. Default: the queue's setting."
)
@click.option("--expires", type=duration, help="The time after which it is not started any more.")
@click.option("--wait", type=duration, help="The time to wait for room, if the queue is full.")
@click.option(
    "--receipt",
    metavar="TEXT",
    help="Commands with the same receipt within a day enqueue once. If the outcome of a command is "
    "unknown, the error has its receipt.",
)
@click.option("--batch-id", metavar="TEXT", help="The batch that the requests join.")
@click.option("--after", metavar="TEXT", help="A batch or load; the requests wait for its end.")
@header_option
@dsn_option
@json_option
def enqueue(
    kind: str,
    payload: str | None,
    lines: BinaryIO | None,
    queue: str,
    priority: int,
    delay: timedelta | None,
    due_time: datetime | None,
    dedup_key: str | None,
    group_key: str | None,
    max_attempts: int | None,
    retry_base: timedelta | None,
    expires: timedelta | None,
    wait: timedelta | None,
    receipt: str | None,
    batch_id: str | None,
    after: str | None,
    headers: dict[str, str],
    dsn: str | None,
    as_json: bool,
) -> None:
    """Enqueue requests for the task KIND.

    KIND is the name of a task. Only workers know the task, so its name and arguments are not
    checked, and the options of its @task, such as max_attempts, do not apply: give them here.
    """
    from rowlease.client.client import Client
    from rowlease.tasks.requests import named_once, untyped_request

    make = partial(
        untyped_request,
        kind,
        queue=queue,
        priority=priority,
        delay=delay,
        due_time=due_time,
        dedup_key=dedup_key,
        group_key=group_key,
        max_attempts=max_attempts,
        retry_base=retry_base,
        expires=expires,
        headers=headers,
    )
    if lines is not None and (payload is not None or dedup_key):
        raise ConfigError("--lines cannot be combined with --payload or --dedup-key")
    requests = []
    for line, text in read_payloads(payload, lines):
        try:
            given = json.loads(text.decode("utf-8-sig"), object_pairs_hook=named_once)
            requests.append(make(given))
        except (ValueError, RecursionError) as error:
            raise InvalidRequest(
                f"{line or 'the payload'} is not JSON in UTF-8: {error}; nothing was enqueued"
            ) from error
        except InvalidRequest as error:
            place = f"{line}: " if line else ""
            raise InvalidRequest(f"{place}{error}; nothing was enqueued") from error
    try:
        with Client(dsn) as client:
            answers = client.enqueue_many(
                requests, receipt=receipt, wait=wait, batch_id=batch_id, after=after
            )
    except EnqueueUnknown as error:
        raise EnqueueUnknown(
            f"it is not known whether the requests were enqueued ({error.__cause__}); run the same "
            f"command with --receipt {shlex.quote(error.receipt)}: that enqueues them once",
            receipt=error.receipt,
        ) from error.__cause__
    if as_json:
        show_json([{"request_id": a.request_id, "outcome": a.outcome} for a in answers])
    elif len(answers) == 1:
        say(f"request {answers[0].request_id}: {answers[0].outcome}")
    else:
        say(f"{len(answers):,} requests enqueued")


def read_payloads(
    payload: str | None, lines: BinaryIO | None
) -> Iterator[tuple[str | None, bytes]]:
    """The payloads, each with its line ("line 3") for messages; None for a single payload."""
    if lines is not None:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield f"line {number}", line
    elif payload == "-":
        yield None, sys.stdin.buffer.read()
    else:
        # In an argument, Python decodes bytes that are not UTF-8 to lone surrogates.
        text = "{}" if payload is None else payload
        yield None, text.encode("utf-8", "surrogateescape")
