-- ready: a view of the requests that claims take next: of each queue, the first 1,000.
-- params:   none
create or alter view rowlease.Ready as
select r.QueueName, r.Place, r.RequestId, r.Kind, r.Priority, r.DueTime, r.WaitingSeconds
  from (
    select s.QueueName,
           row_number() over (partition by s.QueueName
                              order by w.Priority desc, w.DueTime, w.RequestId) as Place,
           w.RequestId, w.Kind, w.Priority, w.DueTime,
           datediff_big(millisecond, w.DueTime, n.Now) / 1000 as WaitingSeconds
      from (select rowlease.now() as Now) as n
     cross join rowlease.QueueSettings as s
     cross apply (
       select p.RequestId, p.Kind, p.Priority, p.DueTime
         from (select top (1000) q.RequestId, q.Kind, q.Priority, q.DueTime from rowlease.Queue as q
                where q.QueueName = s.QueueName and q.Status = 'Pending' and q.GroupBlocked = 0
                order by q.Priority desc, q.DueTime, q.RequestId) as p
       union all
       select d.RequestId, d.Kind, d.Priority, d.DueTime
         from (select top (1000) q.RequestId, q.Kind, q.Priority, q.DueTime from rowlease.Queue as q
                where q.QueueName = s.QueueName and q.Status = 'Scheduled' and q.DueTime <= n.Now
                  and q.GroupBlocked = 0
                order by q.DueTime) as d
       union all
       select f.RequestId, f.Kind, f.Priority, l.PromotedTime
         from rowlease.[Load] as l
        cross apply (
          select top (1000) r.RequestId, r.Kind, p.Priority
            from rowlease.LanePart as p
           cross apply (select top (1000) a.RequestId, a.Kind from rowlease.Lane as a
                         where a.RunNumber = p.RunNumber and a.Priority = p.Priority
                           and a.Part = p.Part
                         order by a.RequestId) as r
           where p.RunNumber = l.RunNumber
           order by p.Priority desc, p.Part) as f
        where l.QueueName = s.QueueName and l.InLane = 1) as w
     where s.Paused = 0) as r
 where r.Place <= 1000;
