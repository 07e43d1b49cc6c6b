-- metrics: measure the figures that no other routine returns, for the exporter.
-- params:   none
-- returns:  metric text -- 'demand' | 'overdue_leases' | 'queue_capacity' | 'schedule_late_seconds' |
--           'staging_loads' | 'load_silent_seconds', subject text (the queue or the schedule), value float
-- errors:   51012 as take_lock
-- locks:    the counts' lock, shared, while they are read
create or alter procedure rowlease.metrics
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6) = rowlease.now(), @demand xml;
exec rowlease_internal.demand_by_queue null, @demand output;
select m.metric, m.subject, m.value
  from (
    select cast(v.metric as varchar(30)) as metric,
           cast(d.queue_name as nvarchar(200)) collate Latin1_General_100_BIN2 as subject, v.value
      from openjson(cast(@demand as nvarchar(max)))
           with (queue_name nvarchar(100), demand float, overdue float) as d
     cross apply (values ('demand', d.demand), ('overdue_leases', d.overdue)) as v (metric, value)
    union all
    select cast('queue_capacity' as varchar(30)), cast(s.QueueName as nvarchar(200)),
           cast(s.Capacity as float)
      from rowlease.QueueSettings as s where s.Capacity is not null
    union all
    select cast('schedule_late_seconds' as varchar(30)), cast(s.ScheduleName as nvarchar(200)),
           case when s.NextTime < @now
                then cast(datediff_big(microsecond, s.NextTime, @now) as float) / 1000000 else 0 end
      from rowlease.Schedule as s where s.Paused = 0 and s.NextTime is not null
    union all
    select cast('staging_loads' as varchar(30)), cast(coalesce(l.QueueName, N'') as nvarchar(200)),
           cast(count(*) as float)
      from rowlease.[Load] as l where l.Status = 'Staging' group by l.QueueName
    union all
    select cast('load_silent_seconds' as varchar(30)),
           cast(coalesce(l.QueueName, N'') as nvarchar(200)),
           case when min(l.ReportedTime) < @now
                then cast(datediff_big(microsecond, min(l.ReportedTime), @now) as float) / 1000000
                else 0 end
      from rowlease.[Load] as l where l.Status = 'Staging' group by l.QueueName) as m;
