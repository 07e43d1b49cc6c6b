"""Who waits for a producer or maintain: what a worker calls reads no row that may be locked.

Without READ_COMMITTED_SNAPSHOT a plain read waits for the transaction that has locked the row. A
read waits for nobody if it skips locked rows, or stops at once (nowait), or if it is of a row whose
key the routine knows: a worker's own request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import pytest

from rowlease.store.routines import all_files
from tests.tsql import scriptdom
from tests.tsql.script import hints, is_changed, is_inserted, name_of, schema_of
from tests.tsql.scriptdom import Node

#: What a worker calls while it works.
CALLS = (
    "dequeue", "exchange", "complete", "fail", "abandon", "snooze", "decline", "disown", "renew",
    "report_progress",
)  # fmt: skip
#: The tables in which producers, housekeeping and others leave rows of open transactions.
SHARED = {"queue", "lane", "lanepart", "load", "queuedepth"}
#: The indexes by which a routine reads a row that it knows.
KEYS = {"queue_pkey", "lane_pkey", "load_run"}
FILES = {file.name: file.body for file in all_files("sqlserver")}


def called_by(name: str, found: set[str]) -> set[str]:
    if name in FILES and name not in found:
        found.add(name)
        code = re.sub("--.*|'(?:[^']|'')*'", "", FILES[name])
        for other in re.findall(r"\browlease(?:_internal)?\.(\w+)", code):
            called_by(other, found)
    return found


@cache
def _parse() -> scriptdom.Parse:
    return scriptdom.load()


def waits(text: str) -> Iterator[str]:
    """The reads of a routine that wait for a row which another session has locked."""
    tree, _ = _parse()(text)
    assert tree is not None
    for reference in tree.walk("NamedTableReference"):
        name = reference.get("SchemaObject")
        table = name_of(name)
        if schema_of(name) != "rowlease" or table not in SHARED or writes(reference):
            continue
        index = {str(one.net.Identifier.Value) for one in reference.walk(INDEX)}
        if not hints(reference) & {"readpast", "nowait"} and not index & KEYS:
            yield f"line {reference.line}: a read of {table} waits for its writers"


INDEX = "IdentifierOrValueExpression"


def writes(reference: Node) -> bool:
    return is_inserted(reference) or is_changed(reference)


@pytest.mark.parametrize("call", CALLS)
def test_a_worker_waits_for_no_producer_and_no_maintain(call: str) -> None:
    found = {name: list(waits(FILES[name])) for name in sorted(called_by(call, set()))}
    assert {name: reads for name, reads in found.items() if reads} == {}


@pytest.mark.parametrize(
    "name",
    ["group_is_free", "unblock_groups", "look", "ms_until_event", "bring_in_high", "first_in_lane"],
)
def test_a_plain_read_is_found(name: str) -> None:
    assert list(waits(re.sub(", (readpast|readcommittedlock|nowait)", "", FILES[name])))
