-- list_workers: list every registered worker, by host and process.
-- params:   none
create or alter procedure rowlease.list_workers
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6) = rowlease.now();
select w.WorkerId as worker_id, w.Host as host, w.Pid as pid, w.Version as version,
       w.QueueNames as queue_names, w.Slots as slots, w.Busy as busy,
       w.ConsumerPriority as consumer_priority, w.StartedTime as started_time,
       case when w.HeartbeatTime < @now then datediff_big(microsecond, w.HeartbeatTime, @now) / 1000
            else 0 end as silent_ms
  from rowlease.Worker as w order by w.Host, w.Pid, w.WorkerId;
