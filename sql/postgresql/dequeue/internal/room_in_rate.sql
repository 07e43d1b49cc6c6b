-- room_in_rate: compute how many requests may start now, and when the next one may.
-- params:   p_queue_name text, p_rate_key text (empty: the queue; else a colon and the group),
--           p_rate text (the setting, such as 100/1m), p_now timestamptz
-- returns:  room integer -- 0 or more; next_start timestamptz -- when the oldest start leaves the
--           period; null if there was no start in it
-- errors:   none
-- locks:    none -- dequeue has taken the gate of the queue
-- why:      rows are numbered in the order of their times, so the starts of a period are the
--           difference of two rows, the first and the last of the period: two probes of an index, for
--           any rate. A start is a claim.
create or replace function rowlease_internal.room_in_rate(
  p_queue_name text, p_rate_key text, p_rate text, p_now timestamptz,
  out room integer, out next_start timestamptz
) language plpgsql stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
declare
  v_period interval := split_part(p_rate, '/', 2);
  v_before bigint;
begin
  room := split_part(p_rate, '/', 1);
  select r.total - r.num_starts, r.started_time + v_period into v_before, next_start
    from rowlease.rate_start r
   where r.queue_name = p_queue_name and r.rate_key = p_rate_key
     and r.started_time > p_now - v_period
   order by r.started_time, r.total limit 1;
  if found then
    room := greatest(0, room + v_before - (
      select r.total from rowlease.rate_start r
       where r.queue_name = p_queue_name and r.rate_key = p_rate_key
       order by r.started_time desc, r.total desc limit 1));
  end if;
end $$;
