-- overdue: a view of the leases that ran out and that no claim has broken yet.
-- params:   none
-- returns:  queue_name, request_id, kind, locked_by, lock_expires_time, overdue_seconds (since the
--           lease ran out), heartbeat_time (of that worker; null: it is not registered)
-- errors:   none
-- locks:    none
-- why:      claims and maintain break such a lease within seconds. A row that stays means that no
--           worker calls maintain, or that another session has locked the request: see explain. It
--           reads at most 10,000 leases of each queue, by the index of leases.
create or replace view rowlease.overdue as
select q.queue_name, q.request_id, q.kind, q.locked_by, q.lock_expires_time,
       trunc(extract(epoch from n.now - q.lock_expires_time))::bigint as overdue_seconds,
       w.heartbeat_time
  from (select rowlease.now() as now) n
 cross join rowlease.queue_settings s
 cross join lateral (
   select e.queue_name, e.request_id, e.kind, e.locked_by, e.lock_expires_time from rowlease.queue e
    where e.queue_name = s.queue_name and e.status = 'Processing' and e.lock_expires_time <= n.now
    order by e.lock_expires_time limit 10000) q
  left join rowlease.worker w on w.worker_id = q.locked_by;
