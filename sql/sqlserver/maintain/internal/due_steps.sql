-- due_steps: find the steps of maintain for which there are rows.
-- params:   p_now datetime2(6)
-- returns:  step int, queue_name nvarchar(100) (empty: the step is for all queues)
-- errors:   none
-- locks:    none; rows that others have locked are skipped
-- why:      each step is one probe of an index, or of a table that is short where nothing is to be
--           done. The conditions are those of the steps; what a locked row needs is done by a later
--           call. Counts are to be folded if two rows could be one, or one is of a batch.
create or alter function rowlease_internal.due_steps(@p_now datetime2(6)) returns table
as
return
  select 0 as step, s.QueueName as queue_name from rowlease.QueueSettings as s with (readpast, readcommittedlock)
   where exists (
     select 1 from rowlease.Queue as q with (forceseek (queue_expiring (QueueName)), readpast, readcommittedlock)
      where q.QueueName = s.QueueName and q.Status = 'Processing' and q.LockExpiresTime <= @p_now)
  union all
  select 1, s.QueueName from rowlease.QueueSettings as s with (readpast, readcommittedlock)
   where exists (
     select 1 from rowlease.Queue as q with (forceseek (queue_scheduled (QueueName)), readpast, readcommittedlock)
      where q.QueueName = s.QueueName and q.Status = 'Scheduled' and q.DueTime <= @p_now)
  union all
  select x.step, N''
    from (select dateadd(day, -max(s.RetentionDays), @p_now) as kept, dateadd(day, -1, @p_now) as day_ago,
                 dateadd(second, 10, @p_now) as latest
            from rowlease.QueueSettings as s with (readpast, readcommittedlock)) as t
   cross apply (
     select 2 as step where exists (
       select 1 from rowlease.EnqueueReceipt as r
         with (forceseek (enqueue_receipt_received (ReceivedTime)), readpast, readcommittedlock)
        where r.ReceivedTime < t.day_ago)
     union all
     select case when w.HeartbeatTime > @p_now then 15 else 3 end
       from rowlease.Worker as w with (readpast, readcommittedlock)
      where w.HeartbeatTime > t.latest or w.HeartbeatTime < dateadd(hour, -1, @p_now)
     union all
     select 4 where exists (
       select 1 from rowlease.Progress as p with (readpast, readcommittedlock)
        where not exists (
          select 1 from rowlease.Queue as q with (forceseek (queue_pkey (RequestId)), readpast, readcommittedlock)
           where q.RequestId = p.RequestId and q.LockToken = p.LockToken and q.LockedBy is not null))
     union all
     select 5 where exists (
       select 1 from rowlease.Attempt as a with (forceseek (attempt_expiring (ExpiresTime)), readpast, readcommittedlock)
        where a.ExpiresTime <= @p_now)
     union all
     select 6 where exists (select 1 from rowlease_internal.sweepable(t.day_ago, t.kept))
     union all
     select case when w.ExpiresTime > @p_now then 15 else 7 end
       from rowlease.QueueWaiter as w with (readpast, readcommittedlock)
      where w.ExpiresTime > t.latest or w.ExpiresTime < dateadd(minute, -1, @p_now)
     union all
     select 8 where exists (
       select 1 from rowlease.QueueHistory as h
         with (forceseek (queue_history_completed (CompletionTime)), readpast, readcommittedlock)
        where h.CompletionTime < t.kept)
     union all
     select 10 where exists (
       select 1 from rowlease.QueueDepth as d with (readpast, readcommittedlock)
        group by d.QueueName, d.Priority having count(*) > 1 or max(d.LoadId) is not null)
     union all
     select case when r.ExpiresTime <= @p_now then 11 else 15 end
       from (select min(e.ExpiresTime) as ExpiresTime
               from rowlease.RateStart as e
                 with (forceseek (rate_start_expiring (ExpiresTime)), readpast, readcommittedlock)
              where e.ExpiresTime <= dateadd(second, -10, @p_now)
             union all
             select min(e.StartedTime) from rowlease.RateStart as e
               with (forceseek (rate_start_started (StartedTime)), readpast, readcommittedlock)
              where e.StartedTime > t.latest) as r
      where r.ExpiresTime is not null
     union all
     select 12 where exists (
       select 1 from rowlease.Operation as o with (forceseek (operation_last (LastTime)), readpast, readcommittedlock)
        where o.LastTime < dateadd(day, -90, @p_now))
     union all
     select 13 where exists (
       select 1 from rowlease.Batch as b with (forceseek (batch_idle (BatchId)), readpast, readcommittedlock)
        where b.BatchId > N'' and b.NumLive = 0 and b.FinishedTime is null)
     union all
     select 14 where exists (
       select 1 from rowlease.Batch as b with (forceseek (batch_finished (FinishedTime)), readpast, readcommittedlock)
        where b.FinishedTime < t.kept and b.NumLive = 0 and b.NumFailed = 0)
     union all
     select 16 where exists (
       select 1 from rowlease.QueueSettings as s with (readpast, readcommittedlock)
        where not exists (
          select 1 from rowlease.QueueDay as d with (readpast, readcommittedlock)
           where d.QueueName = s.QueueName and d.Day = cast(@p_now as date)))) as x;
