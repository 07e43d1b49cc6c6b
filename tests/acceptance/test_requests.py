"""`client.find` and `rowlease requests`, as a person calls them who looks for a request."""

from __future__ import annotations

import asyncio
import json
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rowlease import AsyncClient, Client, task
from rowlease.client import operations
from rowlease.client.operations import Operation
from rowlease.errors import InvalidRequest, RoutineError, StoreUnavailable
from rowlease.model import Failure, Found
from tests.commands import Run, in_test

TRACE = "Traceback (most recent call last):\n  File ...\nTimeoutError: no answer\n"
NO_ANSWER = Failure("TimeoutError: no answer", None, True, "TimeoutError", TRACE)


Sql = Callable[..., list[tuple[Any, ...]]]

#: So many requests.
MANY = (
    "select count(*) from (select %s::integer as n) as given,"
    " rowlease.enqueue_many('default', array_fill('resize'::text, array[n]),"
    " array_fill('{}'::text, array[n]))"
)


@task
def resize(image: str) -> str:
    return image


@pytest.fixture
def client(dsn: str) -> Iterator[Client]:
    with Client(dsn) as client:
        yield client


@pytest.fixture
def requests(dsn: str, tmp_path: Path) -> Run:
    return partial(in_test(tmp_path), "requests", ROWLEASE_DSN=dsn)


def some(client: Client) -> tuple[int, int, int]:
    """A dead letter, a completed request and one that waits."""
    made = [client.enqueue(resize, f"{name}.png").request_id for name in "abc"]
    failed, done = client.store.dequeue("host:1:ab", ["default"], 2).requests
    client.store.fail([failed], [NO_ANSWER])
    client.store.complete([done], ['"b.png"'])
    return made[0], made[1], made[2]


def test_a_program_finds_requests(client: Client) -> None:
    failed, done, waits = some(client)

    def ids(**filters: Any) -> list[int]:
        return [request.request_id for request in client.find(**filters).requests]

    assert ids() == [waits, done, failed]
    assert ids(status="failed") == [failed]
    assert [found.request_id for found in client.find("status:failed").requests] == [failed]
    (both,) = client.find("status:failed,complete priority<1", error="timeout").requests
    assert both.request_id == failed
    assert ids(status=("Pending", "complete")) == [waits, done]
    assert ids(kind=resize, error="timeout") == [failed]
    assert ids(kind="resize", queue="default", max_age=timedelta(hours=1)) == [waits, done, failed]
    assert ids(since=datetime.now(UTC) + timedelta(hours=1)) == []
    (found,) = client.find(limit=1).requests
    assert found == client.get(waits).read()
    (attempt,) = client.find(error="timeout").requests[0].attempts
    assert (attempt.error_type, attempt.traceback) == ("TimeoutError", TRACE)


def test_a_program_goes_on_with_the_next_page(client: Client) -> None:
    every = [
        handle.request_id for handle in client.enqueue_many(resize.request("x") for _ in "abc")
    ]
    page = client.find(limit=2)
    more = client.find(limit=2, after=page.after)
    assert [found.request_id for found in page.requests + more.requests] == every[::-1]
    assert more.after is None


def test_a_coroutine_finds_requests(dsn: str) -> None:
    async def found() -> Any:
        async with AsyncClient(dsn) as client:
            made = await client.enqueue(resize, "a.png")
            return made.request_id, await client.find("kind:resize", status="pending")

    made, page = asyncio.run(found())
    assert [request.request_id for request in page.requests] == [made]


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"text": 3}, "filter is 3; it must be a text such as"),
        ({"text": "state:x"}, "the filter is wrong at character 1: there is no key 'state'"),
        ({"text": "queue:a", "queue": "b"}, "the text and the argument queue limit the same"),
        ({"status": "done"}, "status is 'done'; it must be one of Scheduled, Pending, Processing"),
        ({"status": ["failed", 3]}, "status is 3; it must be"),
        ({"queue": 3}, "queue is 3; it must be a string"),
        ({"max_age": 3}, "max_age is 3; it must be a timedelta"),
        ({"since": "yesterday"}, "since is 'yesterday'; it must be a datetime with a time zone"),
        ({"until": datetime(2026, 1, 1)}, "until is 2026-01-01 00:00:00; it must have a time zone"),
        ({"limit": 0}, "limit is 0; it must be from 1 to 10,000"),
        ({"limit": True}, "limit is True"),
        ({"after": "x"}, "after is 'x'; it must be `after` of an earlier answer"),
    ],
    ids=str,
)
def test_a_wrong_filter_is_refused(filters: Any, message: str, client: Client) -> None:
    text = filters.pop("text", None)
    with pytest.raises(InvalidRequest, match=message):
        client.find(text, **filters)


