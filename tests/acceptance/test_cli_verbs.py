"""The command line has a verb for everything that Python and SQL can do."""

from __future__ import annotations

import getpass
import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from rowlease import AsyncClient, Client, Handle, Worker, task
from rowlease.cli import cli
from rowlease.client.operations import Requests
from rowlease.client.queues import Queues
from rowlease.model import Begun, StreamBatch
from rowlease.store import Store
from rowlease.store.postgresql.store import PostgresStore
from rowlease.store.routines import PUBLIC, load_routines
from rowlease.tasks.requests import REQUEST_OPTIONS
from tests.audited import CHANGES, VERBS

Sql = Callable[..., list[tuple[Any, ...]]]
Run = Callable[[str], Any]

#: In this order, each of these ends well. A name in braces is a value of the test.
COMMANDS = """
migrate --json
queue create images max_attempts=1 --json
queue create old
queue set images capacity=10 --json
queue list --json
queue show images --json
queue pause images --json
queue drain images --json
queue resume images --json
enqueue double --payload {payload} --queue images --wait 1s --retry-base 1s --json
enqueue double --at 2099-01-01T00:00 --json
enqueue double --lines lines.jsonl --delay 1d --json
batch list --json
requests list --json
requests show 1 --json
requests explain 1 --json
requests next images --json
requests running --json
requests reprioritise 1 --priority 3 --json
requests reschedule 1 --json
requests break 1 --json
worker
requests result 1 --json
requests errors --json
requests requeue 1 --json
requests cancel 2 --json
requests purge status:failed,pending queue:images --json
queue recount --json
queue delete old --json
queue apply {tasks} --json
schedule add nightly "0 3 * * *" double --json
schedule list --json
schedule pause nightly --json
schedule resume nightly --json
schedule fire nightly --json
schedule remove nightly --json
loads list --json
loads discard flights --json
loads streams --json
loads forget-stream clicks --json
workers --json
operations --json
depth --json
top --json
doctor --json
exporter --once
config show --json
"""
#: What else calls routines, or calls others in their place.
ELSEWHERE = {
    "by workers": {
        "abandon", "announce_idle", "claim_schedules", "complete", "complete_and_enqueue",
        "decline", "dequeue", "disown", "exchange", "expire", "fail", "listen", "renew",
        "report_progress", "snooze",
    },
    "by programs": {"enqueue", "listen_finished"},
    "by `rowlease top` on a terminal, and the dashboard": {"measure_waits"},
    "by the dashboard": {"enqueue_by_operator", "list_days", "list_kinds"},
    "by Spark": {"begin_load", "end_run", "promote", "report_load"},
    "`rowlease requests` calls `operate` instead": {"cancel", "purge", "requeue"},
    "by autoscalers": {"demand"},
    "by routines and tests": {"now"},
}  # fmt: skip


