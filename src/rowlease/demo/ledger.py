"""Finds the load of a run of the demo: a new one, or one that an earlier run left unfinished.

The only state is the ledger of loads in the database. A load's id is made of the input's name,
its number of rows, a digest of them, and the number of the run::

    demo:nycflights13:336776:ca19200dcfcf:1            what the first run enqueued
    demo:nycflights13:336776:ca19200dcfcf:1:checked    an empty load: its results were compared

A run ends with its comparison, whatever the result, and the next run of the same input gets the
next number. Otherwise the next run continues with the same load: promoted rows are not staged
again, finished requests are not run again, and every row is compared.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rowlease.demo.job import QUEUE
from rowlease.demo.source import Input
from rowlease.model import Promoted
from rowlease.spark.jdbc import connection_options, database_errors, literal
from rowlease.spark.load import new_run
from rowlease.store import Producing

CHECKED = ":checked"
#: Characters of the input's name and of its digest that go into a load id of at most 100.
NAME, DIGEST = 40, 12


class Run(NamedTuple):
    """The load to work on.

    Attributes:
        promoted: it was promoted by an earlier run.
    """

    load_id: str
    promoted: bool


def find_run(spark: Any, dsn: str, source: Input) -> Run:
    """The load that this run of the demo begins or continues."""
    name = f"demo:{source.name[:NAME]}:{source.num_rows}:{source.digest[:DIGEST]}:"
    query = (
        "(select load_id::text as load_id from rowlease.load "  # noqa: S608
        f"where starts_with(load_id, {literal(name)}) and status = 'Promoted') loads"
    )
    with database_errors(dsn, "the ledger of loads could not be read"):
        table = spark.read.format("jdbc").options(**connection_options(dsn), dbtable=query).load()
        known = {row.load_id for row in table.collect()}
    number = 1
    while f"{name}{number}{CHECKED}" in known:
        number += 1
    return Run(f"{name}{number}", f"{name}{number}" in known)


def close_run(store: Producing, run: Run) -> None:
    """Record that the run's results were compared, so that the next run begins a new load."""
    checked = f"{run.load_id}{CHECKED}"
    begun = store.begin_load(checked, QUEUE, new_run())
    if not isinstance(begun, Promoted):
        store.promote(checked, begun, 0)