def test_an_unknown_filter_is_refused(client: Client) -> None:
    with pytest.raises(TypeError, match="there is no option 'state'; the options are: dedup_key"):
        client.find(state="failed")  # type: ignore[call-arg]


def test_a_person_lists_requests(client: Client, requests: Run) -> None:
    failed, done, waits = some(client)
    listed = requests("list")
    assert listed.returncode == 0
    heading, *lines = listed.stdout.splitlines()
    assert heading.split() == [
        "request",
        "queue",
        "kind",
        "status",
        "attempts",
        *("enqueued", "(UTC)"),
        "error",
    ]
    cells = [line.split() for line in lines]
    assert [line[:5] for line in cells] == [
        [str(waits), "default", "resize", "Pending", "0/5"],
        [str(done), "default", "resize", "Complete", "1/5"],
        [str(failed), "default", "resize", "Failed", "1/5"],
    ]
    assert lines[-1].endswith("  TimeoutError: no answer")
    listed = requests("list", 'status:failed error:"no answer" age<1h')
    assert [line.split()[0] for line in listed.stdout.splitlines()[1:]] == [str(failed)]
    listed = requests("list", "--limit", "1")
    assert listed.stdout.splitlines()[-1] == f"there may be more: --after {waits}"
    listed = requests("list", "--after", str(waits), "status:pending,complete", "kind:resize")
    assert [line.split()[0] for line in listed.stdout.splitlines()[1:]] == [str(done)]


def test_a_program_reads_the_list(client: Client, requests: Run) -> None:
    failed, _, _ = some(client)
    listed = json.loads(requests("list", "kind:resize error:time", "--json").stdout)
    assert listed["after"] is None
    (found,) = listed["requests"]
    assert (found["request_id"], found["payload"]) == (failed, {"image": "a.png"})
    (attempt,) = found["attempts"]
    assert (attempt["outcome"], attempt["traceback"]) == ("failed", TRACE)
    assert datetime.fromisoformat(attempt["ended_time"]).tzinfo
    assert found == json.loads(requests("show", str(failed), "--json").stdout)


def test_a_person_sees_what_went_wrong(client: Client, requests: Run) -> None:
    failed, done, _ = some(client)
    shown = requests("show", str(failed)).stdout
    assert "last_error       TimeoutError: no answer\n" in shown
    assert "\nattempt 1: failed on host:1:ab, " in shown
    assert textwrap.indent(TRACE, "  ") in shown
    assert 'result           "b.png"' in requests("show", str(done)).stdout
    nothing = requests("show", "999999")
    assert nothing.returncode == 2
    assert "there is no request 999999; it may have been purged" in nothing.stderr


@pytest.mark.parametrize("text", ["status:done", "since:soon", "failed"])
def test_a_wrong_filter_of_a_person_is_refused(text: str, requests: Run) -> None:
    done = requests("list", "queue:default", text)
    assert done.returncode == 2
    assert "the filter is wrong at character " in done.stderr
    assert f"  queue:default {text}\n" in done.stderr
    assert "^^^^" in done.stderr


