-- overdue: a view of the leases that ran out and that no claim has broken yet.
-- params:   none
-- returns:  queue_name, request_id, kind, locked_by, lock_expires_time, overdue_seconds (since the
--           lease ran out), heartbeat_time (of that worker; null: it is not registered)
-- errors:   none
-- locks:    none
-- why:      claims and maintain break such a lease within seconds. A row that stays means that no
--           worker calls maintain, or that another session has locked the request: see explain. It
--           reads the index of the leases.
create or replace view rowlease.overdue as
select q.queue_name, q.request_id, q.kind, q.locked_by, q.lock_expires_time,
       trunc(extract(epoch from n.now - q.lock_expires_time))::bigint as overdue_seconds,
       w.heartbeat_time
  from (select rowlease.now() as now) n
 cross join rowlease.queue q
  left join rowlease.worker w on w.worker_id = q.locked_by
 where q.status = 'Processing' and q.lock_expires_time <= n.now;
