"""The database's own record of each change of each request that it kept, and of each effect.

Triggers write it in the transaction of the change, so what is rolled back, or lost in a crash or a
failover, is not in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.stress.history import BatchEnd, Change, Effect, Event, History

Sql = Callable[[str], list[tuple[Any, ...]]]

#: An effect of a task, in the transaction of its outcome.
EFFECT = "insert into witness.effect (request_id, lock_token) values (%s, %s)"

WITNESS = """
create schema witness;
create table witness.effect (request_id bigint, lock_token bigint);
create table witness.change (
  place bigint generated always as identity, tx xid8 default pg_current_xact_id(),
  at timestamptz default rowlease.now(), of jsonb, status text);
create index change_tx on witness.change (tx);

create function witness.note_change() returns trigger language plpgsql security definer as $$
begin
  if tg_op = 'DELETE' then
    insert into witness.change (of, status) values (to_jsonb(old), 'Deleted');
  else
    insert into witness.change (of, status) values (to_jsonb(new), new.status);
  end if;
  return null;
end $$;
create trigger note_change after insert or update or delete on rowlease.queue
  for each row execute function witness.note_change();
create trigger note_change after insert on rowlease.queue_history
  for each row execute function witness.note_change();

create function witness.note_batch_end() returns trigger language plpgsql security definer as $$
begin
  insert into witness.change (of, status) values (to_jsonb(new), 'batch ended');
  return null;
end $$;
create trigger note_batch_end after update of finished_time on rowlease.batch
  for each row when (new.finished_time is not null and old.finished_time is null)
  execute function witness.note_batch_end();
"""
#: A row that moves to the history is deleted and inserted, in either order: one change.
CHANGES = """
select c.status, (c.of ->> 'request_id')::bigint, extract(epoch from c.at)::float,
       (c.of ->> 'lock_token')::bigint, c.of ->> 'locked_by',
       extract(epoch from (c.of ->> 'lock_expires_time')::timestamptz)::float,
       (c.of ->> 'num_attempts')::int, (c.of ->> 'num_crashes')::int,
       (c.of ->> 'num_abandons')::int, (c.of ->> 'max_attempts')::int,
       extract(epoch from (c.of ->> 'due_time')::timestamptz)::float,
       (c.of #>> '{payload,n}')::bigint, c.of ->> 'group_key', c.of ->> 'dedup_key',
       coalesce(c.of ->> 'load_id', c.of ->> 'batch_id'), (c.of #>> '{result,n}')::bigint
  from witness.change c
 where not (c.status = 'Deleted' and exists (
         select from witness.change m
          where m.tx = c.tx and m.of ->> 'request_id' = c.of ->> 'request_id'
            and m.status in ('Complete', 'Cancelled')))
 order by c.place
"""


def witness(sql: Sql) -> None:
    """Record changes from now on."""
    sql(WITNESS)


def kept(sql: Sql, history: History) -> History:
    """Add to the history what the database has recorded, and how each request ended."""
    changes: list[Event] = [
        BatchEnd(batch) if status == "batch ended" else Change(
            request, status, at, token, by, expires, attempts, crashes, abandons, most, due,
            number, group, dedup, batch, result,
        )
        for status, request, at, token, by, expires, attempts, crashes, abandons, most, due,
            number, group, dedup, batch, result in sql(CHANGES)
    ]  # fmt: skip
    history.add(*changes)
    history.add(*(Effect(*row) for row in sql("select request_id, lock_token from witness.effect")))
    history.final = dict(sql("select request_id, status from rowlease.requests"))
    return history
