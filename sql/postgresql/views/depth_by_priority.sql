-- depth_by_priority: a view of how many requests wait, run or have failed, per queue and priority.
-- params:   none
-- returns:  queue_name, priority, scheduled (requests that are not due yet), pending (requests that
--           wait), processing (requests that run), failed (dead letters)
-- errors:   none
-- locks:    none
-- why:      it adds up the counts that the routines have appended, as depth does, and reads no request.
create or replace view rowlease.depth_by_priority as
select d.queue_name, d.priority, sum(d.scheduled)::bigint as scheduled,
       sum(d.pending)::bigint as pending, sum(d.processing)::bigint as processing,
       sum(d.failed)::bigint as failed
  from rowlease.queue_depth d
 group by d.queue_name, d.priority
having sum(d.scheduled) <> 0 or sum(d.pending) <> 0 or sum(d.processing) <> 0
    or sum(d.failed) <> 0;
