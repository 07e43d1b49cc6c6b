"""`rowlease spark-enqueue`: files become requests, or there is one error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rowlease.cli import cli
from rowlease.errors import InvalidRequest, RowleaseError

Sql = Callable[..., list[tuple[Any, ...]]]


def run(*arguments: str) -> str:
    done = CliRunner().invoke(cli, ["spark-enqueue", "k", *arguments], catch_exceptions=True)
    if isinstance(done.exception, RowleaseError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_each_format_is_read(spark: Any, dsn: str, sql: Sql, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('n,name,urgency\n1,"a ""b"",\nc",3\n2,,4\n')
    (tmp_path / "a.json").write_text('{"n": 3, "name": "x", "urgency": 5}\n')
    spark.createDataFrame([(4, "y", 6)], "n int, name string, urgency int").write.parquet(
        (tmp_path / "a.parquet").as_uri()
    )
    for form in ("csv", "json", "parquet"):
        printed = run(f"--input={tmp_path}/a.{form}", f"--format={form}", "--priority=urgency",
                   f"--load-id={form}", f"--dsn={dsn}")  # fmt: skip
    assert printed == "1 of 1 row enqueued into default\n"
    again = run(f"--input={tmp_path}/a.csv", "--format=csv", "--priority=urgency",
                "--load-id=csv", "--json", f"--dsn={dsn}")  # fmt: skip
    assert json.loads(again) == {
        "outcome": "repeat", "num_rows": 2, "num_enqueued": 2, "num_duplicates": 0,
        "num_clamped": 0,
    }  # fmt: skip
    found = sql("select priority, payload ->> 'name' from rowlease.requests order by priority")
    assert found == [(3, 'a "b",\nc'), (4, None), (5, "x"), (6, "y")]


def test_nanoseconds_of_pandas_are_cut_to_microseconds(
    spark: Any, dsn: str, sql: Sql, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import pyarrow as pa
    from pyarrow.parquet import write_table

    times = [1767261600123456789, -9223372036854775807, None]
    columns = {
        "n": [1, 2, 3],
        "at `local`": pa.array(times, pa.timestamp("ns")),
        "at": pa.array(times, pa.timestamp("ns", "UTC")),
    }
    folder = tmp_path / "two files"
    folder.mkdir()
    for name in ("a", "b c"):
        write_table(pa.table(columns), folder / f"{name}.parquet")
    printed = run(f"--input={folder}", "--format=parquet", "--due-time=at", f"--dsn={dsn}")
    assert printed == "6 of 6 rows enqueued into default\n"
    said = "nanoseconds of the columns at `local`, at are cut to microseconds"
    assert [r.message for r in caplog.records if "nanoseconds" in r.message] == [said]
    found = sql("select distinct on (payload ->> 'n') payload from rowlease.requests")
    assert [tuple(payload.values()) for (payload,) in found] == [
        (1, "2026-01-01T10:00:00.123456", "2026-01-01T10:00:00.123456Z"),
        (2, "1677-09-21T00:12:43.145225", "1677-09-21T00:12:43.145225Z"),
        (3, None, None),
    ]


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (["ns", "us"], "has nanoseconds in the column 'x', inside of its values or in some files"),
        (
            ["list of ns"],
            r"column 'x', .*; write it with microseconds, in pandas with to_parquet\(",
        ),
        (["half float"], "Spark cannot read the input .*Illegal Parquet type: .*FLOAT16"),
    ],
)
def test_a_parquet_type_that_spark_lacks_is_one_sentence(
    files: list[str], says: str, spark: Any, dsn: str, sql: Sql, tmp_path: Path
) -> None:
    import pyarrow as pa
    from pyarrow.parquet import write_table

    types = {
        "ns": pa.timestamp("ns"),
        "us": pa.timestamp("us"),
        "list of ns": pa.list_(pa.timestamp("ns")),
        "half float": pa.float16(),
    }
    for name in files:
        write_table(pa.table({"x": pa.nulls(1, types[name])}), tmp_path / f"{name}.parquet")
    with pytest.raises(InvalidRequest, match=says) as raised:
        run(f"--input={tmp_path}", "--format=parquet", f"--dsn={dsn}")
    assert "\n" not in str(raised.value)
    assert sql("select count(*) from rowlease.requests") == [(0,)]


@pytest.mark.parametrize(
    ("name", "content", "form", "more", "says"),
    [
        ("none", None, "csv", [], r"the input .*/none does not exist"),
        ("a", "no parquet", "parquet", [], r"/a has a row or file that is not valid parquet"),
        ("a", '{"n": 1}\n{"n": \n', "json", [], "/a has a row or file that is not valid json"),
        ("a", "n,m\n1,2\n1\n", "csv", [], r"input .*/a has a row or file that is not valid csv"),
        ("a", "", "csv", [], r"the input .*/a has no columns; is it csv\?"),
        ("a", "n\n1\n", "csv", ["--priority=m"], "priority is 'm', but the frame has no such"),
        ("a", "n\nx\n", "csv", ["--priority=n"], "priority: the column 'n' has the type string"),
        ("a", "n\n1\n", "csv", ["--queue=nix"], 'queue "nix" does not exist'),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_and_changes_nothing(
    spark: Any, dsn: str, sql: Sql, tmp_path: Path,
    name: str, content: str | None, form: str, more: list[str], says: str,
) -> None:  # fmt: skip
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(RowleaseError, match=says):
        run(f"--input={tmp_path / name}", f"--format={form}", f"--dsn={dsn}", *more)
    assert sql("select count(*) from rowlease.requests") == [(0,)]