def test_the_list_reads_on_until_it_is_full_or_has_read_enough(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib import import_module

    requests = import_module("rowlease.cli.requests")

    failed, *_ = some(client)
    one_at_a_time: Callable[..., Any] = partial(client.store.find_requests, look=1)
    monkeypatch.setattr(client.store, "find_requests", one_at_a_time)
    assert len(requests.find_first(client.store, 2, None, {}).requests) == 2
    assert requests.find_first(client.store, 5, None, {"kind": "none"}) == Found([], None)
    monkeypatch.setattr(requests, "MAX_CALLS", 2)
    assert requests.find_first(client.store, 5, None, {"kind": "none"}) == Found([], failed + 1)


# -- changing requests -----------------------------------------------------------------------------


def test_a_program_changes_requests(client: Client) -> None:
    failed, done, waits = some(client)
    heard: list[int] = []
    tried = client.requests.requeue("queue:default", dry_run=True)
    assert (tried.num_requests, tried.operation_id, tried.more) == (1, None, False)
    assert [one.request_id for one in tried.first] == [failed]
    found = client.requests.requeue(
        "queue:default", actor="ann", progress=lambda op: heard.append(op.num_requests)
    )
    assert (found.num_requests, found.more, heard) == (1, False, [1])
    assert client.requests.reprioritise(kind=resize, priority=5).num_requests == 2
    later = client.requests.reschedule(f"id:{waits}", delay=timedelta(hours=1))
    assert later.num_requests == 1
    due = datetime.now(UTC) + timedelta(days=1)
    client.requests.reschedule(ids=[waits], due_time=due)
    assert client.get(waits).read().due_time == due  # type: ignore[union-attr]
    (copy,) = client.requests.requeue(ids=[done]).first
    assert copy.new_request_id
    found_copy = client.get(copy.new_request_id).read()
    assert found_copy
    assert found_copy.requeued_from == done
    client.store.dequeue("host:1:ab", ["default"], 1)
    assert client.requests.break_leases("worker:host").num_requests == 1
    assert client.requests.cancel("queue:default status:pending,scheduled").num_requests == 3
    assert client.requests.purge("kind:resize status:complete,cancelled").num_requests == 4
    assert client.find().requests == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r.cancel(), "the filter selects every request"),
        (lambda r: r.cancel("state:x"), "there is no key 'state'"),
        (lambda r: r.reprioritise("queue:a", priority="x"), "priority is 'x'"),
        (
            lambda r: r.reschedule("queue:a", delay=timedelta(1), due_time=datetime.now(UTC)),
            "give delay or due_time, not both",
        ),
        (
            lambda r: r.reschedule("queue:a", due_time=datetime(2026, 1, 1)),
            "due_time is 2026-01-01 00:00:00; it must have a time zone",
        ),
    ],
)
def test_a_wrong_change_is_refused(
    call: Callable[[Any], Any], message: str, client: Client
) -> None:
    with pytest.raises((InvalidRequest, RoutineError), match=message):
        call(client.requests)


def test_an_operation_that_was_interrupted_goes_on(client: Client) -> None:
    made = client.enqueue_many(resize.request("x") for _ in range(5))
    step = client.store.operate("cancel", queue="default", limit=2)
    assert step.operation_id
    assert client.requests.resume("cancel", step.operation_id).num_requests == 5
    assert {handle.status() for handle in made} == {"Cancelled"}


