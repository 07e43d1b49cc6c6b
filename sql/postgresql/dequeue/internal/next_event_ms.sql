-- next_event_ms: compute how long to wait until a scheduled request is due or a lease expires.
-- params:   p_queue_names text[], p_now timestamptz, p_floor jsonb
-- returns:  wait_ms bigint -- 0 or more; null if nothing is to come, floor jsonb -- with 'expiring':
--           no lease ran out before that
-- errors:   none
-- locks:    none
-- why:      a worker that found nothing knows how long it may sleep. Requests that were finished in
--           time would have expired in the future: under an old snapshot their entries lie ahead, and
--           'expiring' leads past them. A shorter lease that is taken meanwhile is seen a second later.
create or replace function rowlease_internal.next_event_ms(
  p_queue_names text[], p_now timestamptz, p_floor jsonb, out wait_ms bigint, out floor jsonb
) language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
declare
  v_queue   text;
  v_moved   timestamptz;
  v_due     timestamptz;
  v_expires timestamptz;
  v_next    timestamptz;
begin
  floor := p_floor;
  foreach v_queue in array p_queue_names loop
    v_moved := coalesce((floor #>> array['queues', v_queue, 'moved'])::timestamptz, '-infinity');
    v_due := (select q.due_time from rowlease.queue q
               where q.queue_name = v_queue and q.status = 'Scheduled' and q.due_time >= v_moved
               order by q.due_time limit 1);
    v_moved := coalesce((floor #>> array['queues', v_queue, 'expiring'])::timestamptz, v_moved);
    v_expires := (select q.lock_expires_time from rowlease.queue q
                   where q.queue_name = v_queue and q.status = 'Processing'
                     and q.lock_expires_time >= v_moved
                   order by q.lock_expires_time limit 1);
    if v_expires is not null then
      floor := jsonb_set(floor, array['queues', v_queue, 'expiring'], to_jsonb(v_expires));
    end if;
    v_next := least(v_next, v_due, v_expires);
  end loop;
  wait_ms := case when isfinite(v_next)  -- who sets a time by hand may write 'infinity'
                  then greatest(0, ceil(extract(epoch from v_next - p_now) * 1000)) end;
end $$;
