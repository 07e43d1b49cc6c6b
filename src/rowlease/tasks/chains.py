"""What follows: the successor of a request, and the request that waits for a batch.

The payload's key "$next" has the successor of a request as a JSON object, in whose payload may be
the next one. The transaction that completes a request enqueues its successor. The key "$after" says
what a request needs of the batch that it has waited for, which the worker fills in.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from rowlease.errors import InvalidRequest
from rowlease.model import NewRequest, short_repr
from rowlease.tasks import codec
from rowlease.tasks.headers import EXPIRES_HEADER, decode_headers, encode_headers
from rowlease.tasks.parameters import AFTER_KEY, NEXT_KEY
from rowlease.tasks.requests import DEFAULT_QUEUE, TaskRequest
from rowlease.tasks.task import Link, R


class _Next(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A successor, as it stands in the payload of the request before it.

    Attributes:
        result_as: the argument that the result of the request before it becomes.
    """

    kind: str
    payload: dict[str, Any]
    queue: str = DEFAULT_QUEUE
    result_as: str | None = None
    priority: int = 0
    delay_ms: int | None = None
    dedup_key: str | None = None
    group_key: str | None = None
    max_attempts: int | None = None
    retry_base_ms: int | None = None
    headers: dict[str, str] | None = None


class AfterBatch(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """What a request needs of the batch that it has waited for.

    Attributes:
        batch_id: the id of the batch.
        result_as: the argument that the list of results becomes; None if there is none.
        even_if_dead: whether it runs though not all requests of the batch are complete.
    """

    batch_id: str
    result_as: str | None = None
    even_if_dead: bool = False


class _Following(msgspec.Struct):
    """What a payload says of what follows. Its arguments are not read."""

    next: _Next | None = msgspec.field(name=NEXT_KEY, default=None)
    after: AfterBatch | None = msgspec.field(name=AFTER_KEY, default=None)


#: The keys as they stand in a payload.
_NEXT = f'"{NEXT_KEY}"'
_NEXT_BYTES = _NEXT.encode()
_AFTER = f'"{AFTER_KEY}"'
_following = msgspec.json.Decoder(_Following).decode


class Successor(NamedTuple):
    """The request that follows one that is complete."""

    queue: str
    new: NewRequest


def chain(*links: Link[Any] | TaskRequest[Any]) -> TaskRequest[Any]:
    """One request for several links, of which each begins when the link before it is complete.

        client.enqueue_many([chain(shrink.s("a.png"), publish.s(width=200))])

    The transaction that completes a link enqueues the next one, so each is enqueued exactly once. A
    link that becomes a dead letter or is cancelled ends the chain; once it is requeued and
    complete, the chain goes on.

    Args:
        links: tasks with their arguments. The result of a link becomes the first argument of the
            next one, if that is made by `Task.s`. A link that is made by `Task.request` or
            `untyped_request` has all its arguments already. A link may be a chain, and may have
            another queue and other options.

    Raises:
        InvalidRequest: there is no link; arguments do not fit; a link but the first has the option
            `due_time`; or all links together are larger than a payload may be.
    """
    if not links:
        raise InvalidRequest("a chain has no link; give at least one")
    first = request_of(links[0])
    payload = at = json.loads(first.new.payload)
    for link in links[1:]:
        while NEXT_KEY in at:
            at = at[NEXT_KEY]["payload"]
        at[NEXT_KEY] = _next(link)
    return _with_payload(first, payload)


def after_batch(
    given: Link[R] | TaskRequest[R], batch_id: str, *, even_if_dead: bool
) -> TaskRequest[R]:
    """The request that follows a batch. A link gets the list of results as its first argument.

    Raises:
        InvalidRequest: this is not a link, or its arguments do not fit.
    """
    request, result_as = _request_and_result(given)
    payload = json.loads(request.new.payload)
    payload[AFTER_KEY] = msgspec.to_builtins(AfterBatch(batch_id, result_as, even_if_dead))
    return _with_payload(request, payload)


def batch_before(payload: str) -> AfterBatch | None:
    """What a payload says of the batch that its request has waited for.

    Raises:
        InvalidRequest: the key "$after" is wrong.
    """
    try:
        return _following(payload).after if has_batch_before(payload) else None
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"the payload says nothing right of its batch: {error}") from error


