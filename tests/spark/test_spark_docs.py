"""The programs, commands and queries of docs/spark.md run as they are printed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from click.testing import CliRunner

from rowlease.cli import cli
from rowlease.spark.jdbc import connection_options
from rowlease.store import Store

Sql = Callable[..., list[tuple[Any, ...]]]
#: The tasks that the page imports.
TASKS = "from rowlease import task\n@task('send')\ndef send(**columns): return len(columns)\n"
EMPTIED = "truncate rowlease.queue, rowlease.lane, rowlease.lane_part, rowlease.queue_depth"


def blocks(repository: Path, language: str) -> list[str]:
    page = (repository / "docs" / "spark.md").read_text()
    found = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", page, re.M | re.S)
    return [block for named, block in found if named == language]


@pytest.fixture
def mails(spark: Any, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A frame, which is also in `mails.parquet` and `table.parquet` of the current folder."""
    monkeypatch.chdir(tmp_path)
    for queue in ("mail", "thumbnails"):
        store.configure_queue(queue)
    frame = spark.range(30).selectExpr("id", "int(id % 3) as urgency", "id % 20 as days_open")
    for name in ("mails", "table"):
        frame.write.parquet(str(tmp_path / f"{name}.parquet"))
    return frame


def test_the_programs_run(
    spark: Any, dsn: str, sql: Sql, mails: Any, repository: Path, tmp_path: Path
) -> None:
    with ZipFile(tmp_path / "app.zip", "w") as app:
        app.writestr("myapp/__init__.py", "")
        app.writestr("myapp/tasks.py", TASKS)
    spark.sparkContext.addPyFile(str(tmp_path / "app.zip"))
    given = connection_options(dsn)
    names = {"spark": spark, "dsn": dsn, "df": mails}
    names |= {"url": given["url"], "user": given["user"], "password": given["password"]}

    def stream(*columns: str) -> Any:
        schema = mails.schema.simpleString().removeprefix("struct<").removesuffix(">")
        clicks = spark.readStream.schema(schema.replace(":", " "))
        return clicks.parquet(str(tmp_path / "mails.parquet")).selectExpr(*columns)

    def requests() -> int:
        ((count,),) = sql("select count(*) from rowlease.requests where status = 'Pending'")
        return int(count)

    whole, written, streamed, sink, read, pool, inbox = blocks(repository, "python")
    for program, clicks in (
        (whole, None),
        (written, None),
        (streamed, stream("to_json(struct(id)) as payload")),
        (sink, stream("id")),
        (inbox, None),
    ):
        sql(EMPTIED)
        sql("delete from rowlease.load")
        names |= {"clicks": clicks, "folder": str(tmp_path / str(len(program)))}
        if program is inbox:
            names["df"] = mails.selectExpr(
                "'mail' as queue_name", "'send' as kind", "to_json(struct(id)) as payload"
            )
        exec(program, names)
        for query in spark.streams.active:
            query.processAllAvailable()
            query.stop()
        assert requests() == 30, program
    exec(pool, names)
    assert requests() == 0
    exec(read, names)
    assert names["finished"].count() == 30


def test_the_commands_run(dsn: str, sql: Sql, mails: Any, repository: Path) -> None:
    enqueued, submitted, report, demo = blocks(repository, "")
    assert "spark-submit" in submitted, "tests/spark/test_spark_submit.py runs this one"
    for command in (enqueued, report, demo):
        program, *arguments = shlex.split(command, comments=True)
        assert program == "rowlease"
        ran = CliRunner().invoke(cli, arguments, env={"ROWLEASE_DSN": dsn})
        assert ran.exit_code == 0, (command, ran.output, ran.exception)
    assert sql("select queue_name, count(*) from rowlease.requests group by 1 order by 1") == [
        ("demo", 30),
        ("mail", 30),
    ]


def test_the_queries_run(dsn: str, sql: Sql, mails: Any, repository: Path) -> None:
    pool, loads, discard, load = blocks(repository, "sql")
    for query in (pool, loads, discard):
        sql(query.replace("%", "%%"))
    begin, insert, promote = load.strip().split(";\n")
    ((number,),) = sql(begin)
    for statement in (insert, promote):
        sql(statement.partition(" --")[0].replace(":run_number", str(number)))
    assert sql("select priority, payload ->> 'to' from rowlease.requests order by 1") == [
        (0, "ann"),
        (5, "bob"),
    ]
