-- list_workers: list every registered worker, by host and process.
-- params:   none
-- returns:  worker_id text, host text, pid integer, version text, queue_names text (JSON),
--           slots integer, busy integer, consumer_priority integer, started_time timestamptz,
--           silent_ms bigint (since the last heartbeat)
-- errors:   none
-- locks:    none
-- why:      it returns the columns of the table, and the time since the last heartbeat by the
--           database's clock. A worker sends a heartbeat every 5 s; a worker that was killed stays
--           in the list for an hour.
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
