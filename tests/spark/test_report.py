"""`rowlease report` has the same figures as PostgreSQL, in tables, files and a picture."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner, Result

from rowlease.cli import cli
from rowlease.errors import RowleaseError
from rowlease.report import Report, make_report
from rowlease.report.figures import MAX_STEPS, Failures, Figures, Throughput, Work, step_of
from rowlease.report.picture import by_queue, draw
from rowlease.report.tables import failures_table, throughput_table

Sql = Callable[..., list[tuple[Any, ...]]]
BEGAN = datetime(2030, 1, 1, 12, tzinfo=UTC)
#: Requests of two queues that were done in twelve minutes; of every seventh the second attempt.
HISTORY = """
insert into rowlease.queue_history (
  request_id, queue_name, kind, status, priority, requested_time, due_time, locked_by, locked_time,
  lock_expires_time, lock_token, num_attempts, max_attempts, num_crashes, num_abandons, payload,
  last_error, completion_time)
select 1000 + n, case when mod(n, 3) = 0 then 'mail' else 'images' end, 'k', 'Complete',
       mod(n, 3) + mod(n, 2),
       start - case when mod(n, 5) = 0 then interval '1 hour' else interval '0' end, start, 'w',
       start + wait, start + wait, 1, case when mod(n, 7) = 0 then 2 else 1 end, 5, 0, 0, '{}',
       case when mod(n, 7) = 0 then 'OSError: host ' || n || E'\\n\\nTraceback\\n  ...' end,
       start + wait + mod(n * 104729, 3989) * interval '0.7 ms'
  from (select n, %s::timestamptz + n * interval '0.6 s' as start,
               mod(n * 7919, 997) * interval '1.3 ms' as wait
          from generate_series(1, 1200) n) x
"""
PERCENTILES = """
select queue_name, priority, count(*), count(*) filter (where num_attempts > 1),
       percentile_cont(array[0.5, 0.95, 0.99, 1]) within group (
         order by extract(epoch from locked_time - greatest(due_time, requested_time))),
       percentile_cont(array[0.5, 0.95, 0.99, 1]) within group (
         order by extract(epoch from completion_time - locked_time))
  from rowlease.queue_history group by 1, 2 order by 1, 2 desc
"""
QUEUE = """
insert into rowlease.queue (
  queue_name, kind, status, priority, requested_time, due_time, locked_time, lock_token,
  num_attempts, max_attempts, num_crashes, num_abandons, payload, last_error, completion_time)
