-- next_event_ahead: find the next due time of a request or the next expiry of a lease, with the help of floors.
-- params:   p_queue_names text[], p_floor jsonb
-- returns:  at timestamptz -- null if there is none in queues that are not paused, floor jsonb -- with 'expiring': no lease
--           expires before this time
-- errors:   none
-- locks:    none
-- why:      a worker that found nothing may sleep until this time. When a request is finished in
--           time, the expiry of its lease is in the future, so under an old snapshot its index
--           entry is ahead of the scan; 'expiring' skips such entries. A shorter lease taken
--           meanwhile is noticed a second later.
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
    continue when (select s.paused from rowlease.queue_settings s where s.queue_name = v_queue);
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
