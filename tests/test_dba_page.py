"""The walk of docs/dba.md: psql runs each command with the role that the page names."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from rowlease.embedded.binaries import psql
from rowlease.model import Failure, NewRequest
from rowlease.store import engine_of
from rowlease.store.differences import read_catalogue
from rowlease.store.routines import load_routines
from rowlease.store.sqlserver.store import SqlServerStore
from tests.contract import sqlserver
from tests.test_docs import code_blocks
from tests.tsql import scriptdom

Sql = Callable[..., list[tuple[Any, ...]]]
ROLES = ("rowlease_reader", "rowlease_operator")
#: The rules of tests/tsql/lint.py that a page keeps; the others are about procedures.
PARSES = {"grammar", "calls_fit", "names_have_schemas"}

#: What happened before the walk begins at 9:00, by the time of the database.
BEFORE = (
    (
        "07:00",
        "select setval('rowlease.queue_request_id_seq', 4710)",
        "select rowlease.configure_queue('mail', '{\"lease_seconds\": 900}')",
        "select rowlease.enqueue('mail', kind)"
        " from unnest(array['invoice', 'invoice', 'letter']) kind",
        "select rowlease.worker_heartbeat('host1:71', 'host1', 71, '0.1.0', array['mail'], 4, 0)",
        "select rowlease.dequeue('host1:71', array['mail'], 3)",
        "select rowlease.fail(array[request_id], array[lock_token], array[case kind when 'letter'"
        " then 'no such address' else 'Timeout: no answer from smtp' end], p_dead => array[true],"
        " p_error_types => array[case kind when 'letter' then 'ValueError' else 'Timeout' end])"
        " from rowlease.queue where locked_by is not null order by request_id",
    ),
    (
        "08:50",
        "select rowlease.enqueue('mail', kind)"
        " from unnest(array['invoice', 'invoice', 'newsletter', 'invoice']) kind",
        "select rowlease.enqueue('mail', 'invoice', p_priority => 9)",
        # By hand: the counts do not follow.
        "delete from rowlease.queue where request_id = 4717",
    ),
    (
        "08:58",
        "select rowlease.dequeue('host1:71', array['mail'], 1)",
        "select rowlease.worker_heartbeat('host1:71', 'host1', 71, '0.1.0', array['mail'], 4, 1)",
    ),
)


def steps(page: Path) -> Iterator[tuple[str, str, str | None]]:
    """The role of the section, the commands and, if the page has it, the answer of each block."""
    for section in page.read_text().split("\n## ")[1:]:
        role = re.match(r".+\n\nWith the role `(\w+)`", section)
        for block, answer in re.findall(
            r"^```sql\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", section, re.M | re.S
        ):
            assert role is not None, section
            yield role[1], block, answer or None


@pytest.fixture
def users(sql: Sql) -> Iterator[dict[str, str]]:
    """A login for each role of the page, which has nothing but this role."""
    names = {role: f"dba_{secrets.token_hex(6)}" for role in ROLES}
    for role, name in names.items():
        sql(f"create role {name} login password 'p' in role {role}")
    yield names
    for name in names.values():
        sql(f"drop role {name}")


def test_every_command_of_the_walk_runs_in_psql_and_does_what_the_page_says(
    repository: Path, dsn: str, sql: Sql, users: dict[str, str]
) -> None:
    database = sa.make_url(dsn).database
    for time, *commands in BEFORE:
        sql(f"set rowlease.frozen_now = '2026-11-23 {time}Z'")
        for command in commands:
            sql(command)
    sql(f"alter database {database} set rowlease.frozen_now = '2026-11-23 09:00Z'")
    walk = list(steps(repository / "docs" / "dba.md"))
    assert len(walk) == len(code_blocks(repository / "docs" / "dba.md", "sql")) > 15
    assert {role for role, *_ in walk} == set(ROLES)
    for role, block, answer in walk:
        printed = in_psql(dsn, users[role], block)
        if answer is not None:
            assert unpadded(printed) == unpadded(answer), block
    assert sql("select request_id, status, priority from rowlease.queue order by 1") == [
        (4711, "Pending", 0),
        (4712, "Pending", 0),
        (4714, "Pending", 9),
        (4715, "Pending", 0),
        (4718, "Pending", 9),
    ]
    assert sql("select request_id, status from rowlease.queue_history") == [(4716, "Cancelled")]
    audit = "select distinct login from rowlease.operation where actor = 'ann'"
    assert sql(audit) == [(users["rowlease_operator"],)]


def in_psql(dsn: str, user: str, commands: str) -> str:
    """What psql prints; it ends at the first error."""
    url = sa.make_url(dsn).set(username=user, password="p")
    place, variables = engine_of(url.render_as_string(hide_password=False)).psql_connection()
    done = subprocess.run(
        [psql(), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--dbname", place],
        input=commands,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, ""), (commands, done.stderr)
    return done.stdout


def unpadded(answer: str) -> list[str]:
    """The lines of an answer, without blanks at their ends and without empty lines."""
    return [line.rstrip() for line in answer.splitlines() if line.strip()]


@pytest.mark.skipif(scriptdom.missing() is not None, reason=scriptdom.missing() or "it is there")
def test_the_walk_on_sql_server_names_what_is_there(repository: Path, tmp_path: Path) -> None:
    (block,) = code_blocks(repository / "docs" / "dba.md", "tsql")
    (tmp_path / "dba.sql").write_text(block)
    command = [sys.executable, "-m", "tests.tsql.lint", str(tmp_path / "dba.sql")]
    found = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    findings = [json.loads(line) for line in found.stdout.splitlines()]
    assert (found.stderr, [each for each in findings if each["rule"] in PARSES]) == ("", [])
    routines = load_routines("sqlserver")
    calls = re.findall(r"^exec rowlease\.(\w+)(.*);$", block, re.M)
    views = re.findall(r"^select (?:top \(3\) )?(.+) from rowlease\.(\w+)", block, re.M)
    assert len(calls) + len(views) == len(block.splitlines())
    for name, arguments in calls:
        assert f"grant execute on rowlease.{name} to rowlease_operator" in read_catalogue(
            "sqlserver"
        )
        head = routines[name].body.partition("\nas\n")[0]
        for parameter in re.findall(r"@p_\w+", arguments):
            assert re.search(rf"^(?!--).*{parameter}\b", head, re.M), (name, parameter)
    for columns, name in views:
        view = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
        text = (repository / "sql" / "sqlserver" / "views" / f"{view}.sql").read_text()
        for column in columns.split(", "):
            assert re.search(rf"\b{column}\b", text.partition("create or alter view")[2]), column


@pytest.mark.skipif(sqlserver.missing() is not None, reason=sqlserver.missing() or "it is there")
def test_every_command_of_the_walk_on_sql_server_runs(repository: Path) -> None:
    """By the driver, on a server that speaks T-SQL; each answer has what was prepared."""
    (block,) = code_blocks(repository / "docs" / "dba.md", "tsql")
    with sqlserver.server() as place, sqlserver.database(place) as dsn:
        with closing(SqlServerStore(dsn, "the walk")) as store:
            store.configure_queue("mail", lease_seconds=900)
            letters = [NewRequest(kind=kind) for kind in ("invoice", "letter", "invoice")]
            store.enqueue_many("mail", letters)
            held = store.dequeue("host1:71", ["mail"], 2).requests
            store.fail(held[1:], [Failure("no such address", dead=True)])
        answers: dict[str, list[list[Any]]] = {}
        with closing(sqlserver.connect(dsn)) as connection:
            for command in block.replace("4714", str(held[0].request_id)).splitlines():
                cursor = connection.execute(command)
                rows = [list(row) for row in (cursor.fetchall() if cursor.description else [])]
                answers[re.findall(r" rowlease\.(\w+)", command)[0]] = rows
    running, dead = (one.request_id for one in held)
    assert len(answers) == len(block.splitlines()) - 2  # `operate` is called three times
    assert [row[0] for row in answers["list_queues"]] == ["default", "mail"]
    assert answers["DepthByPriority"] == [[0, 0, 1, 1, 1]]
    assert [row[1] for row in answers["Ready"]] == ["invoice"]
    assert answers["DeadLetters"] == [["letter", "no such address", 1, dead]]
    assert [row[:3] for row in answers["Leased"]] == [[running, "invoice", "host1:71"]]
    assert [row[0] for row in answers["explain"]] == ["running"]
    assert [row[:2] for row in answers["diagnose"]] == [["no_worker", "mail"]]
    assert answers["operate"][0][:2] == [running, "ok"]
    assert json.loads(answers["configure_queue"][0][0])["max_in_flight"] == 20
    assert answers["recount"] == []
    assert [(row[0], row[3]) for row in answers["Operations"]] == [
        ("configure_queue", 0),
        ("break", 1),
        ("reprioritise", 1),
        ("pause", 0),
        ("resume", 0),
        ("configure_queue", 0),
    ]
