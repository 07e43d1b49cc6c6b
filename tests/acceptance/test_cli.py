"""The command line as people use it: its exit code, and one sentence when it refuses.

A refusal changes nothing, shows no traceback and never a password.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import psycopg
import pytest
import sqlalchemy as sa

from rowlease.cli.doctor import doctor
from rowlease.errors import RowleaseError
from rowlease.model import MAX_PAYLOAD_BYTES
from rowlease.store.postgresql.migrate import MIGRATION_LOCK
from tests.commands import PATIENCE, Done, Run, environment_of, in_process, in_test
from tests.conftest import in_database, scratch_database
from tests.releases import next_release

SECRET = "hunter2"

COMMANDS = ("migrate", "enqueue", "worker", "depth", "top", "demo")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return in_test(tmp_path)


@pytest.fixture
def run_process(tmp_path: Path) -> Run:
    return in_process(tmp_path)


def refused(done: Done, code: int, says: str) -> None:
    """One sentence on stderr that matches, nothing on stdout, and the documented exit code."""
    assert SECRET not in done.stdout + done.stderr
    assert re.search(says, done.stderr), done.stderr
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert done.returncode == code


@pytest.fixture(scope="module")
def database(server_dsn: str, template: str) -> Iterator[str]:
    """One migrated database for every test of this file."""
    with scratch_database(server_dsn, template) as name:
        yield in_database(server_dsn, name)


@pytest.fixture(scope="module")
def look(database: str) -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
    with psycopg.connect(database, autocommit=True) as connection:

        def rows(query: str) -> list[tuple[Any, ...]]:
            return connection.execute(query).fetchall()

        yield rows


Look = Callable[[str], list[tuple[Any, ...]]]
EVERYTHING = """
select (select count(*) from rowlease.requests), (select count(*) from rowlease.enqueue_receipt),
       (select json_agg(s order by queue_name)::text from rowlease.queue_settings s),
       (select sum(pending) from rowlease.queue_depth), (select count(*) from rowlease.worker)
"""


@pytest.fixture
def unchanged(look: Look) -> Iterator[None]:
    """The test leaves every table as it was."""
    before = look(EVERYTHING)
    yield
    assert look(EVERYTHING) == before


@pytest.fixture(scope="module")
def closed_port() -> Iterator[int]:
    """A reserved port without a listener."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


@pytest.fixture(scope="module")
def doorman() -> Iterator[int]:
    """The port of a server that asks for a password and likes none."""

    def message(kind: bytes, body: bytes) -> bytes:
        return kind + (len(body) + 4).to_bytes(4, "big") + body

    def serve() -> None:
        while True:
            try:
                guest, _ = door.accept()
            except OSError:
                return
            with guest:
                asked = guest.recv(4096)
                while len(asked) == 8:  # for TLS or GSS: no
                    guest.sendall(b"N")
                    asked = guest.recv(4096)
                guest.sendall(message(b"R", (3).to_bytes(4, "big")))
                guest.recv(4096)
                no = b"SFATAL\0VFATAL\0C28P01\0Mpassword authentication failed for user\0\0"
                guest.sendall(message(b"E", no))

    with closing(socket.create_server(("127.0.0.1", 0))) as door:
        thread = threading.Thread(target=serve)
        thread.start()
        yield door.getsockname()[1]
        door.shutdown(socket.SHUT_RDWR)
    thread.join()


# -- help --------------------------------------------------------------------------------------


def test_help_names_every_command_and_every_exit_code(run: Run) -> None:
    done = run("--help")
    assert done.returncode == 0
    assert done.stderr == ""
    for command in COMMANDS:
        assert re.search(rf"^  {command} ", done.stdout, re.MULTILINE), command
    listed = set(map(int, re.findall(r"^ +(\d+) +\w", done.stdout, re.MULTILINE)))
    assert listed == {0, 1, 130} | {error.exit_code for error in every_error(RowleaseError)}


def test_a_command_of_its_own_has_the_short_option(run: Run) -> None:
    """click keeps a command's help option from the first context, which a test may have made."""
    with suppress(click.exceptions.Exit):
        doctor.make_context("doctor", ["--help"])
    assert run("doctor", "-h").returncode == 0