values (%s, 'k', %s, 2, %s, %s, %s, 1, 1, 5, 0, 0, '{}', %s, %s)
"""


@pytest.fixture
def filled(dsn: str, sql: Sql) -> str:
    """Two queues with a past."""
    for queue in ("mail", "images"):
        sql("select rowlease.configure_queue(%s)", (queue,))
    sql(HISTORY, (BEGAN,))
    for status, error in (
        ("Failed", "ValueError: bad image 1\n\nTraceback"),
        ("Failed", "ValueError: bad image 2"),
        ("Failed", "too many crashes: the lease ran out; its worker was killed\nworker w, crash 3"),
        ("Failed", "there are 17 of them"),
        ("Scheduled", "ValueError: bad image 3"),
        ("Scheduled", None),
    ):
        at = BEGAN + timedelta(minutes=5)
        ended = at if status == "Failed" else None
        sql(QUEUE, ("images", status, at, at, at, error, ended))
    return dsn


def made(dsn: str, output: Path, **arguments: Any) -> Report:
    """A report over the hour that the requests are from."""
    window = {"since": BEGAN, "until": BEGAN + timedelta(hours=1), **arguments}
    return make_report(dsn, output=output, **window)


def run(*arguments: str) -> Result:
    """The command line; expected exceptions are raised."""
    done = CliRunner().invoke(cli, ["report", *arguments])
    if isinstance(done.exception, RowleaseError):
        raise done.exception
    return done


def test_percentiles_are_those_of_percentile_cont(
    spark: Any, filled: str, sql: Sql, tmp_path: Path
) -> None:
    found = [row for row in made(filled, tmp_path).figures.work if row.complete]
    expected = sql(PERCENTILES)
    assert len(expected) > 4
    assert [(row.queue, row.priority, row.complete, row.retried) for row in found] == [
        row[:4] for row in expected
    ]
    for row, (*_, waits, runs) in zip(found, expected, strict=True):
        assert row[-8:] == pytest.approx([*map(float, waits), *map(float, runs)], abs=5e-5)


def test_rates_are_over_the_time_in_which_requests_were_completed(
    spark: Any, filled: str, sql: Sql, tmp_path: Path
) -> None:
    figures = made(filled, tmp_path).figures
    ((first, last),) = sql(
        "select min(completion_time), max(completion_time) from rowlease.queue_history"
    )
    assert (figures.first, figures.last) == (first, last)
    assert figures.complete == 1200
    assert figures.rate == pytest.approx(1200 / (last - first).total_seconds())
    assert sum(row.rate or 0.0 for row in figures.work) == pytest.approx(figures.rate)
    assert sum(row.complete for row in figures.steps) == 1200
    assert figures.step_seconds == 5
    steps = sql(
        "select queue_name, date_bin('5 s', completion_time, 'epoch'), count(*)"
        " from rowlease.queue_history group by 1, 2"
    )
    assert sorted(figures.steps) == sorted(steps)


def test_failures_are_grouped_by_error_and_outcome(spark: Any, filled: str, tmp_path: Path) -> None:
    found = {(row.queue, row.error): row for row in made(filled, tmp_path).figures.failures}
    counts = {key: (row.dead, row.again, row.complete) for key, row in found.items()}
    assert counts == {
        ("images", "OSError"): (0, 0, 114),
        ("mail", "OSError"): (0, 0, 57),
        ("images", "ValueError"): (2, 1, 0),
        ("images", "(lease ran out)"): (1, 0, 0),
        ("images", "there are # of them"): (1, 0, 0),
    }
    assert found["mail", "OSError"].example == "OSError: host 1197"
    assert found["images", "ValueError"].last_time == BEGAN + timedelta(minutes=5)


def test_the_window_and_the_queues_choose_what_counts(
    spark: Any, filled: str, sql: Sql, tmp_path: Path
) -> None:
    middle = BEGAN + timedelta(minutes=6)
    early, late = (
        made(filled, tmp_path, until=middle).figures,
        made(filled, tmp_path, since=middle).figures,
    )
    ((count,),) = sql(
        "select count(*) from rowlease.queue_history where completion_time < %s", (middle,)
    )
    assert (early.complete, late.complete) == (count, 1200 - count)
    assert sum(row.dead for row in early.work) == 4
    assert sum(row.dead for row in late.work) == 0
    for queues, expected in ((["mail"], 400), (["mail", "images"], 1200), (["default"], 0)):
        assert made(filled, tmp_path, queues=queues).figures.complete == expected


def test_the_command_prints_tables_and_writes_files(
    spark: Any, filled: str, tmp_path: Path
) -> None:
    window = ("--since=2030-01-01T12:00", "--until=2030-01-01T14:00+01:00", f"--dsn={filled}")
    done = run(*window, f"--output={tmp_path / 'out'}")
    assert done.exit_code == 0, done.output
    printed = done.output.splitlines()
    assert (
        printed[0] == "Between 2030-01-01 12:00 and 2030-01-01 13:00 UTC, by the database's clock"
    )
    (total,) = (line.split() for line in printed if line.startswith(" all"))
    assert total == ["all", "1,200", "1.7", "171", "4", "0"]
    assert any(line.split()[:5] == ["ValueError", "images", "k", "2", "1"] for line in printed)
    names = ["work", "failures", "throughput"]
    work, failures, throughput = (pd.read_csv(tmp_path / "out" / f"{name}.csv") for name in names)
    assert (work["complete"].sum(), len(failures), throughput["complete"].sum()) == (1200, 5, 1200)
    for form, read in (("json", lambda path: pd.read_json(path, lines=True)),
                       ("parquet", pd.read_parquet)):  # fmt: skip
        run(*window, f"--output={tmp_path / form}", f"--format={form}")
        again = read(tmp_path / form / f"work.{form}")
        assert again["wait_p95"].tolist() == pytest.approx(work["wait_p95"].tolist(), nan_ok=True)
    png = (tmp_path / "out" / "report.png").read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">I", png[16:20]) == (1600,)


def test_json_has_the_same_for_programs(spark: Any, filled: str, tmp_path: Path) -> None:
    done = run("--since=2030-01-01", "--until=2030-01-02", "--queue=mail", "--json",
               f"--output={tmp_path}", f"--dsn={filled}")  # fmt: skip
    data = json.loads(done.output)
    assert (data["complete"], data["since"]) == (400, "2030-01-01T00:00:00+00:00")
    assert {row["queue"] for row in data["work"]} == {"mail"}
    assert data["failures"][0]["error"] == "OSError"
    assert sorted(Path(path).name for path in data["files"]) == [
        "failures.csv", "report.png", "throughput.csv", "work.csv",
    ]  # fmt: skip
    assert all(Path(path).exists() for path in data["files"])


def test_an_empty_window_is_reported_with_advice(spark: Any, filled: str, tmp_path: Path) -> None:
    done = run("--queue=mail", f"--output={tmp_path}", f"--dsn={filled}")
    assert done.exit_code == 0
    assert done.output.startswith("no request was completed or failed in mail between 20")
    assert "look further back with --since 30d" in done.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--queue=nix"], 'queue "nix" does not exist'),
        (["--since=1h", "--until=2h"], "the window ends .* but begins"),
        (["--output={file}/in"], "the folder .*/file/in cannot be written"),
        (["--dsn=mssql://a:s3cret@h/d"], r"mssql://a:\*\*\*@h/d is SQL Server"),
        (["--dsn=postgresql://a:s3cret@127.0.0.1:1/d"], "cannot reach the database"),
    ],
    ids=["queue", "window", "output", "engine", "database"],
)
def test_bad_input_is_one_sentence(
    spark: Any, dsn: str, tmp_path: Path, arguments: list[str], says: str
) -> None:
    (tmp_path / "file").touch()
    given = [each.format(file=tmp_path / "file") for each in arguments]
    with pytest.raises(RowleaseError, match=says) as raised:
        run(f"--dsn={dsn}", f"--output={tmp_path / 'out'}", *given)
    assert "s3cret" not in str(raised.value)
    assert not (tmp_path / "out" / "report.png").exists()


@pytest.mark.parametrize("text", ["yesterday", "", "2030-13-01"])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    done = CliRunner().invoke(cli, ["report", f"--since={text}"])
    assert done.exit_code == 2
    assert "is not a time; write 2026-11-21" in done.output


def test_steps_are_few_and_round() -> None:
    for seconds in (0, 1, 59, 3600, 86_400, 10**7):
        step = step_of(BEGAN, BEGAN + timedelta(seconds=seconds))
        assert seconds / step <= MAX_STEPS
    assert step_of(None, None) == 1
    assert step_of(BEGAN, BEGAN + timedelta(days=1)) == 600


def worked(queue: str, priority: int, complete: int) -> Work:
    times = [0.0, 0.1, 0.2, 0.3] * 2 if complete else [None] * 8
    return Work._make([queue, priority, complete, 0, 3, 0, 1.0, *times])


@pytest.mark.parametrize("case", ["one", "many", "failures alone", "odd names"])
def test_a_picture_is_drawn_whatever_there_is(case: str, tmp_path: Path) -> None:
    queues = {"one": ["q"], "many": [f"q{n}" for n in range(30)], "failures alone": ["q"],
              "odd names": ["$x^", "\\frac{", "<b>[red]", "q" * 100, "żółć"]}[case]  # fmt: skip
    complete = 0 if case == "failures alone" else 1
    failed = [Failures(name, "k", name, 1, 2, 3, name, BEGAN) for name in queues if case != "one"]
    steps = [Throughput(name, BEGAN, 1) for name in queues if complete]
    at = BEGAN if complete else None
    rows = [worked(name, place, complete) for place, name in enumerate(queues)]
    figures = Figures(BEGAN, BEGAN, at, at, 1, rows, failed, steps)
    draw(figures, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 5000
    throughput_table(figures)
    failures_table(failed)


def test_the_smallest_queues_are_drawn_as_one() -> None:
    steps = [Throughput(f"q{n}", BEGAN, n) for n in range(1, 10)]
    found = by_queue(steps)
    assert list(found) == ["q9", "q8", "q7", "q6", "q5", "others"]
    assert found["others"] == {BEGAN: 10}
