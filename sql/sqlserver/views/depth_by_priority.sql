-- depth_by_priority: a view of how many requests wait, run or have failed, per queue and priority.
-- params:   none
create or alter view rowlease.DepthByPriority as
select d.QueueName, d.Priority, sum(d.Scheduled) as Scheduled, sum(d.Pending) as Pending,
       sum(d.Processing) as Processing, sum(d.Failed) as Failed
  from rowlease.QueueDepth as d
 group by d.QueueName, d.Priority
having sum(d.Scheduled) <> 0 or sum(d.Pending) <> 0 or sum(d.Processing) <> 0
    or sum(d.Failed) <> 0;
