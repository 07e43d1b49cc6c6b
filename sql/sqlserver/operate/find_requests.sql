-- find_requests: find requests, newest first, in steps of bounded cost.
-- params:   p_filter nvarchar(max) (JSON: queue, status: an array, kind, error: a part of last_error in
--           any case, dedup_key, group_key, load_id, worker: its id, host or host:pid, ids: an array of
--           at most 10,000, min_priority, max_priority, min_age_ms, max_age_ms: since the enqueue,
--           since, until: times of the enqueue, in UTC), p_after bigint (look below this
--           id), p_limit int (how many to return), p_look int (how many to look at)
create or alter procedure rowlease.find_requests
  @p_filter nvarchar(max) = N'{}', @p_after bigint = null, @p_limit int = 100, @p_look int = 10000
as
set nocount on;
set xact_abort on;
declare @now datetime2(6) = rowlease.now(), @next bigint, @found xml;
set @p_filter = coalesce(@p_filter, N'{}');
exec rowlease_internal.check_filter @p_filter;
exec rowlease_internal.find_ids @p_filter, @now, @p_after, @p_limit, @p_look, @found output, @next output;
select r.RequestId as request_id, r.QueueName as queue_name, r.Kind as kind, r.Status as status,
       cast(r.Priority as int) as priority, r.DueTime as due_time, r.DedupKey as dedup_key,
       r.GroupKey as group_key, r.NumAttempts as num_attempts, r.Payload as payload,
       r.LastError as last_error, r.Result as result, r.MaxAttempts as max_attempts,
       r.RequestedTime as requested_time, r.LockedBy as locked_by, r.LockedTime as locked_time,
       r.CompletionTime as completion_time, r.LoadId as load_id, r.Headers as headers,
       (select o.RequeuedFrom from rowlease.Requeued as o where o.RequestId = r.RequestId) as requeued_from,
       (select a.AttemptNumber as attempt_number, a.WorkerId as worker_id,
               a.StartedTime as started_time, a.EndedTime as ended_time, a.Outcome as outcome,
               a.Error as error, a.ErrorType as error_type, a.Traceback as traceback
          from rowlease.Attempt as a where a.RequestId = r.RequestId
         order by a.LockToken for json path) as attempts,
       (select c.AskedTime from rowlease.Cancellation as c where c.RequestId = r.RequestId) as cancel_time,
       (select c.AskedBy from rowlease.Cancellation as c where c.RequestId = r.RequestId) as cancelled_by,
       (select p.Fraction from rowlease.Progress as p
         where p.RequestId = r.RequestId and p.LockToken = r.LockToken and r.Status = 'Processing') as progress,
       (select p.Note from rowlease.Progress as p
         where p.RequestId = r.RequestId and p.LockToken = r.LockToken and r.Status = 'Processing') as progress_note,
       e.after
  from (select cast(null as bigint) as after, 0 as is_last union all select @next, 1) as e
  left join openjson(cast(@found as nvarchar(max))) as f on e.is_last = 0
  left join rowlease.Requests as r on r.RequestId = cast(f.value as bigint)
 where e.is_last = 1 or r.RequestId is not null
 order by e.is_last, r.RequestId desc;
