-- look: read a queue's settings, and test whether it can be claimed from in the plain way now.
-- params:   p_queue_names nvarchar(max), p_place int (of the queue, from 0), p_now datetime2(6)
-- returns:  queue_name nvarchar(400); paused bit, max_priority smallint, lease_ms bigint: settings;
--           is_plain int -- 0: no, or an unknown queue; no row past the last queue
-- locks:    none; rows that others have locked are skipped
-- why:      one probe of each index that shows work for the careful way. SQL Server inlines this
--           function.
create or alter function rowlease_internal.look(
  @p_queue_names nvarchar(max), @p_place int, @p_now datetime2(6)
) returns table
as
return
  select n.queue_name, s.Paused as paused, s.MaxPriority as max_priority,
         1000 * cast(s.LeaseSeconds as bigint) as lease_ms,
         case when s.Policy = 'strict' and s.MaxInFlight is null and s.Rate is null
               and s.ConsumerPriorities = 0
               and not exists (
                 select 1 from rowlease.[Load] as l
                   with (forceseek (load_in_lane (QueueName)), readpast, readcommittedlock)
                  where l.QueueName = s.QueueName and l.InLane = 1)
               and not exists (
                 select 1 from rowlease.Queue as q
                   with (forceseek (queue_group (QueueName)), readpast, readcommittedlock)
                  where q.QueueName = s.QueueName and q.GroupKey is not null and q.Status <> 'Failed')
               and not exists (
                 select 1 from rowlease.Queue as q
                   with (forceseek (queue_pending (QueueName)), readpast, readcommittedlock)
                  where q.QueueName = s.QueueName and q.Status = 'Pending' and q.GroupBlocked = 0
                    and q.Priority > s.MaxPriority)
               and not exists (
                 select 1 from rowlease.Queue as q
                   with (forceseek (queue_scheduled (QueueName)), readpast, readcommittedlock)
                  where q.QueueName = s.QueueName and q.Status = 'Scheduled' and q.DueTime <= @p_now)
               and not exists (
                 select 1 from rowlease.Queue as q
                   with (forceseek (queue_declined (QueueName)), readpast, readcommittedlock)
                  where q.QueueName = s.QueueName and q.Status = 'Scheduled' and q.Returned = 1)
               and not exists (
                 select 1 from rowlease.Queue as q
                   with (forceseek (queue_expiring (QueueName)), readpast, readcommittedlock)
                  where q.QueueName = s.QueueName and q.Status = 'Processing'
                    and q.LockExpiresTime <= @p_now)
              then 1 else 0 end as is_plain
    from (select cast(o.value as nvarchar(400)) collate Latin1_General_100_BIN2 as queue_name
            from openjson(@p_queue_names) as o where cast(o.[key] as int) = @p_place) as n
    left join rowlease.QueueSettings as s
           on s.QueueName = n.queue_name and datalength(rtrim(n.queue_name)) = datalength(n.queue_name);
