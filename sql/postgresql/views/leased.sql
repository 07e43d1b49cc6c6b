-- leased: a view of the leases: which worker holds which request, and for how long.
-- params:   none
-- returns:  queue_name, request_id, kind, priority, locked_by, locked_time, started_time,
--           lock_expires_time, left_seconds (until the lease ends; below 0 if it ran out),
--           num_attempts, max_attempts, cancel_requested
-- errors:   none
-- locks:    none
-- why:      of each queue it shows the 10,000 leases that end first, which an index has in this order.
--           So its cost is bounded; depth_by_priority counts all.
create or replace view rowlease.leased as
select q.queue_name, q.request_id, q.kind, q.priority, q.locked_by, q.locked_time, q.started_time,
       q.lock_expires_time,
       trunc(extract(epoch from q.lock_expires_time - n.now))::bigint as left_seconds,
       q.num_attempts, q.max_attempts, q.cancel_requested
  from (select rowlease.now() as now) n
 cross join rowlease.queue_settings s
 cross join lateral (
   select e.queue_name, e.request_id, e.kind, e.priority, e.locked_by, e.locked_time, e.started_time,
          e.lock_expires_time, e.num_attempts, e.max_attempts, e.cancel_requested
     from rowlease.queue e
    where e.queue_name = s.queue_name and e.status = 'Processing'
    order by e.lock_expires_time limit 10000) q;
