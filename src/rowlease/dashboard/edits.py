"""Forms for the settings of a queue, for a schedule and for a new request, and their actions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException

from rowlease.client.queues import Queues, format_setting, parse_setting
from rowlease.counts import counted
from rowlease.dashboard.formats import exact
from rowlease.dashboard.previews import Applied, Changed, Preview
from rowlease.declared_queues import QueueSettings
from rowlease.durations import parse_duration
from rowlease.errors import InvalidRequest
from rowlease.filters.language import parse_time
from rowlease.model import Schedule
from rowlease.store import Store
from rowlease.tasks.cron import Cron
from rowlease.tasks.requests import TaskRequest, named_once, untyped_request

NO_CHANGE = Preview("Nothing would change.", num=0)


class Field(NamedTuple):
    """A field of a form.

    Attributes:
        shown: the value that the field has at first.
        hint: what may be written into it.
        is_long: whether it has several lines.
    """

    name: str
    label: str
    shown: str = ""
    hint: str = ""
    is_long: bool = False


class Edit(NamedTuple):
    """A form, whose action shows a preview.

    Attributes:
        verb: the action.
        hidden: values that the visitor does not change.
        back: the page to which the visitor returns.
    """

    title: str
    lead: str
    verb: str
    fields: list[Field]
    hidden: Mapping[str, str]
    back: str


# -- the settings of a queue -----------------------------------------------------------------------


def edit_queue(store: Store, query: QueryParams) -> Edit:
    """The settings of a queue, each with the value that it has now."""
    name = query.get("name", "")
    if name not in {one.queue_name for one in store.list_queues()}:
        raise HTTPException(404)
    settings = store.show_queue(name)
    shown = {one: format_setting(settings[one]) for one in QueueSettings.__annotations__}
    return Edit(
        f"Settings of the queue {name}",
        "Write none for no limit. Only what you change is set.",
        "configure-queue",
        [Field(one, one, value) for one, value in shown.items()],
        {"queue": name, **{f"was_{one}": value for one, value in shown.items()}},
        "/queues",
    )


def preview_queue(store: Store, form: QueryParams) -> Preview:
    name = form.get("queue", "")
    changes = Queues(store).set(name, dry_run=True, **_settings(form))
    if not changes:
        return NO_CHANGE
    return Preview(
        f"{counted(len(changes), 'setting')} of the queue {name} would change.",
        changes=[
            Changed(one.setting or "", format_setting(one.was), format_setting(one.now))
            for one in changes
        ],
    )


def configure_queue(store: Store, form: QueryParams, actor: str) -> Applied:
    name = form.get("queue", "")
    changes = Queues(store).set(name, actor=actor, **_settings(form))
    return Applied(f"{counted(len(changes), 'setting')} of the queue {name} changed.")


def _settings(form: QueryParams) -> QueueSettings:
    """The settings that the visitor has changed; another operator may have changed others."""
    given = {one: form.get(one, "").strip() for one in QueueSettings.__annotations__ if one in form}
    return cast(
        "QueueSettings",
        {
            name: parse_setting(text)
            for name, text in given.items()
            if text != form.get(f"was_{name}")
        },
    )


# -- a schedule ------------------------------------------------------------------------------------


def edit_schedule(store: Store, query: QueryParams) -> Edit:
    """The values of a schedule, or the form of a new one."""
    name = query.get("name")
    known = _known(store, name) if name else None
    if name and known is None:
        raise HTTPException(404)
    shown = _shown(known)
    hints = {
        "cron": "minute, hour, day, month and weekday, such as 0 3 * * *",
        "payload": "a JSON object; {scheduled_time} is replaced with the time of the firing",
        "priority": "bigger is more urgent",
        "catch_up": "how many missed firings are enqueued late",
    }
    labels = {"cron": "Cron", "time_zone": "Time zone", "catch_up": "Catch-up"}
    fields = [
        Field(one, labels.get(one, one.capitalize()), value, hints.get(one, ""), one == "payload")
        for one, value in shown.items()
    ]
    return Edit(
        f"The schedule {name}" if known else "A new schedule",
        "A worker that starts puts the schedules of its code back as they are declared there.",
        "put-schedule",
        fields if known else [Field("schedule", "Name"), *fields],
        {"schedule": name or ""} if known else {},
        "/schedules",
    )


def preview_schedule(store: Store, form: QueryParams) -> Preview:
    name, given = form.get("schedule", ""), _given(form)
    known = _known(store, name)
    store.depth(given["queue"])
    before = _shown(known) if known else dict.fromkeys(given, "")
    changes = [Changed(one, before[one], given[one]) for one in given if before[one] != given[one]]
    if not changes:
        return NO_CHANGE
    following = Cron(given["cron"], given["time_zone"]).following(datetime.now(UTC))
    verb = "changed" if known else "created"
    return Preview(
        f"The schedule {name} would be {verb}. Its next firing would be at {exact(following)}.",
        changes=changes,
    )


def put_schedule(store: Store, form: QueryParams, actor: str) -> Applied:
    name, given = form.get("schedule", ""), _given(form)
    known = _known(store, name)
    store.put_schedule(
        name,
        given["cron"],
        given["kind"],
        queue=given["queue"],
        time_zone=given["time_zone"],
        payload=given["payload"],
        priority=int(given["priority"]),
        catch_up=int(given["catch_up"]),
        headers=known.headers if known else None,
        actor=actor,
    )
    return Applied(f"The schedule {name} is saved.")


def _known(store: Store, name: str) -> Schedule | None:
    return next((one for one in store.list_schedules() if one.schedule_name == name), None)


def _shown(known: Schedule | None) -> dict[str, str]:
    """The values of a schedule as a form shows them."""
    if known is None:
        return {
            "cron": "", "time_zone": "UTC", "kind": "", "queue": "default", "payload": "{}",
            "priority": "0", "catch_up": "1",
        }  # fmt: skip
    return {
        "cron": known.cron,
        "time_zone": known.time_zone,
        "kind": known.kind,
        "queue": known.queue_name,
        "payload": known.payload,
        "priority": str(known.priority),
        "catch_up": str(known.catch_up),
    }


def _given(form: QueryParams) -> dict[str, str]:
    """The values of a schedule's form, after a check.

    Raises:
        ConfigError: the expression or the time zone is not valid.
        InvalidRequest: another value is wrong.
    """
    given = {name: form.get(name, shown).strip() for name, shown in _shown(None).items()}
    given["cron"] = " ".join(given["cron"].split())
    for name in ("priority", "catch_up"):
        given[name] = str(_whole(name, given[name]))
    Cron(given["cron"], given["time_zone"])
    _request(given["kind"], given["payload"], priority=int(given["priority"]))
    return given


# -- a new request ---------------------------------------------------------------------------------


def edit_request(_store: Store, query: QueryParams) -> Edit:
    """The form of a new request."""
    return Edit(
        "A new request",
        "Only a worker knows the task, so its name and arguments are not checked.",
        "enqueue",
        [
            Field("kind", "Kind", query.get("kind", ""), "the name of the task"),
            Field("queue", "Queue", query.get("queue", "default")),
            Field("payload", "Payload", "{}", "a JSON object of the task's arguments", True),
            Field("priority", "Priority", "0", "bigger is more urgent"),
            Field("due", "Due", "", "after a time such as 5m, or at 2026-11-22T18:00; empty: now"),
        ],
        {},
        "/requests",
    )


def preview_enqueue(store: Store, form: QueryParams) -> Preview:
    request = _new(form)
    store.depth(request.queue)
    new = request.new
    due = "now"
    if new.due_time is not None:
        due = f"at {exact(new.due_time)}"
    elif new.delay is not None:
        due = f"in {form.get('due', '').strip()}"
    given = {"queue": request.queue, "payload": new.payload, "priority": str(new.priority)}
    return Preview(
        f"A request of the kind {new.kind} would be enqueued, due {due}.",
        changes=[Changed(name, "", value) for name, value in given.items()],
    )


def enqueue(store: Store, form: QueryParams, actor: str) -> Applied:
    request = _new(form)
    answer = store.enqueue_by_operator(request.queue, request.new, actor=actor)
    return Applied(f"The request {answer.request_id} is enqueued.")


def _new(form: QueryParams) -> TaskRequest[Any]:
    due = form.get("due", "").strip()
    options: dict[str, Any] = {}
    if due[:4].isdecimal() and "-" in due:
        options["due_time"] = _read("due", due, parse_time)
    elif due:
        options["delay"] = _read("due", due, parse_duration)
    return _request(
        form.get("kind", "").strip(),
        form.get("payload", "{}"),
        queue=form.get("queue", "").strip(),
        priority=_whole("priority", form.get("priority", "0").strip()),
        **options,
    )


def _request(kind: str, payload: str, **options: Any) -> TaskRequest[Any]:
    """A request whose payload is JSON text.

    Raises:
        InvalidRequest: a value is wrong.
    """
    try:
        given = json.loads(payload, object_pairs_hook=named_once)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"the payload is not JSON: {error}") from error
    if not kind:
        raise InvalidRequest("the kind is missing; write the name of a task")
    return untyped_request(kind, given, **options)


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise InvalidRequest(f"{name} is {text!r}; write a whole number of 0 or more")
    return int(text)


def _read(name: str, text: str, read: Any) -> Any:
    try:
        return read(text)
    except ValueError as error:
        raise InvalidRequest(f"{name}: {error}") from error
