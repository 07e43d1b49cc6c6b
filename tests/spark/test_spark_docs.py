"""The programs, commands and queries of docs/spark.md run as they are printed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from click.testing import CliRunner

from rowlease.cli import cli
from rowlease.spark.jdbc import connection_options
from rowlease.store import Store
from tests.commands import in_test
from tests.spark.programs import run_program

Sql = Callable[..., list[tuple[Any, ...]]]
#: The tasks that the page imports.
TASKS = "from rowlease import task\n@task('send')\ndef send(**columns): return len(columns)\n"
EMPTIED = "truncate rowlease.queue, rowlease.lane, rowlease.lane_part, rowlease.queue_depth"


#: What the programs in Scala need before them.
SCALA = """
val url = "{url}"
val properties = new java.util.Properties
Seq("driver", "stringtype", "user", "password").zip(Seq({values})).foreach {{
  case (name, value) => properties.setProperty(name, value)
}}
val df = spark.read.parquet("{frame}")
df.createOrReplaceTempView("mails")
"""


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


def test_the_first_load_runs(
    spark: Any,
    dsn: str,
    sql: Sql,
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ROWLEASE_DSN", dsn)
    commands, java, *_ = blocks(repository, "")
    tasks, program, *_ = blocks(repository, "python")
    (tmp_path / "mails.py").write_text(tasks)
    install, create = commands.splitlines()
    assert install == "pip install '.[spark,embedded]'"
    rowlease = in_test(tmp_path)
    ran = rowlease(*shlex.split(create)[1:], ROWLEASE_DSN=dsn)
    assert ran.returncode == 0, ran.stderr
    exec(program, {})
    assert "num_enqueued=1000" in capfd.readouterr().out
    ran = rowlease("worker", "mails", "--burst", "--executor", "thread", ROWLEASE_DSN=dsn)
    assert ran.returncode == 0, ran.stderr
    exec(program, {})
    printed = capfd.readouterr().out
    assert "REPEAT" in printed
    assert "|Complete| 1000|" in printed
    assert re.search(r"\|\d+@example.com\|", printed)
    script = f'{java}"$JAVA_HOME/bin/java" -version'
    home = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run(["bash", "-ec", script], check=True, env={**os.environ, **home})


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

    _, _, whole, written, streamed, sink, read, pool, inbox = blocks(repository, "python")
    for program, clicks in (
        (whole, None),
        (written, None),
        (streamed, stream("to_json(struct(id)) as payload")),
        (sink, stream("id")),
        (inbox, None),
    ):
        sql(EMPTIED)
        sql("delete from rowlease.load")
        sql("delete from rowlease.stream")
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
    _, _, enqueued, submitted, report, demo = blocks(repository, "")
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
    _, pool, loads, discard, load = blocks(repository, "sql")
    sql("select rowlease.begin_load('mail-2026-11-21', 'mail', 'a-driver')")
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


@pytest.mark.timeout(300)
def test_scala_and_spark_sql_write_loads_and_repeat_none(
    spark: Any, dsn: str, sql: Sql, mails: Any, repository: Path, tmp_path: Path
) -> None:
    given = connection_options(dsn)
    values = (given["driver"], given["stringtype"], given["user"], given["password"])
    start = SCALA.format(
        url=given["url"],
        values=", ".join(f'"{value}"' for value in values),
        frame=tmp_path / "mails.parquet",
    )
    (recipe,) = blocks(repository, "scala")
    create, insert = blocks(repository, "sql")[0].strip().rstrip(";").split(";\n")
    inserts = [f'spark.sql("""{statement}""")' for statement in (create, insert, insert)]
    program = tmp_path / "recipe.scala"
    program.write_text("\n".join([start, recipe, f"{{ {recipe} }}", *inserts, "System.exit(0)"]))
    ran = run_program("spark-shell", dsn, "-i", str(program))
    found = sql(
        "select load_id, count(*), count(distinct payload ->> 'id'), sum(priority)"
        " from rowlease.requests group by 1 order by 1"
    )
    assert found == [("mail-2026-11-22", 30, 30, 30), ("mails-2026-11-23", 30, 30, 30)], ran
