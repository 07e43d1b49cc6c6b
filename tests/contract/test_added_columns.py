"""Promise 12: a later release's routine may return more columns; this release still works."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rowlease.model import Begun, Failure, NewRequest, Outcome, StreamBatch
from rowlease.store import Store
from tests.contract.sessions import Session

pytestmark = [
    pytest.mark.new_database,
    pytest.mark.only_on("postgresql", why="tests/unit/test_sqlserver.py sees rows cut"),
]

REQUEST = NewRequest(kind="k", payload='{"a": 1}', max_attempts=1)
#: The routine with another column behind its own, and what it had as `narrow`.
WIDEN = """
do $$
declare
  v_oid       regprocedure;
  v_arguments text;
  v_names     text;
  v_columns   text;
begin
  select p.oid,
         string_agg(a.name || ' ' || format_type(a.type, null), ', ' order by a.place)
           filter (where a.mode = 'i'),
         coalesce(string_agg(a.name, ', ' order by a.place) filter (where a.mode = 'i'), ''),
         string_agg(a.name || ' ' || format_type(a.type, null), ', ' order by a.place)
           filter (where a.mode in ('o', 't'))
    into v_oid, v_arguments, v_names, v_columns
    from pg_proc p
    join unnest(p.proargnames, p.proargmodes, p.proallargtypes)
         with ordinality as a(name, mode, type, place) on true
   where p.pronamespace = 'rowlease'::regnamespace and p.proname = '{name}'
   group by p.oid;
  execute format('alter function %s rename to narrow', v_oid);
  execute format(
    'create function rowlease.{name}(%s) returns table (%s, added text) language sql as'
    ' ''select n.*, ''''new'''' from rowlease.narrow(%s) n''',
    coalesce((select string_agg(arg || ' default null', ', ') from
              unnest(string_to_array(v_arguments, ', ')) arg), ''), v_columns, v_names);
end $$
"""


def leased(store: Store) -> Any:
    """One request, leased."""
    store.enqueue_many("default", [REQUEST])
    (request,) = store.dequeue("w", ["default"], 1).requests
    return request


def dead(store: Store) -> int:
    """One dead letter's id."""
    request = leased(store)
    store.fail([request], [Failure("x")])
    return int(request.request_id)


def exchanged(store: Store) -> Any:
    request = leased(store)
    store.enqueue_many("default", [REQUEST])
    done = store.exchange("w", ["default"], 1, completed=[(request, None)])
    return done.completed, [r.payload for r in done.claim.requests], done.claim.more


def dequeued(store: Store) -> Any:
    store.enqueue_many("default", [REQUEST])
    claim = store.dequeue("w", ["default"], 2)
    return [(r.kind, r.payload) for r in claim.requests], claim.more


def scheduled(store: Store) -> None:
    store.put_schedule("nightly", "0 3 * * *", "k")


def listed_schedules(store: Store) -> Any:
    scheduled(store)
    return [schedule.kind for schedule in store.list_schedules()]


def claimed_schedules(store: Store) -> Any:
    scheduled(store)
    claim = store.claim_schedules("w")
    return [due.schedule_name for due in claim.due], claim.wait


def fired(store: Store) -> Any:
    scheduled(store)
    return [answer.outcome for answer in store.fire_schedule("nightly")]


def loaded(store: Store) -> Any:
    begun = store.begin_load("first", "default", "me")
    assert isinstance(begun, Begun)
    return begun, store.promote("first", begun.run_number, 0)


def streamed(store: Store) -> str:
    """A stream that has enqueued an empty batch."""
    batch = StreamBatch("s", None, 0)
    begun = store.begin_load(batch.load_id, "default", "me", batch=batch)
    assert isinstance(begun, Begun)
    store.promote(batch.load_id, begun.run_number, 0)
    store.maintain()
    return batch.stream


def listed(store: Store, name: str = "w") -> Any:
    store.worker_heartbeat(
        name, host="h", pid=1, version="1", queues=["default"], slots=1, busy=0, kinds={"a": name}
    )  # fmt: skip
    return [(worker.worker_id, worker.queue_names) for worker in store.list_workers()]


def diagnosed(store: Store) -> Any:
    store.enqueue_many("default", [REQUEST])
    store.pause("default")
    return store.diagnose()


def listed_operations(store: Store) -> Any:
    store.pause("default")
    return store.list_operations()[0].verb


LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
#: Each routine that answers with rows, and a call of it.
CALLS: dict[str, Callable[[Store], Any]] = {
    "schema_version": lambda s: s.check_schema(),
    "enqueue_many": lambda s: s.enqueue_many("default", [REQUEST])[0].outcome,
    "enqueue_by_operator": lambda s: s.enqueue_by_operator("default", REQUEST).outcome,
    "dequeue": dequeued,
    "exchange": exchanged,
    "complete": lambda s: s.complete([leased(s)]),
    "complete_and_enqueue": lambda s: s.complete_and_enqueue(leased(s), None, "default", REQUEST),
    "fail": lambda s: s.fail([leased(s)], [Failure("x")]),
    "abandon": lambda s: s.abandon([leased(s)]),
    "expire": lambda s: s.expire([leased(s)]),
    "snooze": lambda s: s.snooze([leased(s)], [timedelta(minutes=1)]),
    "decline": lambda s: s.decline([leased(s)], ["x"]),
    "disown": lambda s: (leased(s), len(s.disown("w", ["default"], [])))[1],
    "renew": lambda s: s.renew([leased(s)], lease=timedelta(minutes=1))[0].outcome,
    "operate": lambda s: s.operate("cancel", ids=[dead(s)]).touched[0].outcome,
    "explain": lambda s: s.explain(leased(s).request_id).reason,
    "diagnose": diagnosed,
    "diagnose_server": lambda s: [f.finding for f in s.diagnose_server(LONG_AGO)],
    "diagnose_sessions": lambda s: [f.finding for f in s.diagnose_sessions()],
    "depth": lambda s: (leased(s), s.depth())[1],
    "maintain": lambda s: (dead(s), s.maintain())[1],
    "recount": lambda s: (leased(s), s.recount())[1],
    "begin_load": loaded,
    "promote": loaded,
    "put_schedule": lambda s: s.put_schedule("nightly", "0 3 * * *", "k")[0],
    "claim_schedules": claimed_schedules,
    "fire_schedule": fired,
    "list_queues": lambda s: [(q.queue_name, q.paused) for q in s.list_queues()],
    "find_requests": lambda s: (leased(s), [r.kind for r in s.find_requests().requests])[1],
    "get_request": lambda s: (r := s.get_request(leased(s).request_id)) and r.kind,
    "list_schedules": listed_schedules,
    "pause_schedule": lambda s: s.pause_schedule("nightly"),
    "resume_schedule": lambda s: s.resume_schedule("nightly"),
    "remove_schedule": lambda s: s.remove_schedule("nightly"),
    "list_workers": listed,
    "list_ready": lambda s: (
        (s.enqueue_many("default", [REQUEST]), s.list_ready("default"))[1][0].kind
    ),
    "list_leases": lambda s: (leased(s), s.list_leases())[1][0].kind,
    "list_dead_letters": lambda s: (dead(s), s.list_dead_letters())[1][0].error_pattern,
    "list_loads": lambda s: (loaded(s), s.list_loads())[1][0].load_id,
    "list_streams": lambda s: (streamed(s), s.list_streams())[1][0].batch_number,
    "forget_stream": lambda s: s.forget_stream(streamed(s)),
    "list_operations": listed_operations,
    "list_batches": lambda s: (loaded(s), s.list_batches())[1][0].batch_id,
    "advance_ids": lambda s: (
        leased(s),
        s.restart_ids(),  # type: ignore[attr-defined]
        [one.was for one in s.advance_ids()],
    )[2],
    "metrics": lambda s: (leased(s), sorted(m.metric for m in s.metrics()))[1],
    "metrics_server": lambda s: sorted(m.metric for m in s.metrics_server()),
    "list_days": lambda s: (s.maintain(), s.list_days())[1][0].num_finished,
    "list_kinds": lambda s: (s.complete([leased(s)]), s.list_kinds())[1][0].num_complete,
    "list_shared_kinds": lambda s: (listed(s, "v"), listed(s), s.list_shared_kinds())[2][0].kind,
    "measure_waits": lambda s: (s.complete([leased(s)]), s.measure_waits())[1][0].num_requests,
}


def test_every_routine_that_answers_with_rows_has_a_call_here(store: Session) -> None:
    found = store.execute(
        "select proname from pg_proc where pronamespace = 'rowlease'::regnamespace"
        " and proallargtypes is not null"
    )
    assert {name for (name,) in found} - {"enqueue"} == set(CALLS)  # enqueue: for SQL alone


@pytest.mark.parametrize("name", CALLS)
def test_a_column_that_a_later_release_added_is_passed_over(
    name: str, store: Session, another: Callable[[], Session]
) -> None:
    store.begin()
    before = CALLS[name](store)
    store.rollback()
    store.execute(WIDEN.replace("{name}", name))
    assert store.execute(
        "select count(*) from pg_proc where pronamespace = 'rowlease'::regnamespace"
        f" and proname = '{name}' and 'added' = any(proargnames)"
    ) == [(1,)]
    assert str(CALLS[name](another())) == str(before)


def test_a_call_that_was_prepared_before_the_column_came_still_works(store: Session) -> None:
    first, second = leased(store), leased(store)
    store.complete([first])
    store.execute(WIDEN.replace("{name}", "complete"))
    assert store.complete([first, second]) == [Outcome.REPEAT, Outcome.OK]
