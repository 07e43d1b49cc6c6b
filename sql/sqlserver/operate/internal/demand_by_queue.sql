-- demand_by_queue: compute the demand and the overdue leases of queues; a part of demand and metrics.
-- params:   p_queue_name nvarchar(400) (null: every queue), p_demand xml output
-- returns:  p_demand -- a JSON array of objects: queue_name, demand, overdue
-- errors:   51012 as take_lock
-- locks:    the counts' lock, shared, while they are read
-- why:      it adds up counters. It reads the indexes of due and of declined requests only of a queue
--           that has scheduled requests, and the index of leases only of a queue that has leases, and at most 1,000
--           entries of each. Of a queue with a rate, only requests that may start now count.
--           Uncommitted counts are skipped; see sum_depth.
create or alter procedure rowlease_internal.demand_by_queue @p_queue_name nvarchar(400), @p_demand xml output
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6) = rowlease.now();
declare @counts table (
  QueueName nvarchar(100) collate Latin1_General_100_BIN2 not null, Scheduled bigint not null,
  Pending bigint not null, Processing bigint not null);
begin transaction;
exec rowlease_internal.take_lock N'rowlease:depth', 'Shared';
insert into @counts (QueueName, Scheduled, Pending, Processing)
select d.QueueName, sum(d.Scheduled), sum(d.Pending), sum(d.Processing)
  from rowlease.QueueDepth as d with (readpast, readcommittedlock)
 where @p_queue_name is null or d.QueueName = @p_queue_name
 group by d.QueueName;
commit transaction;
set @p_demand = rowlease_internal.as_xml((
  select f.QueueName as queue_name,
         case when f.Wanted > f.MaxInFlight then f.MaxInFlight else f.Wanted end as demand, f.Overdue as overdue
    from (
      select s.QueueName, s.MaxInFlight,
             coalesce(c.Processing, 0)
             + case when s.Paused = 1 then 0
                    when allowed.room < coalesce(c.Pending, 0) + due.Number + declined.Number
                    then allowed.room + firing.Number
                    else coalesce(c.Pending, 0) + due.Number + declined.Number + firing.Number
               end as Wanted,
             expired.Number as Overdue
        from rowlease.QueueSettings as s
        left join @counts as c on c.QueueName = s.QueueName
       cross apply (
         select count(*) as Number
           from (select top (1000) q.RequestId from rowlease.Queue as q with (readpast, readcommittedlock)
                  where c.Scheduled > 0 and q.QueueName = s.QueueName and q.Status = 'Scheduled'
                    and q.DueTime <= @now and q.Returned = 0) as d) as due
       cross apply (
         select count(*) as Number
           from (select top (1000) q.RequestId
                   from rowlease.Queue as q
                     with (forceseek (queue_declined (QueueName)), readpast, readcommittedlock)
                  where c.Scheduled > 0 and q.QueueName = s.QueueName and q.Status = 'Scheduled'
                    and q.Returned = 1) as d) as declined
       cross apply (
         select count(*) as Number
           from (select top (1000) q.RequestId from rowlease.Queue as q with (readpast, readcommittedlock)
                  where c.Processing > 0 and q.QueueName = s.QueueName and q.Status = 'Processing'
                    and q.LockExpiresTime <= @now) as e) as expired
       cross apply (
         select count(*) as Number from rowlease.Schedule as h
          where h.QueueName = s.QueueName and h.Paused = 0
            and coalesce(h.NextTime, @now) <= @now) as firing
       outer apply (
         select r.room from rowlease_internal.room_in_rate(s.QueueName, N'', s.Rate, @now) as r
          where s.Rate is not null) as allowed
       where @p_queue_name is null or s.QueueName = @p_queue_name) as f
     for json path));
