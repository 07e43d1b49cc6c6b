-- next_event_ahead: find when the next request is due or the next lease expires, with the help of floors.
-- params:   p_queue_names text[], p_floor jsonb
-- returns:  at timestamptz -- null if nothing is to come, floor jsonb -- with 'expiring': no lease
--           expires before that
-- errors:   none
-- locks:    none
-- why:      tells a worker that found nothing how long it may sleep. The leases of requests that were
--           finished in time end in the future, so under an old snapshot their index entries are ahead;
--           'expiring' skips them. A shorter lease that is taken meanwhile is seen a second later.
create or replace function rowlease_internal.next_event_ahead(
  p_queue_names text[], p_floor jsonb, out at timestamptz, out floor jsonb
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
    at := least(at, v_due, v_expires);
  end loop;
end $$;