@task
def double(number: int) -> int:
    return 2 * number


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The routines that were called."""
    found: set[str] = set()
    call = PostgresStore._call

    def record(self: PostgresStore, name: str, *rest: Any, **arguments: Any) -> list[Any]:
        found.add(name)
        return call(self, name, *rest, **arguments)

    monkeypatch.setattr(PostgresStore, "_call", record)
    return found


@pytest.fixture
def run(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in this process; the JSON that it prints."""
    (tmp_path / "verb_tasks.py").write_text(
        "from rowlease import Queue, task\nimages = Queue('images')\n"
        "@task(queue=images)\ndef resize() -> None: ...\n"
    )
    (tmp_path / "lines.jsonl").write_text('{"number": 1}\n{"number": 2}\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def call(command: str) -> Any:
        values = {"payload": "'{\"number\": 21}'", "tasks": "verb_tasks"}
        arguments = shlex.split(command.format(**values))
        ran = CliRunner().invoke(cli, arguments, env={"ROWLEASE_DSN": dsn})
        # The doctor finds that the clock of test databases can be stopped.
        assert ran.exit_code == (command == "doctor --json"), (command, ran.output, ran.exception)
        return json.loads(ran.stdout) if "--json" in command else ran.stdout

    return call


def loads_of_spark(store: Store) -> None:
    """A load that is not promoted, and a batch of a stream that is."""
    store.begin_load("flights", "default", "test")
    batch = StreamBatch("clicks", "q", 0)
    begun = store.begin_load(batch.load_id, "default", "test", batch=batch)
    assert isinstance(begun, Begun)
    store.promote(batch.load_id, begun.run_number, 0)
    store.maintain()


def test_every_routine_has_a_command_or_another_caller(
    called: set[str], run: Run, store: Store, sql: Sql
) -> None:
    loads_of_spark(store)
    called.clear()
    answers = {}
    for command in COMMANDS.strip().splitlines():
        if command == "worker":  # signals and stderr belong to a process of its own
            Worker(store, [double], queues=["images"], executor="thread", burst=True).run()
        else:
            answers[command] = run(command)
    assert answers["requests result 1 --json"] == {"request_id": 1, "result": 42}
    assert answers["loads discard flights --json"]["num_discarded"] == 0
    assert answers["loads streams --json"][0]["batch_number"] == 0
    assert answers["loads forget-stream clicks --json"]["num_loads"] == 1
    assert sql("select count(*) from rowlease.operations where verb = 'purge'") == [(1,)]
    routines = {name for name, each in load_routines("postgresql").items() if each.schema == PUBLIC}
    elsewhere = set().union(*ELSEWHERE.values())
    assert routines - called - elsewhere == set()


def test_every_change_by_a_command_is_in_the_audit_with_its_operator(
    run: Run, store: Store, sql: Sql
) -> None:
    loads_of_spark(store)
    for command in COMMANDS.strip().splitlines():
        if command not in ("worker", "requests result 1 --json"):  # which waits for a worker
            run(command)
    noted = sql("select verb, actor from rowlease.operations")
    assert {verb for verb, _ in noted} == {*CHANGES, *VERBS} - {"operate", "enqueue_by_operator"}
    assert {actor for _, actor in noted} == {getpass.getuser()}
    run("schedule add nightly '0 3 * * *' double --actor ann")
    assert sql("select actor from rowlease.operations order by operation_id desc limit 1") == [
        ("ann",)
    ]


def test_every_dry_run_prints_json_and_changes_nothing(run: Run, store: Store, sql: Sql) -> None:
    able = [
        str(one.id).removeprefix("rowlease ")
        for one in each_command()
        if any("--dry-run" in option.opts for option in one.values[0].params)
    ]
    loads_of_spark(store)
    tried = set()
    for command in COMMANDS.strip().splitlines():
        for name in able:
            if command.startswith(f"{name} "):
                before = sql("select count(*) from rowlease.operations")
                assert run(f"{command} --dry-run")["dry_run"] is True, command
                assert sql("select count(*) from rowlease.operations") == before, command
                tried.add(name)
        if command not in ("worker", "requests result 1 --json"):  # which waits for a worker
            run(command)
    assert tried == set(able)


def test_every_method_of_a_client_has_a_command() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    queue, requests = commands("queue"), commands("requests")
    assert public(Queues) - set(queue) == {"create_missing"}, "worker --create-queues"
    assert public(Requests) - set(requests) == {"break_leases", "resume"}, "break, --resume"
    as_commands = {"status": "show", "read": "show"}
    handle = public(Handle) - {"request_id", "outcome", "result_in"}
    assert {as_commands.get(name, name) for name in handle} <= set(requests)
    assert public(Client) == {
        *("enqueue", "enqueue_many", "enqueue_untyped"),  # rowlease enqueue, --lines
        "enqueue_batch",  # --batch-id, --after
        *("find", "get", "requests"),  # rowlease requests
        *("queues", "batch"),
        *(
            "bind",
            "store",
            "open",
            "over",
            "close",
        ),  # of the program: a connection, all routines, a life
    }
    assert public(AsyncClient) <= public(Client) | {"run_sync"}


def test_every_option_of_a_request_is_an_option_of_enqueue() -> None:
    options = {param.name for param in cli.commands["enqueue"].params}
    assert {name for name in REQUEST_OPTIONS if name not in options} == set()


def commands(group: str) -> dict[str, click.Command]:
    found = cli.commands[group]
    assert isinstance(found, click.Group)
    return dict(found.commands)


def each_command(command: click.Command = cli, path: str = "rowlease") -> Iterator[Any]:
    """Every command that is not a group, with its path."""
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from each_command(each, f"{path} {name}")
    else:
        yield pytest.param(command, id=path)


GROUPS = [name for name, each in cli.commands.items() if isinstance(each, click.Group)]
#: Commands whose output is not data, and why.
NOT_JSON = {
    "dashboard": "serves until it is stopped",
    "exporter": "writes what Prometheus reads",
    "psql": "prints what psql prints",
    "up": "serves until it is stopped",
    "url": "prints one word",
}


@pytest.mark.parametrize("command", list(each_command()))
def test_every_command_that_prints_data_prints_json(command: click.Command) -> None:
    has_json = any("--json" in param.opts for param in command.params)
    assert has_json is (command.name not in NOT_JSON)


def test_a_noun_alone_lists(run: Run, store: Store) -> None:
    store.begin_load("flights", "default", "test")
    run("enqueue double --delay 1d")
    nouns = [name for name in GROUPS if "list" in getattr(cli.commands[name], "commands", {})]
    assert nouns == ["queue", "requests", "batch", "loads", "schedule"]
    for noun in nouns:
        assert run(noun) == run(f"{noun} list")
        assert run(f"{noun} --json") == run(f"{noun} list --json")
        complete = ShellComplete(cli, {}, "rowlease", "_ROWLEASE_COMPLETE")
        assert "list" in [one.value for one in complete.get_completions([noun], "")]


@pytest.mark.parametrize("command", list(each_command()))
def test_every_option_has_a_help_text(command: click.Command) -> None:
    """So it is in the reference, which is made from them."""
    options = [each for each in command.params if isinstance(each, click.Option)]
    assert [each.name for each in options if not each.help and not each.hidden] == []


@pytest.mark.parametrize("command", [*each_command(), cli, *map(cli.commands.get, GROUPS)])
def test_help_fits_into_80_columns(command: click.Command) -> None:
    """And no summary of a command is cut off, in the reference neither, which has 78 columns."""
    width = 78
    ran = CliRunner().invoke(command, ["--help"], terminal_width=width)
    usage, *lines = ran.output.splitlines()
    assert [line for line in (usage, *lines) if len(line) > 80] == []
    assert [line for line in lines if line.endswith("...")] == []
