"""Which load a run of the demo works on: a new one, or one that an earlier run left unfinished.

The ledger of loads in the database is the only memory. A load's id is made of the input's name,
its number of rows, a digest of them, and the number of the run::

    demo:nycflights13:336776:ca19200dcfcf:1            what the first run enqueued
    demo:nycflights13:336776:ca19200dcfcf:1:checked    an empty load: its results were compared

A run whose comparison was made, whatever it showed, is over, and the next run of the same input
gets the next number. Otherwise the next run goes on with the same load: what is promoted already is
not staged again, what is drained already is not run again, and every row is compared.
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
        promoted: its rows are requests already.
    """

    load_id: str
    promoted: bool


def find_run(spark: Any, dsn: str, source: Input) -> Run:
    """The load that this run of the demo makes, or goes on with."""
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
    """Write down that the run's results were compared; the next one starts anew."""
    checked = f"{run.load_id}{CHECKED}"
    begun = store.begin_load(checked, QUEUE, new_run())
    if not isinstance(begun, Promoted):
        store.promote(checked, begun, 0)
