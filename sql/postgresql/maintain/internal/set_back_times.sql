-- set_back_times: set back times that are in the future because the clock was set back.
-- params:   p_now timestamptz
-- returns:  bigint -- how many rows were changed
-- errors:   none
-- locks:    rows of worker, queue_waiter and rate_start, skipping locked ones; as end_delays
-- why:      a step of maintain. A worker that is dead would seem alive, a producer that is gone would keep
--           its place in line, and a queue with a rate would start nothing, until the clock has caught
--           up. Sessions read the clock at different moments, so 10 s are allowed. What started before
--           the step does not count any more.
create or replace function rowlease_internal.set_back_times(p_now timestamptz) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off
as $$
declare
  v_latest timestamptz := p_now + interval '10 seconds';
  v_count  bigint := 0;
  v_rows   bigint;
  v_queue  text;
begin
  update rowlease.worker w set heartbeat_time = p_now
   where w.worker_id = any(array(select o.worker_id from rowlease.worker o
                                  where o.heartbeat_time > v_latest for update skip locked));
  get diagnostics v_count = row_count;
  update rowlease.queue_waiter w set expires_time = p_now + interval '2 seconds'
   where w.waiter_id = any(array(select o.waiter_id from rowlease.queue_waiter o
                                  where o.expires_time > v_latest for update skip locked));
  get diagnostics v_rows = row_count;
  v_count := v_count + v_rows;
  for v_queue in select distinct r.queue_name from rowlease.rate_start r
                  where r.started_time > v_latest loop
    perform rowlease_internal.end_delays(v_queue);
    delete from rowlease.rate_start r
     where r.ctid = any(array(select o.ctid from rowlease.rate_start o
                               where o.queue_name = v_queue and o.started_time > v_latest
                                 for update skip locked));
    get diagnostics v_rows = row_count;
    v_count := v_count + v_rows;
  end loop;
  return v_count;
end $$;
