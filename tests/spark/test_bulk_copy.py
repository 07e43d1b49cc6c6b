"""What Microsoft's JDBC driver sends when Spark stages a load, with a server that only answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import functions as F

from rowlease.errors import AccessDenied, RowleaseError, StoreConflict, StoreUnavailable
from rowlease.model import Begun
from rowlease.spark.load import stage
from rowlease.store.routines import packaged_folder
from tests.tsql.fake_server import Failure, FakeServer, Rows
from tests.tsql.tds import Kind

#: What a statement of the driver's does, and with which table.
RIGHTS = r"(SELECT|INSERT|UPDATE|DELETE)\b(?: \*| 1| BULK| INTO)?(?: FROM)? (rowlease\.\w+)"
#: What `begin_load` says of a new load.
RUN = Begun(7, 9)


def lane() -> list[tuple[str, str]]:
    """The columns of the view, with their types."""
    declared = json.loads((packaged_folder("sql") / "sqlserver" / "catalogue.json").read_text())
    start = "column rowlease.Lane."
    return [
        (name.removeprefix(start), re.sub(r" (collate|not null).*", "", kind))
        for name, kind in declared.items()
        if name.startswith(start) and not name.endswith("RequestId")
    ]


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        running.answer("FROM rowlease.LoadInbox", Rows(columns=lane()))
        yield running


def staged(spark: Any, server: FakeServer, rows: int = 3, **columns: Any) -> None:
    frame = spark.range(rows).repartition(1).withColumn("name", F.lit("żółć"))
    stage(frame, server.dsn, load_id="first", run=RUN, kind="flight", dedup_key="id", **columns)


def test_rows_are_copied_in_bulk_and_in_one_transaction(spark: Any, server: FakeServer) -> None:
    staged(spark, server)
    (copied,) = (one for one in server.requests if one.kind == Kind.BULK)
    assert {value.name: (value.type, value.value) for value in copied.values} == {
        "RunNumber": ("bigint", [7] * 3),
        "Part": ("bigint", [0] * 3),
        "Priority": ("smallint", [0] * 3),
        "Kind": ("nvarchar(200)", ["flight"] * 3),
        "Payload": ("nvarchar(max)", [f'{{"id":{n},"name":"żółć"}}' for n in range(3)]),
        "DedupKey": ("nvarchar(400)", ["0", "1", "2"]),
    }
    assert copied.in_transaction
    after = server.requests[server.requests.index(copied) + 1]
    assert after.text == "IF @@TRANCOUNT > 0 COMMIT TRAN"


def test_due_times_are_copied_as_they_are(spark: Any, server: FakeServer) -> None:
    due = "timestamp'2030-10-27 00:30:00.123456Z' + make_interval(0, 0, 0, 0, id)"
    staged(spark, server, 2, due_time=F.expr(due))
    (copied,) = (one for one in server.requests if one.kind == Kind.BULK)
    (times,) = (value.value for value in copied.values if value.name == "DueTime")
    # Texts of this form mean the same in every language of a login.
    assert times == [f"2030-10-27 0{hour}:30:00.123456" for hour in (0, 1)]


@pytest.mark.parametrize("moment", ["INSERT BULK", "bulk copy"])
@pytest.mark.parametrize(
    ("number", "text", "error"),
    [
        (1205, "Transaction (Process ID 63) was deadlocked on lock resources with another process"
         " and has been chosen as the deadlock victim. Rerun the transaction.", StoreConflict),
        (229, "The INSERT permission was denied on the object 'Lane', database 'db', schema"
         " 'rowlease'.", AccessDenied),
        (9002, "The transaction log for database 'db' is full due to 'LOG_BACKUP'.",
         StoreUnavailable),
    ],
)  # fmt: skip
def test_an_error_in_a_bulk_copy_keeps_its_meaning(
    moment: str, number: int, text: str, error: type[RowleaseError], spark: Any, server: FakeServer
) -> None:
    server.answer(moment, Failure(number, text))
    with pytest.raises(RowleaseError, match="nothing was enqueued") as raised:
        staged(spark, server)
    assert type(raised.value) is error
    assert text in str(raised.value)


def test_a_producer_may_do_what_the_driver_does(spark: Any, server: FakeServer) -> None:
    staged(spark, server)
    staged(spark, server, due_time=F.expr("timestamp'2030-10-27 00:30:00Z'"))
    done = {
        (right.lower(), table)
        for request in server.requests
        for right, table in re.findall(RIGHTS, request.text)
    }
    assert done == {("select", "rowlease.LoadInbox"), ("insert", "rowlease.LoadInbox")}
    declared = json.loads((packaged_folder("sql") / "sqlserver" / "catalogue.json").read_text())
    for right, table in done:
        assert f"grant {right} on {table} to rowlease_producer" in declared
