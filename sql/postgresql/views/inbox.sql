-- inbox: a view into which any program may INSERT requests.
-- params:   queue_name, kind, priority, due_time, dedup_key, group_key, payload
-- returns:  no rows: it can be written, not read; producers may select from it, so that a JDBC
--           writer can look at its columns
-- errors:   as enqueue_many; 23505 a dedup key that is live already
-- locks:    as enqueue_many
-- why:      a client may say what it wants, never who holds it or how far it is. Defaults are
--           filled and the priority clamped by the trigger fill_request.
create or replace view rowlease.inbox as
select q.queue_name, q.kind, q.priority, q.due_time, q.dedup_key, q.group_key, q.payload
  from rowlease.queue q
 where false;
