-- inbox: a view into which any program may INSERT requests.
-- params:   queue_name, kind, priority, due_time, dedup_key, group_key, payload
-- returns:  no rows: it can be written, not read; producers may select from it, so that a JDBC
--           writer can look at its columns
-- errors:   as enqueue_many; 2601 a dedup key that is live already
-- locks:    as enqueue_many
-- why:      a client may say what it wants, never who holds it or how far it is. Defaults are
--           filled and the priority clamped by the trigger fill_request. No table stands behind the
--           columns: its NOT NULL would forbid to leave one out.
create or alter view rowlease.Inbox as
select cast(null as nvarchar(100)) as QueueName, cast(null as nvarchar(200)) as Kind,
       cast(null as int) as Priority, cast(null as datetime2(6)) as DueTime,
       cast(null as nvarchar(400)) as DedupKey, cast(null as nvarchar(200)) as GroupKey,
       cast(null as nvarchar(max)) as Payload
 where 1 = 0;
