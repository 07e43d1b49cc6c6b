-- leased: a view of the leases: which worker holds which request, and for how long.
-- params:   none
-- returns:  queue_name, request_id, kind, priority, locked_by, locked_time, started_time,
--           lock_expires_time, left_seconds (until the lease ends; below 0 if it ran out),
--           num_attempts, max_attempts, cancel_requested
-- errors:   none
-- locks:    none
-- why:      it reads every lease by an index: as many as workers have slots and prefetch. list_leases
--           reads only those that end first.
create or replace view rowlease.leased as
select q.queue_name, q.request_id, q.kind, q.priority, q.locked_by, q.locked_time, q.started_time,
       q.lock_expires_time,
       trunc(extract(epoch from q.lock_expires_time - n.now))::bigint as left_seconds,
       q.num_attempts, q.max_attempts, q.cancel_requested
  from (select rowlease.now() as now) n
 cross join rowlease.queue q
 where q.status = 'Processing';
