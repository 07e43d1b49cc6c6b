-- first_floor: start a scan floor at the first waiting request of a queue, which a claim has just found.
-- params:   p_queue_name text, p_now timestamptz, p_max_priority smallint, p_is_plain boolean,
--           p_priority smallint, p_time timestamptz, p_id bigint (of that request; null: none waits)
-- returns:  text -- a floor as dequeue returns it; '{}' if p_is_plain is not true
-- errors:   none
-- locks:    none
-- why:      without it, the next two scans would step over the same entries again. The floor has no
--           'proven' time yet, so it is dropped after a second, as every floor (floor_in_force). A
--           queue that is not plain may have requests that are due or have expired, for which
--           keep_floor must look.
create or replace function rowlease_internal.first_floor(
  p_queue_name text, p_now timestamptz, p_max_priority smallint, p_is_plain boolean,
  p_priority smallint, p_time timestamptz, p_id bigint
) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_moved timestamptz := p_now - interval '50 ms';  -- enqueues may be about to commit
begin
  if p_is_plain is not true then
    return '{}';
  end if;
  return jsonb_build_object(
    'born', p_now, 'xid', pg_current_xact_id(),
    'queues', jsonb_build_object(p_queue_name, (
      select jsonb_build_object(
               'moved', v_moved, 'full', p_now,
               'times', jsonb_agg(case when f.place < 0 then '-infinity'
                                       when f.place = 0 then least(p_time, v_moved)
                                       else v_moved end order by f.priority),
               'ids', jsonb_agg(case when f.place = 0 and p_time < v_moved then p_id else 0 end
                                order by f.priority))
        from (select p as priority, coalesce(p - p_priority, 1) as place
                from generate_series(0, p_max_priority) p) f)));
end $$;
