-- dequeue: lease up to p_limit waiting requests for a worker.
-- params:   p_worker_id nvarchar(400), p_queue_names nvarchar(max), p_limit int, p_slots int,
--           p_lease_ms bigint, p_floor nvarchar(max)
-- returns:  one row per leased request in claim order, then one row whose request_id is null:
--           more (ask again at once), wait_ms (until something is due or expires) and floor
-- errors:   RL001 bad argument, RL002 unknown queue
-- locks:    the gates of queues with a limit in flight, in order of names, waiting at most 2 s in all;
--           then as claim: rows of queue, exclusive, in claim order, skipping locked ones
-- why:      due and expired requests are moved first, a bounded number of them, so that a queue
--           works without maintain. Requests beyond p_slots (default: all start) are prefetched.
--           The floor is returned unchanged: old versions of rows are not in the indexes here, so a
--           claim does not step over them. From a queue whose gate is held it claims nothing, and
--           the caller should claim again soon.
create or alter procedure rowlease.dequeue
  @p_worker_id nvarchar(400), @p_queue_names nvarchar(max), @p_limit int, @p_slots int = null,
  @p_lease_ms bigint = null, @p_floor nvarchar(max) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @more bit, @wait_ms bigint;
create table #leased (Place int identity primary key, RequestId bigint not null);
begin transaction;
exec rowlease_internal.lease @p_worker_id, @p_queue_names, @p_limit, @p_slots, @p_lease_ms, @more output,
                    @wait_ms output;
select i.Place as place, q.RequestId as request_id, q.QueueName as queue_name,
       q.Kind as kind, cast(q.Priority as int) as priority, q.RequestedTime as requested_time,
       q.DueTime as due_time, q.LockedTime as locked_time, q.LockExpiresTime as lock_expires_time,
       q.LockToken as lock_token, q.NumAttempts as num_attempts, q.MaxAttempts as max_attempts,
       q.NumCrashes as num_crashes, q.GroupKey as group_key, q.LoadId as load_id, q.Payload as payload
  into #rows
  from #leased as i
  join rowlease.Queue as q on q.RequestId = i.RequestId;
commit transaction;
select l.request_id, l.queue_name, l.kind, l.priority, l.requested_time, l.due_time, l.locked_time,
       l.lock_expires_time, l.lock_token, l.num_attempts, l.max_attempts, l.num_crashes, l.group_key,
       l.load_id, l.payload, e.more, e.wait_ms, e.floor
  from (select 0 as is_end, cast(null as bit) as more, cast(null as bigint) as wait_ms,
               cast(null as nvarchar(max)) as floor
         union all select 1, @more, @wait_ms, @p_floor) as e
  left join #rows as l on e.is_end = 0
 where e.is_end = 1 or l.request_id is not null
 order by e.is_end, l.place;
