-- workers: a view of the workers, with their load and their last heartbeat.
-- params:   none
create or alter view rowlease.Workers as
select w.WorkerId, w.Host, w.Pid, w.Version, w.QueueNames, w.Kinds, w.Slots, w.Busy,
       w.ConsumerPriority, w.StartedTime, w.HeartbeatTime,
       cast(case when w.HeartbeatTime > dateadd(second, -30, n.Now) then 1 else 0 end as bit) as Alive,
       datediff_big(millisecond, w.HeartbeatTime, n.Now) / 1000 as SilentSeconds
  from (select rowlease.now() as Now) as n
 cross join rowlease.Worker as w;
