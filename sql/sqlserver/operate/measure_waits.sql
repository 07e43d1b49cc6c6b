-- measure_waits: measure how long completed requests have waited and run, for each queue and for all.
-- params:   p_within_ms bigint (only requests completed within this time), p_look int (the maximum
--           number of requests to read)
create or alter procedure rowlease.measure_waits @p_within_ms bigint = 60000, @p_look int = 2000
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @since datetime2(6) = dateadd(millisecond, -@p_within_ms % 1000,
                                      dateadd(second, -@p_within_ms / 1000, rowlease.now()));
with Sampled as (
  select top (@p_look) h.QueueName, datediff_big(millisecond, h.DueTime, h.LockedTime) as WaitMs,
         datediff_big(millisecond, h.LockedTime, h.CompletionTime) as RunMs
    from rowlease.QueueHistory as h
   where h.CompletionTime > @since and h.Status = 'Complete'),
Twice as (
  select s.QueueName, s.WaitMs, s.RunMs from Sampled as s
  union all
  select null, s.WaitMs, s.RunMs from Sampled as s),
Placed as (
  select t.QueueName, case when t.WaitMs > 0 then t.WaitMs else 0 end as WaitMs,
         case when t.RunMs > 0 then t.RunMs else 0 end as RunMs,
         count_big(*) over (partition by t.QueueName) as NumRequests,
         row_number() over (partition by t.QueueName order by t.WaitMs) as WaitPlace,
         row_number() over (partition by t.QueueName order by t.RunMs) as RunPlace
    from Twice as t)
select p.QueueName as queue_name, max(p.NumRequests) as num_requests,
       max(case when p.WaitPlace <= (p.NumRequests + 1) / 2 then p.WaitMs end) as wait_p50_ms,
       max(case when p.WaitPlace <= (p.NumRequests * 95 + 99) / 100 then p.WaitMs end) as wait_p95_ms,
       max(case when p.WaitPlace <= (p.NumRequests * 99 + 99) / 100 then p.WaitMs end) as wait_p99_ms,
       max(case when p.RunPlace <= (p.NumRequests + 1) / 2 then p.RunMs end) as run_p50_ms,
       max(case when p.RunPlace <= (p.NumRequests * 95 + 99) / 100 then p.RunMs end) as run_p95_ms,
       max(case when p.RunPlace <= (p.NumRequests * 99 + 99) / 100 then p.RunMs end) as run_p99_ms
  from Placed as p
 group by p.QueueName
 order by case when p.QueueName is null then 0 else 1 end, p.QueueName;
