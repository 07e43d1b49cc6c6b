"""`rowlease spark-enqueue`: files become requests, or there is one error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rowlease.cli import cli
from rowlease.errors import RowleaseError

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
