-- note_starts: record the starts of a claim from a queue with a rate.
-- params:   p_queue_name nvarchar(400), p_rate nvarchar(30), p_group_rate nvarchar(30),
--           p_request_ids nvarchar(max)
-- returns:  nothing
-- why:      a row has its starts and all starts before it, so that room_in_rate reads two rows. Times
--           never go back within a key, also if the clock does. A claim takes one request of a group
--           at most. A start counts from the write of its row, as its lease does, so the clock is read here.
create or alter procedure rowlease_internal.note_starts
  @p_queue_name nvarchar(400), @p_rate nvarchar(30), @p_group_rate nvarchar(30),
  @p_request_ids nvarchar(max)
as
set nocount on;
set xact_abort on;
declare @now datetime2(6) = rowlease.now();
declare @new table (RateKey nvarchar(201) collate Latin1_General_100_BIN2 not null primary key,
                    NumStarts int not null, PeriodMs bigint not null);
insert into @new (RateKey, NumStarts, PeriodMs)
select N'', count(*), max(r.period_ms)
  from openjson(@p_request_ids) as i cross join rowlease_internal.rate_parts(@p_rate) as r
having count(*) > 0;
insert into @new (RateKey, NumStarts, PeriodMs)
select N':' + q.GroupKey, count(*), max(r.period_ms)
  from openjson(@p_request_ids) as i
 cross join rowlease_internal.rate_parts(@p_group_rate) as r
 inner join rowlease.Queue as q with (index (queue_pkey), forceseek) on q.RequestId = cast(i.value as bigint)
 where q.GroupKey is not null
 group by q.GroupKey
option (loop join, force order, maxdop 1);
insert into rowlease.RateStart (QueueName, RateKey, StartedTime, Total, NumStarts, ExpiresTime)
select @p_queue_name, n.RateKey, t.StartedTime, coalesce(l.Total, 0) + n.NumStarts, n.NumStarts,
       rowlease_internal.add_ms(t.StartedTime, n.PeriodMs)
  from @new as n
 outer apply (
   select top (1) s.StartedTime, s.Total
     from rowlease.RateStart as s with (forceseek (rate_start_pkey (QueueName, RateKey)))
    where s.QueueName = @p_queue_name and s.RateKey = n.RateKey
    order by s.StartedTime desc, s.Total desc) as l
 cross apply (select case when l.StartedTime > @now then l.StartedTime else @now end
                as StartedTime) as t;
