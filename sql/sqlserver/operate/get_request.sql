-- get_request: show one request.
-- params:   p_request_id bigint
-- why:      it reads by key, so a program may call it repeatedly until a request is finished.
create or alter procedure rowlease.get_request @p_request_id bigint
as
set nocount on;
set xact_abort on;
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
         where p.RequestId = r.RequestId and p.LockToken = r.LockToken and r.Status = 'Processing') as progress_note
  from rowlease.Requests as r
 where r.RequestId = @p_request_id;
