-- schedules: a view of the schedules, with the next firing of each and the status of its last request.
-- params:   none
-- returns:  schedule_name, cron, time_zone, queue_name, kind, priority, paused, next_time, left_seconds
--           (until next_time; below 0 if it is late), last_time, last_request_id, last_status (the
--           status of that request; null: it was purged, or there is none)
-- errors:   none
-- locks:    none
-- why:      it finds the last request of each schedule by its id.
create or replace view rowlease.schedules as
select s.schedule_name, s.cron, s.time_zone, s.queue_name, s.kind, s.priority, s.paused, s.next_time,
       trunc(extract(epoch from s.next_time - n.now))::bigint as left_seconds,
       s.last_time, s.last_request_id,
       coalesce((select q.status from rowlease.queue q where q.request_id = s.last_request_id),
                (select h.status from rowlease.queue_history h
                  where h.request_id = s.last_request_id limit 1)) as last_status
  from (select rowlease.now() as now) n
 cross join rowlease.schedule s;