def test_the_error_of_an_interrupted_operation_has_its_id(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = client.enqueue_many(resize.request("x") for _ in range(5))
    answer = client.store.operate
    calls = iter(range(2))

    def operate(*given: Any, **named: Any) -> Any:
        if next(calls, None) is None:
            raise StoreUnavailable("the network is down")
        return answer(*given, limit=2, **named)

    monkeypatch.setattr(client.store, "operate", operate)
    monkeypatch.setattr(operations, "MAX_STEP_RETRIES", 0)
    with pytest.raises(StoreUnavailable) as raised:
        client.requests.cancel("queue:default")
    interrupted = raised.value.operation_id
    assert interrupted is not None
    assert f"client.requests.resume('cancel', {interrupted})" in raised.value.__notes__[0]
    with pytest.raises(StoreUnavailable) as raised:
        client.requests.cancel("queue:default")
    assert raised.value.operation_id is None  # nothing was done, so nothing can be resumed
    monkeypatch.undo()
    assert client.requests.resume("cancel", interrupted).num_requests == 5
    assert {handle.status() for handle in made} == {"Cancelled"}


def test_an_operation_goes_on_when_its_session_is_ended(client: Client, sql: Sql) -> None:
    sql(MANY, [2500])
    num_ended = 0

    def end_sessions(so_far: Operation) -> None:
        nonlocal num_ended
        num_ended += len(
            sql(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
        )

    done = client.requests.cancel("queue:default", progress=end_sessions)
    assert (done.num_requests, num_ended >= 3) == (2500, True)
    assert sql("select num_requests from rowlease.operations") == [(2500,)]


def test_a_number_of_requests_is_said_once(requests: Run, sql: Sql) -> None:
    sql(MANY, [35_000])
    printed = requests("cancel", "kind:nothing")
    assert printed.stdout.startswith("0 requests were cancelled")
    assert printed.stderr.count("so far") == 1


def test_a_person_changes_requests(client: Client, requests: Run) -> None:
    failed, _, waits = some(client)
    tried = requests("requeue", "status:failed error:timeout", "--dry-run")
    assert tried.returncode == 0
    assert tried.stdout.splitlines()[1].split()[:4] == [str(failed), "default", "resize", "Failed"]
    assert tried.stdout.splitlines()[-1] == "1 request would be requeued; it is listed above"
    assert client.get(failed).status() == "Failed"
    done = requests("requeue", str(failed), "--actor", "ann")
    assert re.fullmatch(r"1 request was requeued \(operation \d+\)\n", done.stdout)
    done = json.loads(requests("reprioritise", "kind:resize", "--priority", "7", "--json").stdout)
    assert (done["num_requests"], done["outcomes"], done["more"]) == (2, {"ok": 2}, False)
    done = requests("reschedule", str(waits), "--delay", "1h")
    assert done.stdout.startswith("1 request was given the new due time (")
    done = requests("reschedule", str(waits), "--at", "2090-01-01T00:00")
    assert client.get(waits).read().due_time.year == 2090  # type: ignore[union-attr]
    client.store.dequeue("host1:1:ab", ["default"], 1)
    done = requests("break", "worker:host1")
    assert done.stdout.startswith("1 request was taken from the worker, to wait again (")
    client.store.dequeue("host1:1:ab", ["default"], 1)
    done = requests("cancel", "queue:default")
    assert "1 running: asked to stop" in done.stdout
    done = requests("purge", "queue:default status:cancelled")
    assert done.stdout.startswith("1 request was deleted for good (")


def test_a_copy_of_a_finished_request_is_named(client: Client, requests: Run) -> None:
    _, finished, _ = some(client)
    printed = requests("requeue", str(finished)).stdout.splitlines()
    (copy,) = client.find(limit=1).requests
    assert copy.requeued_from == finished
    assert printed[1:] == [f"request {finished} is enqueued again as {copy.request_id}"]
    again = json.loads(requests("requeue", str(finished), "--json").stdout)
    (copy,) = client.find(limit=1).requests
    assert again["first"][0]["new_request_id"] == copy.request_id


def test_of_many_copies_the_first_are_named(client: Client, requests: Run) -> None:
    client.enqueue_many(resize.request(f"{number}.png") for number in range(21))
    done = client.store.dequeue("host:1:ab", ["default"], 21).requests
    client.store.complete(done, ['""'] * 21)
    printed = requests("requeue", "status:complete", "kind:resize").stdout.splitlines()
    assert len(printed) == 22
    assert printed[-1] == "the table requeued has the others"


def test_a_dry_run_of_an_interrupted_operation_changes_nothing(
    client: Client, requests: Run
) -> None:
    made = client.enqueue_many(resize.request("x") for _ in range(3))
    step = client.store.operate("cancel", queue="default", limit=1)
    assert requests("cancel", "--resume", str(step.operation_id), "--dry-run").returncode == 2
    assert Counter(handle.status() for handle in made) == {"Pending": 2, "Cancelled": 1}


def test_a_user_without_a_name_changes_requests(
    client: Client, requests: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown() -> str:
        raise KeyError("getpwuid(): uid not found: 1000650000")  # as in OpenShift

    monkeypatch.setattr("getpass.getuser", unknown)
    client.enqueue(resize, "x")
    assert requests("cancel", "queue:default").stdout.startswith("1 request was cancelled")
    assert client.store.list_operations()[0].actor is None


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("cancel",), "give a filter or ids, or --resume"),
        (("cancel", "queue:a", "--resume", "1"), "give a filter or ids, or --resume"),
        (("cancel", "--resume", "1", "--dry-run"), "leave the other options out"),
        (("cancel", "--resume", "1", "--actor", "ann"), "leave the other options out"),
        (("reprioritise", "--resume", "1", "--priority", "0"), "leave the other options out"),
        (("cancel", "status:failed"), "the filter selects every request"),
        (("cancel", "--resume", "999999"), "no unfinished operation 999999 with the verb cancel"),
        (("reprioritise", "queue:a"), "give --priority, the new priority"),
        (("reschedule", "queue:a", "--at", "soon"), "'soon' is not a time"),
        (("next", "imagse"), 'queue "imagse" does not exist; create it with'),
        (("explain", "4711"), "there is no request 4711; it may have been purged"),
    ],
)
def test_a_wrong_command_is_refused(command: tuple[str, ...], message: str, requests: Run) -> None:
    done = requests(*command)
    assert done.returncode != 0
    assert message in done.stderr


@pytest.mark.parametrize(
    "payload", ['{"n": 1%s}' % ("0" * 4400), '{"n": %s}' % ("[" * 5000 + "]" * 5000)]
)
def test_json_that_python_cannot_read_is_printed_as_text(
    payload: str, client: Client, requests: Run, sql: Sql
) -> None:
    sql("insert into rowlease.inbox (kind, payload) values ('x', %s)", [payload])
    ((request_id,),) = sql("select request_id from rowlease.requests")
    for command in (("list", "queue:default"), ("show", str(request_id))):
        done = requests(*command, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        data = json.loads(done.stdout)
        (one,) = data["requests"] if command[0] == "list" else [data]
        assert one["payload"] == payload
