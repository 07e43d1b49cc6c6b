-- bring_in: move requests from the lane into queue, where they wait as before.
-- params:   p_rows tid[] -- of the lane, locked by the caller
-- returns:  void
-- errors:   none
-- locks:    none
-- why:      operate and a lowered maximum work on queue alone, and first move the requests that they
--           need there. A floor of a claimer may be above these requests, so they are marked as
--           returned. Their depth stays as it is. Only rows of promoted loads are requests.
create or replace function rowlease_internal.bring_in(p_rows tid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
  with gone as (
    delete from rowlease.lane r using rowlease.load l
     where r.ctid = any(p_rows) and l.run_number = r.run_number and l.in_lane
    returning r.*, l.queue_name, l.load_id, l.promoted_time, l.max_attempts)
  insert into rowlease.queue (
    request_id, queue_name, kind, status, priority, requested_time, due_time, max_attempts,
    returned, load_id, payload, headers)
  overriding system value
  select g.request_id, g.queue_name, g.kind, 'Pending', g.priority, g.promoted_time,
         g.promoted_time, g.max_attempts, true, g.load_id, g.payload, g.headers
    from gone g;
end $$;
