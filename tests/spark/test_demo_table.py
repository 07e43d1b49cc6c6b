"""The demo takes any table: each value comes back as Spark reads it from the input."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from rowlease.demo import check, run_demo
from rowlease.demo.job import QUEUE
from rowlease.demo.source import prepare
from rowlease.demo.table import table_job
from rowlease.demo.tasks import row
from rowlease.errors import ConfigError, InvalidRequest
from rowlease.model import Begun
from rowlease.spark.promotion import promoted
from rowlease.store import Store

FIRST, LAST = dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30, 23, 59, 59, 999_999)
#: Before standard time, Kathmandu was 5:41:16 ahead.
BEFORE_ZONES = dt.datetime(1850, 6, 1, 12, 0, 0, 1)
TIMES = [FIRST, BEFORE_ZONES, dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), LAST, None]


def hostile() -> Any:
    """Five rows of what tables have."""
    import pyarrow as pa

    decimals = [Decimal("12345678901234567890123456.789012345678"), Decimal("-1E-12"), None] * 2
    return pa.table(
        {
            "payload": [None, "", "null", 'a "quote", \\ and \n a line', "\0 Ü 🙂 北京"],
            "row_id": [5, 4, 3, 2, 2**63 - 1],
            "a.b": [1, None, 3, 4, 5],
            "a `tick` and 'quotes'": ["x", "x", "x", "x", None],
            "🙂": [True, None, False, True, True],
            "select": ["NA", "NaN", "NULL", "\\N", "{}"],
            "A.B": [0.1, float("nan"), float("inf"), -0.0, 5e-324],
            "": pa.array([1.5, None, 3.4028234e38, 1e-45, -1.0], pa.float32()),
            "utc": pa.array(TIMES, pa.timestamp("us", "UTC")),
            "local": pa.array(TIMES, pa.timestamp("us")),
            "nanoseconds": pa.array([1, -1, 10**18, None, 0], pa.timestamp("ns")),
            "day": [each and each.date() for each in TIMES],
            "time": pa.array([dt.time(23, 59, 59, 1), None, *[dt.time(0)] * 3]),
            "decimal": pa.array(decimals[:5], pa.decimal128(38, 12)),
            "large": pa.array([2**64 - 1, None, 0, 1, 2], pa.uint64()),
            "binary": [b"\xff\x00", b"", None, b"text", b"\\x"],
            "nothing": pa.nulls(5),
            "wide": pa.array(
                [Decimal("1" * 50), Decimal(-3), None, *[Decimal(0)] * 2], pa.decimal256(76, 20)
            ),
            "narrow": pa.array([Decimal("1.25"), None, *[Decimal(0)] * 3], pa.decimal256(10, 2)),
            "half": pa.array([1.5, float("nan"), None, 0, float("inf")], pa.float16()),
            "duration": pa.array([dt.timedelta(-1, 1), None, *[dt.timedelta(0)] * 3]),
            "uuid": pa.ExtensionArray.from_storage(
                pa.uuid(), pa.array([uuid4().bytes, None, *[bytes(16)] * 3], pa.binary(16))
            ),
            "times": pa.array([[dt.time(1)], [None], None, [], []], pa.list_(pa.time64("us"))),
            "category": pa.array(["x", "y", None, "x", "y"]).dictionary_encode(),
            "list": pa.array([[1, None], [], None, [2], [3]]),
            "deep": pa.array(
                [{"a.b": [{"n": decimals[0], "at": BEFORE_ZONES}]}, None, {"a.b": []}, None, None],
                pa.struct(
                    {
                        "a.b": pa.list_(
                            pa.struct({"n": pa.decimal128(38, 12), "at": pa.timestamp("us", "UTC")})
                        )
                    }
                ),
            ),
            "map": pa.array(
                [[(1, decimals[0])], [], None, [(-2, None)], [(3, decimals[1])]],
                pa.map_(pa.int32(), pa.decimal128(38, 12)),
            ),
        }
    )


@pytest.fixture
def far_from_utc(spark: Any) -> Iterator[None]:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    yield
    spark.conf.set("spark.sql.session.timeZone", zone)


@pytest.mark.usefixtures("far_from_utc")
def test_each_value_of_a_hostile_table_comes_back(
    spark: Any, dsn: str, store: Store, tmp_path: Path
) -> None:
    import pyarrow.parquet

    pyarrow.parquet.write_table(hostile(), tmp_path / "hostile.parquet")
    source = prepare(tmp_path / "hostile.parquet", None, tmp_path)
    job = table_job(spark, source, "`a.b` % 3")
    store.configure_queue(QUEUE)
    run = store.begin_load("load", QUEUE, "one")
    assert isinstance(run, Begun)
    promoted(store, job.stage(dsn, "load", run))
    requests = store.dequeue("w", [QUEUE], 9).requests
    assert sorted(each.priority for each in requests) == [0, 0, 1, 1, 2]
    store.complete(requests, [row.run(each.payload) for each in requests])
    found = check.finished(spark, dsn, job, "load")
    assert check.compare(job.expected, found) == check.Compared(0, 0, 0, 0, ())
    (first,) = (each for each in requests if json.loads(each.payload)["row_id"] == 0)
    received = json.loads(first.payload)["row"]
    assert received["decimal"] == "12345678901234567890123456.789012345678"
    assert received["wide"] == "1" * 50 + "." + "0" * 20
    assert received["times"] == ["01:00:00.000000"]
    assert received["A.B_2"] == 0.1, "Spark does not tell A.B from a.b"
    assert dt.datetime.fromisoformat(received["utc"]) == FIRST.replace(tzinfo=dt.UTC)


def test_a_value_that_changes_is_noticed(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("n,text\n1.5,x\n")
    job = table_job(spark, prepare(path, None, tmp_path), None)
    ((right,),) = job.expected.select("result").collect()
    for result, wrong in (
        (right, 0),
        (right.replace("1.5", "1.50"), 0),
        (right.replace("1.5", "1.6"), 1),
        (right.replace('"x"', "null"), 1),
        ("{}", 1),
    ):
        found = spark.createDataFrame([(0, result)], "row_id bigint, result string")
        found = found.withColumn("result", job.comparable(found.result))
        assert check.compare(job.expected, found).wrong == wrong, result


@pytest.mark.parametrize(
    ("priority", "says"),
    [
        ("name", "priority: the column 'name' has the type string; cast it to"),
        ("urgency", "priority cannot be evaluated on the frame: .*urgency"),
        ("n +", "priority cannot be evaluated on the frame: .*PARSE_SYNTAX_ERROR"),
    ],
)
def test_a_priority_that_is_none_is_refused(
    priority: str, says: str, spark: Any, dsn: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("n,name\n1,x\n")
    with pytest.raises(InvalidRequest, match=says):
        run_demo(dsn, source=path, priority=priority, output=tmp_path / "output")


def test_a_table_that_spark_cannot_read_is_named(spark: Any, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    path = tmp_path / "a.parquet"
    alike = pa.array([{"n": 1, "N": 2}], pa.struct({"n": pa.int64(), "N": pa.int64()}))
    pyarrow.parquet.write_table(pa.table({"alike": alike}), path)
    with pytest.raises(ConfigError, match=r"Spark cannot read the input a\.parquet: .*ALREADY"):
        table_job(spark, prepare(path, None, tmp_path), None)


def test_the_demo_runs_on_a_csv_file(
    spark: Any, dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "any.csv"
    path.write_text('urgency,"a, b",at\n3,"x\ny",1969-12-31 23:59:59\n12,,\n,"Ü",2020-01-01\n')
    given: dict[str, Any] = {"output": tmp_path / "out", "concurrency": 1, "as_json": True}
    assert run_demo(dsn, source=path, priority="urgency", **given) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["rows"], printed["differ"], printed["carriers"]) == (3, 0, [])
    assert [wait["priority"] for wait in printed["waits"]] == [9, 3, 0]
