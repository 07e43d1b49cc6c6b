-- exchange: report outcomes and lease more requests, in one round trip.
-- params:   p_worker_id nvarchar(400), p_queue_names nvarchar(max), p_limit int (0: lease nothing),
--           p_slots int, p_lease_ms bigint, p_floor nvarchar(max), p_complete_ids nvarchar(max),
--           p_complete_tokens nvarchar(max), p_results nvarchar(max), p_fail_ids nvarchar(max),
--           p_fail_tokens nvarchar(max), p_errors nvarchar(max), p_retries_ms nvarchar(max),
--           p_dead nvarchar(max), p_error_types nvarchar(max), p_tracebacks nvarchar(max)
-- returns:  the columns of dequeue, dead bit and outcome text: first a row for each completed
--           request, then a row for each failed one, with its id, dead and outcome; then the rows of
--           dequeue
-- locks:    rows of queue that are completed or failed, exclusive; then as dequeue
create or alter procedure rowlease.exchange
  @p_worker_id nvarchar(400), @p_queue_names nvarchar(max), @p_limit int, @p_slots int = null,
  @p_lease_ms bigint = null, @p_floor nvarchar(max) = null, @p_complete_ids nvarchar(max) = N'[]',
  @p_complete_tokens nvarchar(max) = N'[]', @p_results nvarchar(max) = null,
  @p_fail_ids nvarchar(max) = N'[]', @p_fail_tokens nvarchar(max) = N'[]',
  @p_errors nvarchar(max) = null, @p_retries_ms nvarchar(max) = null, @p_dead nvarchar(max) = null,
  @p_error_types nvarchar(max) = null, @p_tracebacks nvarchar(max) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @done nvarchar(max), @ids nvarchar(max), @tokens nvarchar(max), @held xml, @leased xml,
        @more bit;
declare @wait_ms bigint;
declare @reported table (Part int not null, Place int not null, RequestId bigint,
                         Outcome varchar(20) not null, Dead bit, primary key (Part, Place));
begin transaction;
if exists (select 1 from openjson(@p_complete_ids)) and exists (select 1 from openjson(@p_fail_ids))
begin
  set @ids = rowlease_internal.joined(@p_complete_ids, @p_fail_ids);
  set @tokens = rowlease_internal.joined(@p_complete_tokens, @p_fail_tokens);
  exec rowlease_internal.take_held @ids, @tokens, @held output;
end;
if exists (select 1 from openjson(@p_complete_ids))
begin
  exec rowlease_internal.complete_held @p_complete_ids, @p_complete_tokens, @p_results, @held output;
  set @done = cast(@held as nvarchar(max));
  insert into @reported (Part, Place, RequestId, Outcome)
  select 1, o.place, o.request_id, o.outcome
    from rowlease_internal.lease_outcomes(@p_complete_ids, @p_complete_tokens, @done) as o;
end;
if exists (select 1 from openjson(@p_fail_ids))
begin
  exec rowlease_internal.fail_held @p_fail_ids, @p_fail_tokens, @p_errors, @p_retries_ms, @p_dead,
                                   @p_error_types, @p_tracebacks, @held output;
  set @done = cast(@held as nvarchar(max));
  insert into @reported (Part, Place, RequestId, Outcome, Dead)
  select 2, o.place, o.request_id, o.outcome, o.dead
    from rowlease_internal.settled_outcomes(@p_fail_ids, @p_fail_tokens, @done) as o;
end;
if @p_limit > 0
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
select coalesce(r.RequestId, l.request_id) as request_id, l.queue_name, l.kind, l.priority,
       l.requested_time, l.due_time, l.locked_time, l.lock_expires_time, l.lock_token, l.num_attempts,
       l.max_attempts, l.num_crashes, l.group_key, l.load_id, l.payload, l.headers, e.more, e.wait_ms, e.floor,
       r.Dead as dead, r.Outcome as outcome
  from (select 1 as part, cast(null as bit) as more, cast(null as bigint) as wait_ms,
               cast(null as nvarchar(max)) as floor
         union all select 2, null, null, null
         union all select 3, null, null, null
         union all select 4, @more, @wait_ms, @p_floor where @p_limit > 0) as e
  left join @reported as r on r.Part = e.part
  left join #rows as l on e.part = 3
 where e.part = 4 or r.Outcome is not null or l.request_id is not null
 order by e.part, r.Place, l.place;
