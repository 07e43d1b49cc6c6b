-- inbox: a view into which any program may INSERT requests.
-- params:   queue_name, kind, priority, due_time, dedup_key, group_key, payload, headers
-- errors:   as fill_request; 2601 a live request has the dedup key
-- why:      a client may describe a request, but not its lease or its progress. The trigger
--           fill_request fills defaults and clamps the priority. The columns do not come from the
--           table, because its NOT NULL constraints would require a value for each.
create or alter view rowlease.Inbox as
select cast(null as nvarchar(100)) as QueueName, cast(null as nvarchar(200)) as Kind,
       cast(null as int) as Priority, cast(null as datetime2(6)) as DueTime,
       cast(null as nvarchar(400)) as DedupKey, cast(null as nvarchar(200)) as GroupKey,
       cast(null as nvarchar(max)) as Payload, cast(null as nvarchar(max)) as Headers
 where 1 = 0;