def every_error(kind: type[RowleaseError]) -> Iterator[type[RowleaseError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from every_error(below)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, run: Run) -> None:
    done = run(command, "-h")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: rowlease {command} ")
    assert "--dsn URL" in done.stdout
    assert "--json" in done.stdout


def test_without_a_command_the_help_is_shown_and_it_is_a_mistake(run: Run) -> None:
    done = run()
    assert done.returncode == 2
    assert "Commands:" in done.stderr


@pytest.mark.parametrize("arguments", [[], ["enqueue"], ["worker"], ["top"]])
def test_help_loads_no_driver(arguments: list[str], tmp_path: Path) -> None:
    """What makes `--help` instant; the time itself is the machine's affair."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "rowlease", *arguments, "--help"],
        capture_output=True,
        text=True,
        env=environment_of(tmp_path, {}),
        check=True,
    )
    assert "rowlease.cli" in loaded(done)
    heavy = {"psycopg", "sqlalchemy", "alembic", "pyspark", "rich", "asyncio", "multiprocessing"}
    assert not heavy & loaded(done)


@pytest.mark.parametrize("arguments", [["enqueue", "x"], ["worker", "jobs", "--burst"]])
@pytest.mark.usefixtures("emptied")
def test_a_client_loads_nothing_that_only_migrate_needs(
    arguments: list[str], database: str, tmp_path: Path
) -> None:
    """They take as long to load as all the rest."""
    write_tasks(tmp_path)
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "rowlease", *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment_of(tmp_path, {"ROWLEASE_DSN": database}),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "psycopg" in loaded(done)
    assert not {"sqlalchemy", "alembic"} & loaded(done)


def loaded(done: Done) -> set[str]:
    """The modules that a process run with `-X importtime` has imported."""
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


# -- databases that are not there, or not right -------------------------------------------------

NO_DSN = r"write it as postgresql://user:password@host:port/database"
BAD_DSNS = {
    "closed port": ("postgresql://u:hunter2@127.0.0.1:{closed}/x", 3, r"cannot reach .*refused"),
    "wrong password": (
        "postgresql://u:hunter2@127.0.0.1:{doorman}/x",
        3,
        r"password authentication failed",
    ),
    "impossible host": ("postgresql://u:hunter2@a..b/x", 2, NO_DSN),
    "not a DSN": ("hunter2", 2, NO_DSN),
    "key and value": ("host=h user=u password=hunter2", 2, NO_DSN),
    "unknown scheme": ("mysql://u:hunter2@h/x", 2, r"names no engine that rowlease knows"),
    "port is no number": ("postgresql://u:hunter2@h:port/x", 2, NO_DSN),
    "unfinished address": ("postgresql://u:hunter2@[::1/x", 2, NO_DSN),
    "raw @ in the password": ("postgresql://u:x@hunter2@h/x", 2, r"%40"),
    "raw / in the password": ("postgresql://u:x/hunter2@h/x", 2, r"%2F"),
    "bad percent code": ("postgresql://u:hunter2%zz@h/x", 2, r"%25"),
    "unknown option": ("postgresql://u:hunter2@h/x?nonsense=hunter2", 2, "has the option nonsense"),
}


#: Commands on a store find it in one way, `migrate` in another.
DIALS = [
    *(("depth", case) for case in BAD_DSNS),
    *(("migrate", case) for case in ("wrong password", "unknown scheme", "raw @ in the password")),
]


@pytest.mark.parametrize(("command", "case"), DIALS)
def test_an_unreachable_dsn_is_an_error_of_one_sentence(
    command: str, case: str, run: Run, closed_port: int, doorman: int
) -> None:
    dsn, code, says = BAD_DSNS[case]
    refused(run(command, ROWLEASE_DSN=dsn.format(closed=closed_port, doorman=doorman)), code, says)


@pytest.mark.parametrize("command", [["enqueue", "x"], ["worker", "jobs"], ["demo"]])
def test_every_command_says_that_the_database_is_not_there(
    command: list[str], run: Run, closed_port: int, tmp_path: Path
) -> None:
    write_tasks(tmp_path)
    dsn = f"postgresql://u:{SECRET}@127.0.0.1:{closed_port}/x"
    refused(run(*command, "--dsn", dsn), 3, r"cannot reach the database at postgresql://u:\*\*\*@")


def test_a_database_and_a_user_that_do_not_exist_are_named(run: Run, server_dsn: str) -> None:
    url = sa.make_url(server_dsn)
    refused(run("depth", ROWLEASE_DSN=in_database(server_dsn, "nowhere")), 3, r'"nowhere"')
    nobody = url.set(username="nobody_at_all", password="x").render_as_string(hide_password=False)
    refused(run("depth", ROWLEASE_DSN=nobody), 3, r'"nobody_at_all"')


@pytest.mark.parametrize("command", [["enqueue", "x"], ["worker", "jobs"], ["demo"]])
def test_an_unmigrated_database_is_left_as_it_is(
    command: list[str], run: Run, server_dsn: str, tmp_path: Path
) -> None:
    write_tasks(tmp_path)
    with scratch_database(server_dsn) as name:
        dsn = in_database(server_dsn, name)
        refused(run(*command, ROWLEASE_DSN=dsn), 3, r"no rowlease schema; run `rowlease migrate`")
        with psycopg.connect(dsn) as connection:
            assert connection.execute("select to_regnamespace('rowlease')").fetchone() == (None,)


@pytest.mark.parametrize("command", [["depth"], ["worker", "jobs"], ["migrate"]])
def test_a_newer_schema_is_left_as_it_is(
    command: list[str], run: Run, server_dsn: str, template: str, tmp_path: Path
) -> None:
    write_tasks(tmp_path)
    with scratch_database(server_dsn, template) as name:
        dsn = in_database(server_dsn, name)
        with psycopg.connect(dsn) as connection:
            connection.execute("update rowlease.alembic_version set version_num = '9999'")
            connection.execute("update rowlease.schema_info set oldest_client = '9998'")
        refused(run(*command, ROWLEASE_DSN=dsn), 3, r"schema 9999, .* 9998 or newer; .*: install a")
        with psycopg.connect(dsn) as connection:
            found = connection.execute("select version_num from rowlease.alembic_version")
            assert found.fetchall() == [("9999",)]


def test_an_older_schema_is_recognised_and_migrates(
    run: Run, run_process: Run, server_dsn: str, template: str, repository: Path, tmp_path: Path
) -> None:
    path = str(next_release(repository, tmp_path / "newer") / "src")
    with scratch_database(server_dsn, template) as name:
        dsn = in_database(server_dsn, name)
        old = run_process("depth", ROWLEASE_DSN=dsn, PYTHONPATH=path)
        refused(old, 3, r"is at schema 0001; run `rowlease migrate`")
        script = run_process("migrate", "--sql", ROWLEASE_DSN=dsn, PYTHONPATH=path).stdout
        assert "alter table rowlease.queue add column added text;" in script
        assert "create table rowlease.queue (" not in script
        done = run_process("migrate", ROWLEASE_DSN=dsn, PYTHONPATH=path)
        assert "from 0001 to schema 0002" in done.stdout
        assert run_process("depth", ROWLEASE_DSN=dsn, PYTHONPATH=path).returncode == 0
        assert run("depth", ROWLEASE_DSN=dsn).returncode == 0, "the last release goes on"


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe"])
def test_a_dsn_file_that_is_no_use_is_named(
    content: bytes | None, run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "dsn"
    if content is not None:
        file.write_bytes(content)
    refused(run("depth", ROWLEASE_DSN_FILE=str(file)), 2, rf"ROWLEASE_DSN_FILE is {file}")


def test_a_dsn_file_keeps_the_password_out_of_the_arguments(
    run: Run, database: str, tmp_path: Path
) -> None:
    (tmp_path / "dsn").write_text(database + "\n")
    assert run("depth", ROWLEASE_DSN_FILE=str(tmp_path / "dsn")).returncode == 0


def test_an_empty_dsn_is_not_taken_for_the_embedded_server(run: Run, tmp_path: Path) -> None:
    """As in `--dsn "$UNSET"`."""
    refused(run("depth", "--dsn", ""), 2, r"the DSN is empty")
    assert list(tmp_path.iterdir()) == []


# -- users without rights ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def stranger(server_dsn: str, database: str) -> Iterator[str]:
    """The DSN of a user who may only log in."""
    name = f"stranger_{secrets.token_hex(4)}"
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(f"create role {name} login password '{SECRET}'")
        try:
            url = sa.make_url(database).set(username=name, password=SECRET)
            yield url.render_as_string(hide_password=False)
        finally:
            connection.execute(f"drop role {name}")


@pytest.mark.parametrize("command", [["depth"], ["worker", "jobs"]])
@pytest.mark.usefixtures("unchanged")
def test_a_user_without_rights_gets_an_error_that_lists_the_roles(
    command: list[str], run: Run, stranger: str, tmp_path: Path
) -> None:
    write_tasks(tmp_path)
    done = run(*command, ROWLEASE_DSN=stranger)
    refused(done, 3, r"permission denied .*grant its user .*rowlease_producer")
    for role in ("worker", "operator", "reader"):
        assert f"rowlease_{role}" in done.stderr


@pytest.mark.usefixtures("unchanged")
def test_a_reader_may_look_and_not_enqueue(
    run: Run, stranger: str, database: str, look: Look
) -> None:
    user = sa.make_url(stranger).username
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"grant rowlease_reader to {user}")
        try:
            assert run("depth", ROWLEASE_DSN=stranger).returncode == 0
            refused(run("enqueue", "x", ROWLEASE_DSN=stranger), 3, r"denied .*rowlease_producer")
        finally:
            connection.execute(f"revoke rowlease_reader from {user}")


@pytest.mark.usefixtures("unchanged")
def test_migrate_says_what_its_user_must_be_able_to_do(run: Run, stranger: str) -> None:
    refused(run("migrate", ROWLEASE_DSN=stranger), 3, r"permission denied .*schema and roles")


# -- enqueue -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bad:
    """A bad call of `rowlease enqueue`."""

    says: str
    arguments: Sequence[str | bytes] = ("x",)
    stdin: bytes = b""
    lines: bytes | None = None


HUGE = b'"' + b"a" * MAX_PAYLOAD_BYTES + b'"'
BAD_REQUESTS = {
    "unknown queue": Bad(r'queue "nowhere" does not exist', ["x", "--queue", "nowhere"]),
    "no queue": Bad(r'queue "" does not exist', ["x", "--queue", ""]),
    "no kind": Bad(r"Missing argument 'KIND'", []),
    "empty kind": Bad(r"kind must be a task name", [""]),
    "long kind": Bad(r"1 to 200 characters", ["x" * 201]),
    "two kinds": Bad(r"unexpected extra argument", ["x", "y"]),
    "kind that is no text": Bad(r"Unicode|character", [b"\xff"]),
    "queue that is no text": Bad(r"Unicode|character", ["x", "--queue", b"\xff"]),
    "payload is not JSON": Bad(r"payload is not JSON", ["x", "--payload", "{'a': 1}"]),
    "payload is a list": Bad(r"payload is \[1\]; it must be a mapping", ["x", "--payload", "[1]"]),
    "payload names an argument twice": Bad(
        r"the payload names 'a' twice; give each argument one value; nothing was enqueued",
        ["x", "--payload", '{"a": 1, "b": {}, "a": 2}'],
    ),
    "a line names an argument twice": Bad(
        r"line 2: the payload names 'b' twice", lines=b'{"a": 1}\n{"a": {"b": 1, "b": 2}}\n'
    ),
    "payload is empty": Bad(r"payload is not JSON", ["x", "--payload", ""]),
    "payload is NaN": Bad(r"payload is not JSON", ["x", "--payload", "NaN"]),
    "payload is not UTF-8": Bad(r"UTF-8", ["x", "--payload", b'"\xff"']),
    "payload is too deep": Bad(r"not JSON", ["x", "--payload", "-"], b"[" * 200_000),
    "half of a character": Bad(r"not JSON", ["x", "--payload", '"\\ud800"']),
    "stdin is not JSON": Bad(r"payload is not JSON", ["x", "--payload", "-"], b"nonsense"),
    "stdin is not UTF-8": Bad(r"UTF-8", ["x", "--payload", "-"], b'"\xff\xfe"'),
    "stdin is over 1 MiB": Bad(r"^Error: the payload is \d+ bytes", ["x", "--payload", "-"], HUGE),
    "negative priority": Bad(r"must be 0 or more", ["x", "--priority", "-1"]),
    "fractional priority": Bad(r"'1.5' is not a valid integer", ["x", "--priority", "1.5"]),
    "priority is a word": Bad(r"'high' is not a valid integer", ["x", "--priority", "high"]),
    "no attempts": Bad(r"--max-attempts", ["x", "--max-attempts", "0"]),
    "too many attempts": Bad(r"--max-attempts", ["x", "--max-attempts", "99999999999"]),
    "unknown unit": Bad(r"not a duration; write 250ms", ["x", "--delay", "3w"]),
    "no unit": Bad(r"'5' has no unit; write 5s, 5m, 5h or 5d", ["x", "--delay", "5"]),
    "negative delay": Bad(r"not a duration; write 250ms", ["x", "--delay", "-3s"]),
    "endless delay": Bad(r"not a duration; write 250ms", ["x", "--delay", "9" * 400 + "s"]),
    "delay past most calendars": Bad(r"out of range", ["x", "--delay", "9999999d"]),
    "delay past all calendars": Bad(r"out of range", ["x", "--delay", "999999999d"]),
    "long dedup key": Bad(r"too long", ["x", "--dedup-key", "k" * 500]),
    "unknown option": Bad(r"No such option", ["x", "--nonsense"]),
    "one bad line": Bad(r"line 3 is not JSON", lines=b'{"a": 1}\n\n{"a": \n{"a": 2}\n'),
    "one line over 1 MiB": Bad(r"line 2: the payload is \d+ bytes", lines=b"{}\n" + HUGE + b"\n"),
    "a line that is no UTF-8": Bad(r"line 2 is not .*UTF-8", lines=b'{}\n"\xff"\n'),
    "no file of lines": Bad(r"No such file", ["x", "--lines", "nowhere.jsonl"]),
    "lines and payload": Bad(
        r"cannot be combined with --payload", ["x", "--payload", "1"], lines=b"1\n"
    ),
    "lines and dedup key": Bad(
        r"cannot be combined .* --dedup-key", ["x", "--dedup-key", "k"], lines=b"1\n"
    ),
}


@pytest.mark.parametrize("case", BAD_REQUESTS)
@pytest.mark.usefixtures("unchanged")
def test_a_bad_request_is_refused_in_a_sentence(
    case: str, run: Run, database: str, tmp_path: Path
) -> None:
    bad = BAD_REQUESTS[case]
    arguments = list(bad.arguments)
    if bad.lines is not None:
        (tmp_path / "lines").write_bytes(bad.lines)
        arguments += ["--lines", "lines"]
    refused(run("enqueue", *arguments, stdin=bad.stdin, ROWLEASE_DSN=database), 2, bad.says)


@pytest.mark.usefixtures("emptied")
def test_a_full_queue_has_an_exit_code_of_its_own(run: Run, database: str, look: Look) -> None:
    look("select rowlease.configure_queue('small', '{\"capacity\": 1}')")
    one = ("enqueue", "x", "--queue", "small")
    assert run(*one, ROWLEASE_DSN=database).returncode == 0
    refused(run(*one, ROWLEASE_DSN=database), 4, r'queue "small" is full: 1 of 1 places')


@pytest.mark.usefixtures("emptied")
def test_of_lines_that_do_not_all_fit_none_is_enqueued(run: Run, database: str, look: Look) -> None:
    look("select rowlease.configure_queue('small', '{\"capacity\": 2}')")
    three = ("enqueue", "x", "--queue", "small", "--lines", "-")
    refused(run(*three, stdin=b"{}\n{}\n{}\n", ROWLEASE_DSN=database), 4, r"3 more cannot fit")
    assert look("select count(*) from rowlease.queue") == [(0,)]


@pytest.fixture
def emptied(look: Look) -> Iterator[None]:
    """What the test has put in is gone afterwards."""
    yield
    look(
        "with a as (delete from rowlease.queue), b as (delete from rowlease.queue_depth),"
        " c as (delete from rowlease.queue_settings where queue_name <> 'default') select 1"
    )


@pytest.mark.parametrize("priority", ["10", "99999999999999999999"])
@pytest.mark.usefixtures("emptied")
def test_a_priority_above_the_maximum_is_clamped(
    priority: str, run: Run, database: str, look: Look
) -> None:
    done = run("enqueue", "x", "--priority", priority, ROWLEASE_DSN=database)
    assert done.returncode == 0
    assert look("select priority from rowlease.queue") == [(9,)]


@pytest.mark.usefixtures("emptied")
def test_one_request_says_its_number(run: Run, database: str, look: Look) -> None:
    done = run("enqueue", "shout", "--payload", '{"word": "hé"}', ROWLEASE_DSN=database)
    ((number, kind, payload),) = look("select request_id, kind, payload from rowlease.queue")
    assert done.stdout == f"request {number}: ok\n"
    assert done.stderr == ""
    assert (kind, payload) == ("shout", {"word": "hé"})


@pytest.mark.usefixtures("emptied")
def test_every_option_reaches_the_table(run: Run, database: str, look: Look) -> None:
    options = shlex.split("--priority 4 --delay 1h --dedup-key d --group-key g --max-attempts 2")
    assert run("enqueue", "x", *options, ROWLEASE_DSN=database).returncode == 0
    assert look(
        "select priority, dedup_key, group_key, max_attempts, status,"
        " due_time - requested_time = interval '1 hour' from rowlease.queue"
    ) == [(4, "d", "g", 2, "Scheduled", True)]
    again = run("enqueue", "x", *options, ROWLEASE_DSN=database)
    assert re.fullmatch(r"request \d+: duplicate\n", again.stdout)


@pytest.mark.parametrize("stdin", [b'{"a": 1}', b'\xef\xbb\xbf{"a": 1}\r\n'])
@pytest.mark.usefixtures("emptied")
def test_a_payload_comes_from_stdin(stdin: bytes, run: Run, database: str, look: Look) -> None:
    done = run("enqueue", "x", "--payload", "-", stdin=stdin, ROWLEASE_DSN=database)
    assert done.returncode == 0
    assert look("select payload from rowlease.queue") == [({"a": 1},)]


@pytest.mark.parametrize(
    ("stdin", "count"),
    [(b'{"a": 1}\r\n\nnull\n{"c": 3}', 3), (b'{"a": 1}\n', 1), (b"\n \n", 0), (b"", 0)],
)
@pytest.mark.usefixtures("emptied")
def test_lines_come_from_stdin_in_their_order(
    stdin: bytes, count: int, run: Run, database: str, look: Look
) -> None:
    done = run("enqueue", "x", "--lines", "-", "--json", stdin=stdin, ROWLEASE_DSN=database)
    assert done.returncode == 0
    found = look("select request_id, payload from rowlease.queue order by request_id")
    assert [number for number, _ in found] == [one["request_id"] for one in json.loads(done.stdout)]
    assert [payload for _, payload in found] == [{"a": 1}, {}, {"c": 3}][:count]


# -- output ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("emptied")
def test_json_output_is_json_and_nothing_else(run: Run, database: str) -> None:
    def data(*arguments: str) -> Any:
        done = run(*arguments, "--json", ROWLEASE_DSN=database)
        assert (done.returncode, done.stderr) == (0, "")
        return json.loads(done.stdout)

    migrated = data("migrate")
    assert migrated["changed"] is False
    assert migrated["from_revision"] == migrated["to_revision"]
    (answer,) = data("enqueue", "x", "--priority", "3")
    assert answer["outcome"] == "ok"
    assert isinstance(answer["request_id"], int)
    assert data("depth") == [
        {
            "queue_name": "default",
            "priority": 3,
            "scheduled": 0,
            "pending": 1,
            "processing": 0,
            "failed": 0,
        }
    ]
    assert data("depth", "--queue", "default") == data("depth")


@pytest.mark.usefixtures("emptied")
def test_depth_shows_names_as_they_are(run: Run, database: str, look: Look) -> None:
    name = "[bold]" + "q" * 90
    look(f"select rowlease.configure_queue('{name}')")
    assert run("depth", ROWLEASE_DSN=database).stdout == "no request waits, runs or has failed\n"
    run("enqueue", "x", "--queue", name, ROWLEASE_DSN=database)
    head, row = run("depth", ROWLEASE_DSN=database).stdout.splitlines()
    assert head.split() == ["queue", "priority", "pending", "scheduled", "processing", "failed"]
    assert row.split() == [name, "0", "1", "0", "0", "0"]


def test_migrate_says_what_it_did_and_then_that_all_is_up_to_date(
    run: Run, server_dsn: str
) -> None:
    with scratch_database(server_dsn) as name:
        dsn = in_database(server_dsn, name)
        first, second = run("migrate", ROWLEASE_DSN=dsn), run("migrate", ROWLEASE_DSN=dsn)
        assert (first.returncode, second.returncode) == (0, 0)
        assert re.search(r"from an empty database to schema \w+, \d+ routines\n$", first.stdout)
        assert second.stdout.endswith("is up to date\n")


def test_a_reader_that_has_gone_is_no_reason_for_a_traceback(database: str, tmp_path: Path) -> None:
    """As in `rowlease depth | head -0`."""
    reads, writes = os.pipe()
    os.close(reads)
    with open(writes, "wb") as stdout:
        done = subprocess.run(
            [sys.executable, "-m", "rowlease", "depth"],
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=environment_of(tmp_path, {"ROWLEASE_DSN": database}),
        )
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
def test_a_full_disk_is_one_sentence(database: str, tmp_path: Path) -> None:
    with open("/dev/full", "wb") as stdout:
        done = subprocess.run(
            [sys.executable, "-m", "rowlease", "depth", "--json"],
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=environment_of(tmp_path, {"ROWLEASE_DSN": database}),
        )
    assert (done.returncode, done.stderr) == (1, b"Error: [Errno 28] No space left on device\n")


# -- Ctrl-C ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "lock"),
    [
        (["migrate"], f"select pg_advisory_xact_lock({MIGRATION_LOCK})"),
        (["enqueue", "x"], "lock table rowlease.queue"),
        (["depth"], "lock table rowlease.queue_depth"),
    ],
    ids=["migrate", "enqueue", "depth"],
)
@pytest.mark.usefixtures("unchanged")
def test_ctrl_c_ends_a_command_that_waits(
    command: list[str], lock: str, database: str, look: Look, tmp_path: Path
) -> None:
    with psycopg.connect(database) as holder:
        holder.execute(lock)
        process = subprocess.Popen(
            [sys.executable, "-m", "rowlease", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment_of(tmp_path, {"ROWLEASE_DSN": database}),
        )
        with process:
            wait_until(
                lambda: look(
                    "select from pg_stat_activity where wait_event_type = 'Lock'"
                    " and datname = current_database() and application_name like 'rowlease%'"
                ),
                process,
            )
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE)
        holder.rollback()
    assert err.decode().split("\n") == ["", "Interrupted; run it again to continue.", ""]
    assert out == b""
    assert process.returncode == 130


def wait_until(condition: Callable[[], object], process: subprocess.Popen[bytes]) -> None:
    ends = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < ends, "it never came to that"
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


# -- worker ------------------------------------------------------------------------------------

TASKS = """\
from rowlease.tasks.task import task

@task
def double(n):
    return 2 * n

numbers = [1, 2]
nothing = None
"""


def write_tasks(folder: Path) -> None:
    (folder / "jobs.py").write_text(TASKS)
    (folder / "chores.py").write_text(TASKS)
    (folder / "idle.py").write_text("x = 1\n")
    (folder / "broken.py").write_text("raise RuntimeError('this module is broken')\n")
    (folder / "needy.py").write_text("import no_such_library\n")


BAD_WORKERS = {
    "unknown module": (["nowhere"], r"no module 'nowhere'"),
    "unknown package": (["no.such.module"], r"no module 'no'"),
    "unknown attribute": (["jobs:triple"], r"nothing named 'triple'"),
    "no task": (["jobs:nothing"], r"no task in jobs:nothing"),
    "list without tasks": (["jobs:numbers"], r"no task in jobs:numbers"),
    "module without tasks": (["idle"], r"no task in idle"),
    "module that fails": (["broken"], r"RuntimeError: this module is broken"),
    "missing library": (["needy"], r"no_such_library"),
    "no module": ([""], r"give the module"),
    "nothing": ([], r"Missing argument 'TASKS...'"),
    "two modules with one name": (
        ["jobs", "chores"],
        r"two tasks are named 'double' \(jobs.double and chores.double\)",
    ),
    "no slots": (["jobs", "--concurrency", "0"], r"--concurrency"),
    "weight of a word": (["jobs", "--queue", "web=x"], r"weight 'x' of 'web' is not from 1 to"),
    "weight of 0": (["jobs", "--queue", "web=0"], r"from 1 to 1000|1 to 1000"),
    "lease of a word": (["jobs", "--lease", "long"], r"not a duration; write 250ms"),
    "lease of nothing": (["jobs", "--lease", "0s", "--burst"], r"lease is 0:00:00"),
}


@pytest.mark.parametrize("case", BAD_WORKERS)
@pytest.mark.usefixtures("unchanged")
def test_a_worker_that_cannot_work_says_why(
    case: str, run: Run, database: str, tmp_path: Path
) -> None:
    write_tasks(tmp_path)
    arguments, says = BAD_WORKERS[case]
    refused(run("worker", *arguments, ROWLEASE_DSN=database), 2, says)


def test_a_worker_of_a_queue_that_does_not_exist_ends_with_the_reason(
    run_process: Run, database: str, tmp_path: Path
) -> None:
    write_tasks(tmp_path)
    done = run_process("worker", "jobs", "--queue", "nowhere", ROWLEASE_DSN=database)
    *logged, last = done.stderr.splitlines()
    assert last.startswith(
        'Error: queue "nowhere" does not exist; create it with `rowlease queue create nowhere`'
    )
    assert all(re.match(r"[-\d]+ [:,\d]+ INFO ", line) for line in logged)
    assert (done.stdout, done.returncode) == ("", 2)


@pytest.mark.usefixtures("emptied")
def test_a_request_whose_task_the_worker_does_not_know_waits_and_says_why(
    run_process: Run, database: str, look: Look, tmp_path: Path
) -> None:
    write_tasks(tmp_path)
    assert (
        run_process("enqueue", "triple", "--max-attempts", "1", ROWLEASE_DSN=database).returncode
        == 0
    )
    done = run_process("worker", "jobs", "--burst", "--json", ROWLEASE_DSN=database)
    assert done.returncode == 0
    printed = json.loads(done.stdout)
    assert (printed["failed"], printed["dead"]) == (0, 0)
    assert printed["declined"] >= 1
    ((status, attempts, reason),) = look(
        "select status, num_attempts, last_error from rowlease.queue"
    )
    assert (status, attempts) == ("Scheduled", 0)
    assert re.search(r"no task is named 'triple'; the known tasks are: double", reason)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.usefixtures("unchanged")
def test_a_worker_stops_as_asked_and_says_what_it_did(
    number: signal.Signals, database: str, look: Look, tmp_path: Path
) -> None:
    write_tasks(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-m", "rowlease", "worker", "jobs", "--concurrency", "1"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment_of(tmp_path, {"ROWLEASE_DSN": database}),
    )
    with process:
        wait_until(lambda: look("select from rowlease.worker"), process)
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert re.fullmatch(rb"0 finished in [\d.]+ s \(0/s\)\n", out)
    assert b"Traceback" not in err


# -- demo --------------------------------------------------------------------------------------

BAD_INPUTS: dict[str, tuple[bytes | None, str]] = {
    "missing": (None, r"flights\.csv does not exist"),
    "empty": (b"", r"flights\.csv"),
    "no rows": (b"a,b\n", r"no rows"),
    "rows that differ in length": (b"a,b\n1,2\n3\n", r"Expected 2 columns, got 1"),
    "no text": (b"\xff\xfe\x00\x01" * 100, r"flights\.csv"),
}


@pytest.mark.parametrize("case", BAD_INPUTS)
@pytest.mark.usefixtures("unchanged")
def test_a_demo_without_its_input_fails_before_anything_starts(
    case: str, run: Run, database: str, tmp_path: Path
) -> None:
    content, says = BAD_INPUTS[case]
    if content is not None:
        (tmp_path / "flights.csv").write_bytes(content)
    refused(run("demo", "--input", "flights.csv", ROWLEASE_DSN=database), 2, says)


@pytest.mark.usefixtures("unchanged")
def test_the_flights_of_a_demo_have_their_own_priorities(run: Run, database: str) -> None:
    refused(run("demo", "--priority", "n", ROWLEASE_DSN=database), 2, "--priority needs --input")
