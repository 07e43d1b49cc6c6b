-- dequeue: lease up to p_limit waiting requests for a worker.
-- params:   p_worker_id nvarchar(400), p_queue_names nvarchar(max), p_limit int, p_slots int,
--           p_lease_ms bigint, p_floor nvarchar(max)
-- locks:    as lease
-- why:      rows are returned after the commit, because otherwise a failed commit would look like a
--           claim. The floor is returned unchanged: a claim steps over the index entries of claimed
--           requests until the server has removed them, which an old snapshot delays. See decision
--           72.
create or alter procedure rowlease.dequeue
  @p_worker_id nvarchar(400), @p_queue_names nvarchar(max), @p_limit int, @p_slots int = null,
  @p_lease_ms bigint = null, @p_floor nvarchar(max) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @leased xml, @more bit, @wait_ms bigint;
begin transaction;
exec rowlease_internal.lease @p_worker_id, @p_queue_names, @p_limit, @p_slots, @p_lease_ms,
                             @leased output, @more output, @wait_ms output;
select cast(i.[key] as int) as place, q.RequestId as request_id, q.QueueName as queue_name,
       q.Kind as kind, cast(q.Priority as int) as priority, q.RequestedTime as requested_time,
       q.DueTime as due_time, q.LockedTime as locked_time, q.LockExpiresTime as lock_expires_time,
       q.LockToken as lock_token, q.NumAttempts as num_attempts, q.MaxAttempts as max_attempts,
       q.NumCrashes as num_crashes, q.GroupKey as group_key, q.LoadId as load_id, q.Payload as payload,
       q.Headers as headers
  into #rows
  from openjson(cast(@leased as nvarchar(max))) as i
 inner join rowlease.Queue as q with (index (queue_pkey), forceseek)
         on q.RequestId = cast(i.value as bigint)
option (loop join, force order, maxdop 1);
commit transaction;
select l.request_id, l.queue_name, l.kind, l.priority, l.requested_time, l.due_time, l.locked_time,
       l.lock_expires_time, l.lock_token, l.num_attempts, l.max_attempts, l.num_crashes, l.group_key,
       l.load_id, l.payload, l.headers, e.more, e.wait_ms, e.floor
  from (values (0, null, null, null), (1, @more, @wait_ms, @p_floor)) as e (is_end, more, wait_ms, floor)
  left join #rows as l on e.is_end = 0
 where e.is_end = 1 or l.request_id is not null
 order by e.is_end, l.place;
