-- ready: a view of the requests that claims take next: of each queue, the first 1,000.
-- params:   none
-- returns:  queue_name, place (the order in which claims take them; 1 is the next), request_id, kind,
--           priority, due_time, waiting_seconds (since it was due)
-- errors:   none
-- locks:    none
-- why:      it shows the order of the policy strict, and no queue that is paused. The parts of a queue
--           are each read in the order of an index, so the cost does not depend on how many requests
--           wait. Columns of the settings come first, so that a filter on queue_name reads one queue.
create or replace view rowlease.ready as
select r.queue_name, r.place, r.request_id, r.kind, r.priority, r.due_time, r.waiting_seconds
  from (
    select s.queue_name,
           row_number() over (partition by s.queue_name
                              order by w.priority desc, w.due_time, w.request_id) as place,
           w.request_id, w.kind, w.priority, w.due_time,
           trunc(extract(epoch from n.now - w.due_time))::bigint as waiting_seconds
      from (select rowlease.now() as now) n
     cross join rowlease.queue_settings s
     cross join lateral (
       (select q.request_id, q.kind, q.priority, q.due_time from rowlease.queue q
         where q.queue_name = s.queue_name and q.status = 'Pending' and not q.group_blocked
           and not q.returned
         order by q.priority desc, q.due_time, q.request_id limit 1000)
       union all
       (select q.request_id, q.kind, q.priority, q.due_time from rowlease.queue q
         where q.queue_name = s.queue_name and q.status = 'Pending' and not q.group_blocked
           and q.returned
         order by q.priority desc, q.due_time, q.request_id limit 1000)
       union all
       (select q.request_id, q.kind, q.priority, q.due_time from rowlease.queue q
         where q.queue_name = s.queue_name and q.status = 'Scheduled' and q.due_time <= n.now
           and not q.group_blocked
         order by q.due_time limit 1000)
       union all
       (select f.request_id, f.kind, f.priority, l.promoted_time
          from rowlease.load l
         cross join lateral (
           select r.request_id, r.kind, p.priority
             from rowlease.lane_part p
            cross join lateral (
              select r.request_id, r.kind from rowlease.lane r
               where r.run_number = p.run_number and r.writer = p.writer
                 and r.priority = p.priority and r.part = p.part
                 and r.request_id between p.first_id and p.last_id
               order by r.request_id limit 1000) r
            where p.run_number = l.run_number
            order by p.priority desc, p.part limit 1000) f
         where l.queue_name = s.queue_name and l.in_lane)) w
     where not s.paused) r
 where r.place <= 1000;
