-- list_kinds: list what became of the requests of each kind, of those that were enqueued last.
-- params:   p_look int (how many finished requests to read), p_limit int (how many kinds)
create or alter procedure rowlease.list_kinds @p_look int = 10000, @p_limit int = 100
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @first bigint, @look int;
declare @seen table (
  Kind nvarchar(200) collate Latin1_General_100_BIN2 not null, Status varchar(10) not null,
  NumAttempts int not null, WaitMs bigint null, RunMs bigint null, RequestId bigint not null);
insert into @seen (Kind, Status, NumAttempts, WaitMs, RunMs, RequestId)
select top (@p_look) h.Kind, h.Status, h.NumAttempts,
       case when h.LockedTime > h.DueTime then datediff_big(millisecond, h.DueTime, h.LockedTime)
            else 0 end,
       case when h.CompletionTime > h.LockedTime
            then datediff_big(millisecond, h.LockedTime, h.CompletionTime) else 0 end, h.RequestId
  from rowlease.QueueHistory as h order by h.RequestId desc;
select @first = case when count(*) = @p_look then min(s.RequestId) else 0 end from @seen as s;
select @look = case when @p_look / count(*) > 100 then @p_look / count(*) else 100 end
  from rowlease.QueueSettings as s having count(*) > 0;
insert into @seen (Kind, Status, NumAttempts, RequestId)
select l.Kind, 'Failed', l.NumAttempts, l.RequestId
  from rowlease.QueueSettings as s
 cross apply (
   select top (@look) q.Kind, q.NumAttempts, q.RequestId from rowlease.Queue as q
    where q.QueueName = s.QueueName and q.Status = 'Failed' and q.RequestId >= @first
    order by q.RequestId desc) as l;
with Placed as (
  select s.Kind, s.Status, s.NumAttempts, s.WaitMs, s.RunMs,
         count_big(*) over (partition by s.Kind, s.Status) as NumRequests,
         row_number() over (partition by s.Kind, s.Status order by s.WaitMs) as WaitPlace,
         row_number() over (partition by s.Kind, s.Status order by s.RunMs) as RunPlace
    from @seen as s),
Completed as (
  select p.Kind,
         max(case when p.WaitPlace <= (p.NumRequests + 1) / 2 then p.WaitMs end) as WaitMs,
         max(case when p.RunPlace <= (p.NumRequests + 1) / 2 then p.RunMs end) as RunMs,
         max(case when p.RunPlace <= (p.NumRequests * 95 + 99) / 100 then p.RunMs end) as LongMs
    from Placed as p where p.Status = 'Complete' group by p.Kind),
Counted as (
  select s.Kind, count_big(*) as NumRequests, sum(cast(s.NumAttempts as bigint)) as NumAttempts,
         sum(cast(case when s.Status = 'Complete' then 1 else 0 end as bigint)) as NumComplete,
         sum(cast(case when s.Status = 'Cancelled' then 1 else 0 end as bigint)) as NumCancelled,
         sum(cast(case when s.Status = 'Failed' then 1 else 0 end as bigint)) as NumFailed
    from @seen as s group by s.Kind)
select top (@p_limit) c.Kind as kind, c.NumComplete as num_complete, c.NumCancelled as num_cancelled,
       c.NumFailed as num_failed, c.NumAttempts - c.NumComplete as num_failures,
       t.WaitMs as wait_p50_ms, t.RunMs as run_p50_ms, t.LongMs as run_p95_ms
  from Counted as c
  left join Completed as t on t.Kind = c.Kind
 order by c.NumRequests desc, c.Kind;
