"""A step of `maintain` that fails changes nothing, stops no other step, and is named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rowlease.model import NewRequest
from tests.contract.sessions import Clock, Session

#: By the name of the table: a trigger that refuses a row that becomes Pending, and its end.
#: It stands for a row that somebody has changed by hand.
REFUSING = {
    "queue": (
        """do $do$ begin
             create function public.refuse() returns trigger language plpgsql as $$
             begin raise exception 'row % is odd', new.request_id; end $$;
             create trigger refuse before update on rowlease.queue for each row
               when (new.queue_name = 'odd' and new.status = 'Pending')
               execute function public.refuse();
           end $do$""",
        "drop function public.refuse cascade",
    ),
    "Queue": (
        """create trigger rowlease.refuse on rowlease.Queue after update as
             declare @says nvarchar(100) = (
               select max(concat(N'row ', i.RequestId, N' is odd')) from inserted as i
                where i.QueueName = N'odd' and i.Status = N'Pending');
             if @says is not null throw 50001, @says, 1""",
        "drop trigger rowlease.refuse",
    ),
}


@contextmanager
def refusing(store: Session) -> Iterator[None]:
    begins, ends = REFUSING[store.spelt("queue")]
    store.execute(begins)
    try:
        yield
    finally:
        store.execute(ends)


def test_a_row_of_one_queue_does_not_stop_the_others(store: Session, clock: Clock) -> None:
    store.configure_queue("odd")
    (odd,) = store.put(queue="odd")
    store.put(queue="default")
    for queue in ("odd", "default"):
        assert len(store.dequeue("one", [queue], 1).requests) == 1
    clock.advance(seconds=3600)
    says = f"row {odd} is odd"
    with refusing(store):
        for _ in range(2):
            (failed,) = [step for step in store.maintain() if step.error]
            assert (failed.what, failed.num_rows) == ("leases broken", 0)
            assert says in (failed.error or "")
        statuses = dict(store.rows("queue", "queue_name", "status"))
        assert statuses == {"odd": "Processing", "default": "Pending"}
        (finding,) = [one for one in store.diagnose() if one.finding == "maintain"]
        assert finding.subject == "odd"
        assert finding.message.startswith('the step "leases broken" of maintain has failed since')
        assert says in finding.message
    (found,) = [step.num_rows for step in store.maintain() if step.what == "leases broken"]
    assert found == 1
    assert "maintain" not in {one.finding for one in store.diagnose()}
    assert store.rows("maintain_failure", "what") == []


@pytest.mark.only_on("postgresql", why="its steps are subtransactions of one transaction")
def test_what_a_failing_step_has_done_is_undone(store: Session) -> None:
    """Counts of batches are folded before they fail to be written."""
    store.enqueue_many("default", [NewRequest(kind="a")] * 3, batch_id="b")
    store.execute(
        "alter table rowlease.batch add constraint odd check (num_requests < 3) not valid"
    )
    try:
        (failed,) = [step for step in store.maintain() if step.error]
        assert failed.what == "counts of batches folded"
        assert [depth.pending for depth in store.depth()] == [3]
    finally:
        store.execute("alter table rowlease.batch drop constraint odd")
    store.maintain()
    assert [(batch.num_requests, batch.num_live) for batch in store.list_batches()] == [(3, 3)]


@pytest.mark.only_on("sqlserver", why="there each step is a transaction of its own")
def test_where_nothing_is_to_be_done_maintain_begins_one_transaction(store: Session) -> None:
    """It compares the counts with the rows."""
    steps = (
        "select n.what from (values (-1)) as b (step)"
        " cross apply rowlease_internal.next_step(b.step, N'', rowlease.now()) as n"
    )
    store.put(2)
    store.complete(store.claim())
    store.maintain()
    assert store.execute(steps) == [("counts corrected",)]
    ((last,),) = store.execute(
        "select count(*) from rowlease_internal.next_step(9, N'', rowlease.now())"
    )
    assert last == 0
