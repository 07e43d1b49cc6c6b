-- workers: a view of the workers, with their load and their last heartbeat.
-- params:   none
-- returns:  worker_id, host, pid, version, queue_names, kinds, slots, busy, consumer_priority,
--           started_time, heartbeat_time, alive (a heartbeat within 30 s), silent_seconds (since the
--           last heartbeat)
-- errors:   none
-- locks:    none
-- why:      there are few workers. One that was killed stays in the list for an hour.
create or replace view rowlease.workers as
select w.worker_id, w.host, w.pid, w.version, w.queue_names, w.kinds, w.slots, w.busy,
       w.consumer_priority, w.started_time, w.heartbeat_time,
       w.heartbeat_time > n.now - interval '30 seconds' as alive,
       trunc(extract(epoch from n.now - w.heartbeat_time))::bigint as silent_seconds
  from (select rowlease.now() as now) n
 cross join rowlease.worker w;
