-- keep_floor: restart a queue's scan floor from the positions below which nothing can appear any more.
-- params:   p_settings rowlease.queue_settings, p_now timestamptz, p_proven timestamptz, p_floor jsonb
-- returns:  jsonb -- 'times' and 'ids': for each priority, from 0, the key (due time, request id)
--           below which nothing was waiting just now; 'moved': the same for due times and
--           expiries; 'kept': the values of these three below which nothing will ever appear;
--           'full': when to read everything again
-- errors:   none
-- locks:    none
-- why:      the read takes no locks, so it also sees requests that other sessions have locked: a
--           claim that is rolled back leaves nothing below 'kept'. A row changed by hand, or a clock
--           set back, may leave a request there. So everything is read again every second. If an old
--           snapshot makes this take more than 50 ms, it is done less often, so that it takes 2 % of
--           the time.
create or replace function rowlease_internal.keep_floor(
  p_settings rowlease.queue_settings, p_now timestamptz, p_proven timestamptz, p_floor jsonb
) returns jsonb
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_started timestamptz := clock_timestamp();
  v_full    timestamptz := (p_floor ->> 'full')::timestamptz;
  v_kept    jsonb := case when p_now < v_full then nullif(p_floor -> 'kept', 'null') end;
  v_due     timestamptz;
  v_moved   timestamptz;
  v_proven  timestamptz;
  v_floors  jsonb;
  v_cost    interval;
begin
  v_due := rowlease_internal.next_event(
    p_settings.queue_name, coalesce((v_kept ->> 'moved')::timestamptz, '-infinity'), p_now);
  v_moved := least(v_due, p_now - interval '50 ms');  -- enqueues may be about to commit
  if p_floor = '{}' and p_settings.policy = 'strict' then  -- the first call does not pay for the read below
    return jsonb_build_object(
      'moved', v_moved, 'full', p_now,
      'times', array_fill('-infinity'::timestamptz, array[p_settings.max_priority + 1]),
      'ids', array_fill(0, array[p_settings.max_priority + 1]));
  end if;
  v_proven := least(v_due, p_proven);
  select jsonb_build_object(
           'moved', v_moved,
           'times', array_agg(least(h.due_time, v_moved) order by h.priority),
           'ids', array_agg(case when h.due_time < v_moved then h.request_id else 0 end
                            order by h.priority),
           'kept', case when p_proven is not null then jsonb_build_object(
             'moved', v_proven,
             'times', array_agg(least(h.due_time, v_proven) order by h.priority),
             'ids', array_agg(case when h.due_time < v_proven then h.request_id else 0 end
                              order by h.priority)) end)
    into v_floors
    from (select f.priority, w.due_time, w.request_id
            from (select p as priority,
                         coalesce((v_kept -> 'times' ->> p)::timestamptz, '-infinity') as due_time,
                         coalesce((v_kept -> 'ids' ->> p)::bigint, 0) as request_id
                    from generate_series(0, p_settings.max_priority) as p) f
            left join lateral (
              select q.due_time, q.request_id from rowlease.queue q
               where q.queue_name = p_settings.queue_name and q.priority = f.priority
                 and q.status = 'Pending' and not q.group_blocked and not q.returned
                 and (q.due_time, q.request_id) >= (f.due_time, f.request_id)
               order by q.due_time, q.request_id limit 1) w on true) h;
  if v_kept is null then
    v_cost := clock_timestamp() - v_started;
    v_full := p_now + greatest(interval '1 second',
                               case when v_cost > interval '50 ms' then 50 * v_cost end);
  end if;
  return v_floors || jsonb_build_object('full', v_full);
end $$;