def _with_payload(request: TaskRequest[R], payload: dict[str, Any]) -> TaskRequest[R]:
    try:
        text = codec.encode(payload)
    except ValueError as error:
        raise InvalidRequest(f"the payload of the chain {error}") from error
    return replace(request, new=replace(request.new, payload=text))


def request_of(link: Link[R] | TaskRequest[R]) -> TaskRequest[R]:
    """The request for a link that has all its arguments.

    Raises:
        InvalidRequest: this is not a link, or its arguments do not fit.
    """
    if isinstance(link, Link):
        return link.request()
    if not isinstance(link, TaskRequest):
        raise InvalidRequest(
            f"a link is {short_repr(link)}; give the results of task.s(...), task.request(...) or "
            "rowlease.untyped_request(...)"
        )
    return link


def successor_of(payload: str | bytes, headers: str | None, result: str | None) -> Successor | None:
    """The request that is to be enqueued when this one completes; None if it ends its chain.

    Args:
        payload: the payload of the request that completes.
        headers: its headers. The successor has them, too, unless it has its own of the same name.
        result: its result, as JSON text.

    Raises:
        InvalidRequest: the key "$next" is not a successor, or its headers are too large.
    """
    if not has_successor(payload):
        return None
    try:
        link = _following(payload).next
        if link is None:  # the key is in an argument
            return None
        if link.result_as is not None:
            link.payload[link.result_as] = json.loads(result or "null")
        return Successor(
            link.queue,
            NewRequest(
                kind=link.kind,
                payload=codec.encode(link.payload),
                priority=link.priority,
                delay=_duration(link.delay_ms),
                dedup_key=link.dedup_key,
                group_key=link.group_key,
                max_attempts=link.max_attempts,
                retry_base=_duration(link.retry_base_ms),
                headers=encode_headers({**_passed_on(headers), **(link.headers or {})}),
            ),
        )
    except (msgspec.DecodeError, ValueError, OverflowError) as error:
        raise InvalidRequest(f"the successor of the request is wrong: {error}") from error


def _passed_on(headers: str | None) -> dict[str, str]:
    """The headers that a successor has, too: all but the time for the start of a request."""
    found = decode_headers(headers)
    found.pop(EXPIRES_HEADER, None)
    return found


def has_successor(payload: str | bytes) -> bool:
    """Whether a payload may have a successor: a quick test, which most payloads end."""
    return _NEXT in payload if isinstance(payload, str) else _NEXT_BYTES in payload


def has_batch_before(payload: str) -> bool:
    """Whether a payload may need a batch: a quick test, which most payloads end."""
    return _AFTER in payload


def _next(given: Link[Any] | TaskRequest[Any]) -> dict[str, Any]:
    """A link as the successor of the one before it."""
    request, result_as = _request_and_result(given)
    new = request.new
    if new.due_time is not None:
        raise InvalidRequest(
            f"the link {new.kind} has a due_time; give a delay, which begins when the link before "
            "it is complete"
        )
    link: dict[str, Any] = msgspec.to_builtins(
        _Next(
            kind=new.kind,
            payload=json.loads(new.payload),
            queue=request.queue,
            result_as=result_as,
            priority=new.priority,
            delay_ms=_milliseconds(new.delay),
            dedup_key=new.dedup_key,
            group_key=new.group_key,
            max_attempts=new.max_attempts,
            retry_base_ms=_milliseconds(new.retry_base),
            headers=decode_headers(new.headers) or None,
        )
    )
    return link


def _request_and_result(given: Link[R] | TaskRequest[R]) -> tuple[TaskRequest[R], str | None]:
    """The request, and the argument that becomes the result of what comes before it."""
    if isinstance(given, Link):
        return given.request_without_result()
    return request_of(given), None


def _milliseconds(duration: timedelta | None) -> int | None:
    return None if duration is None else round(duration / timedelta(milliseconds=1))


def _duration(milliseconds: int | None) -> timedelta | None:
    return None if milliseconds is None else timedelta(milliseconds=milliseconds)
