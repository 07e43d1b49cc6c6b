"""Promise 9: the batches of a stream are enqueued once for as long as the stream is known."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from rowlease.errors import InvalidRequest, RoutineError
from rowlease.model import Begun, Outcome, Promoted, StreamBatch
from tests.contract.sessions import Clock, Session

MONTH = timedelta(days=30)


def enqueued(store: Session, number: int, query: str | None = "q1", stream: str = "s") -> Outcome:
    """Write a batch of two rows and promote it, unless it is enqueued already."""
    batch = StreamBatch(stream, query, number)
    begun = store.begin_load(batch.load_id, "default", f"{query} {number}", batch=batch)
    if isinstance(begun, Promoted):
        return begun.outcome
    store.lay(batch.load_id, begun.run_number, [{"kind": "a"}, {"kind": "b"}])
    return store.promote(batch.load_id, begun.run_number, 2).outcome


def drained(store: Session) -> None:
    """All requests are done, and what the housekeeping drops is gone."""
    while held := store.claim(limit=100):
        store.complete(held)
    for _ in range(3):
        store.maintain()


@pytest.mark.parametrize("later", [timedelta(0), MONTH])
def test_a_batch_that_is_replayed_is_enqueued_once(
    store: Session, clock: Clock, later: timedelta
) -> None:
    for number in range(4):
        assert enqueued(store, number) == Outcome.OK
    drained(store)
    clock.advance(later)
    drained(store)
    for number in (3, 0, 2):
        assert enqueued(store, number) == Outcome.REPEAT
        assert enqueued(store, number, None if number == 3 else "q1") == Outcome.REPEAT
    assert enqueued(store, 4) == Outcome.OK
    assert store.depth()[0].pending == 2
    (found,) = store.list_streams()
    assert found[:3] == ("s", "q1", 4)


@pytest.mark.parametrize("later", [timedelta(0), MONTH])
def test_a_stream_with_a_new_checkpoint_is_refused(
    store: Session, clock: Clock, later: timedelta
) -> None:
    for number in range(4):
        enqueued(store, number)
    drained(store)
    clock.advance(later)
    drained(store)
    says = (
        'stream "s" has enqueued its batches up to 3 from the streaming query q1; this is batch '
        "{} of the query {}: a new checkpoint .* rowlease loads forget-stream .s."
    )
    for number, query in ((0, "q2"), (3, "q2"), (9, "q2"), (0, None)):
        with pytest.raises(InvalidRequest, match=says.format(number, query or ".unknown.")):
            enqueued(store, number, query)
    assert store.depth() == []
    assert enqueued(store, 0, "q2", "other") == Outcome.OK


def test_a_query_that_is_not_known_has_a_new_checkpoint_if_it_counts_again(store: Session) -> None:
    for number in range(3):
        assert enqueued(store, number, None) == Outcome.OK
    for query in (None, "q1"):
        with pytest.raises(
            InvalidRequest, match=r"query \(unknown\); this is batch 1 of the query"
        ):
            enqueued(store, 1, query)
        assert enqueued(store, 2, query) == Outcome.REPEAT
    assert enqueued(store, 3, "q1") == Outcome.OK
    assert enqueued(store, 4, None) == Outcome.OK
    assert store.list_streams()[0][:3] == ("s", "q1", 4)


def test_a_repeated_batch_tells_its_counts_while_its_load_is_known(
    store: Session, clock: Clock
) -> None:
    enqueued(store, 0)
    batch = StreamBatch("s", "q1", 0)

    def again() -> Begun | Promoted:
        return store.begin_load("s/0", "default", "again", batch=batch)

    assert again() == Promoted(Outcome.REPEAT, 2, 2, 0)
    drained(store)
    clock.advance(MONTH)
    drained(store)
    assert store.list_loads() == []
    assert again() == Promoted(Outcome.REPEAT, 0, 0, 0)
    assert store.list_loads() == []


def test_old_batches_of_streams_are_dropped_and_no_other_load(store: Session, clock: Clock) -> None:
    for load_id in ("day", "none"):
        store.promote(load_id, store.begun(load_id), 0)
    enqueued(store, 0)
    drained(store)
    clock.advance(days=8)
    enqueued(store, 1)
    drained(store)
    assert {row[0] for row in store.rows("load", "load_id")} == {"s/1", "day", "none"}


@pytest.mark.parametrize(
    ("known", "first", "second", "says"),
    [
        (False, ("q1", 0), ("q2", 5), "this is batch 5 of the query q2"),
        (True, ("q1", 2), ("q1", 1), 'batch 1 of stream "s", or a later one, is enqueued'),
    ],
    ids=["two queries that begin", "two batches of one query"],
)
def test_of_two_batches_that_are_promoted_at_once_one_is_refused(
    store: Session,
    another: Callable[[], Session],
    known: bool,
    first: tuple[str, int],
    second: tuple[str, int],
    says: str,
) -> None:
    if known:
        enqueued(store, 0)
        drained(store)
    runs = []
    for query, number in (first, second):
        batch = StreamBatch("s", query, number)
        begun = store.begin_load(batch.load_id, "default", query, batch=batch)
        assert isinstance(begun, Begun)
        store.lay(batch.load_id, begun.run_number, [{"kind": f"of {number}"}])
        runs.append((batch.load_id, begun.run_number, 1))
    other = another()
    store.begin()
    assert store.promote(*runs[0]).outcome == Outcome.OK
    refused = other.waiting(lambda: other.promote(*runs[1]))
    store.commit()
    with pytest.raises(InvalidRequest, match=says):
        refused.result()
    assert [request.kind for request in store.claim(limit=9)] == [f"of {first[1]}"]
    assert store.list_streams()[0][:3] == ("s", *first)


def test_a_batch_is_not_promoted_after_a_later_one(store: Session) -> None:
    batch = StreamBatch("s", "q1", 0)
    begun = store.begin_load("s/0", "default", "one", batch=batch)
    assert isinstance(begun, Begun)
    assert enqueued(store, 1) == Outcome.OK
    with pytest.raises(InvalidRequest, match='batch 0 of stream "s", or a later one, is enq'):
        store.promote("s/0", begun.run_number, 0)


def test_a_stream_that_was_forgotten_begins_again(store: Session, clock: Clock) -> None:
    for number in range(3):
        enqueued(store, number)
    with pytest.raises(InvalidRequest, match="a batch of it is being written, or has requests"):
        store.forget_stream("s", dry_run=True)
    drained(store)
    enqueued(store, 0, stream="s/t")
    enqueued(store, 0, stream="other")
    would = store.forget_stream("s", dry_run=True)
    assert would == (Outcome.OK, "q1", 2, 3)
    assert enqueued(store, 2) == Outcome.REPEAT
    assert store.forget_stream("s", actor="ann") == would
    assert store.forget_stream("s").outcome == Outcome.NOT_FOUND
    assert store.list_operations()[0].verb == "forget_stream"
    for number in range(3):
        assert enqueued(store, number, "q2") == Outcome.OK
    assert store.depth()[0].pending == 4 + 6
    assert {batch.batch_id for batch in store.list_batches()} == {
        *("s/0", "s/1", "s/2", "s/t/0", "other/0")
    }
    assert {stream.stream_name for stream in store.list_streams()} == {"s", "s/t", "other"}


def test_a_stream_of_which_a_batch_is_being_written_is_not_forgotten(store: Session) -> None:
    enqueued(store, 0)
    drained(store)
    store.begin_load("s/1", "default", "one", batch=StreamBatch("s", "q1", 1))
    with pytest.raises(InvalidRequest, match="a batch of it is being written"):
        store.forget_stream("s")


@pytest.mark.parametrize(("stream", "number"), [("", 0), ("s ", 0), ("s" * 81, 0), ("s", -1)])
def test_a_wrong_name_or_number_is_refused(store: Session, stream: str, number: int) -> None:
    with pytest.raises(RoutineError, match="a stream has a name of 1 to 80 characters"):
        store.begin_load("x", "default", "one", batch=StreamBatch(stream, "q", number))
