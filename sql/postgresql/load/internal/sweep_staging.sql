-- sweep_staging: delete staged rows that will never be promoted, and old loads of streams.
-- params:   p_now timestamptz, p_limit integer -- how many loads, and rows of each run
-- returns:  bigint -- how many rows were dropped
-- errors:   none
-- locks:    rows of load, and of staging, skipping locked ones
-- why:      a run is in the ledger before its rows are staged. So staged rows without a run there
--           belong to a load that is promoted, that another run has taken over, or that had no report
--           for a day (then its id is free again). A batch of a stream is a load, which is deleted
--           after the retention of the history, because the table stream keeps what the stream has
--           enqueued. Other loads are kept for ever: a driver may run again at any time. Runs are
--           looked up in their index, one step each, without reading the rows. While a snapshot is held open, dead entries of promoted
--           runs slow this down: then it runs less often, as in keep_floor.
create or replace function rowlease_internal.sweep_staging(p_now timestamptz, p_limit integer) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_run     bigint := -1;
  v_id      text;
  v_rows    bigint;
  v_dropped bigint := 0;
  v_started timestamptz;
  v_cost    interval := '0';
begin
  if clock_timestamp() < nullif(current_setting('rowlease.sweep_after', true), '')::timestamptz then
    return 0;
  end if;
  delete from rowlease.load l
   where l.load_id = any(array(select o.load_id from rowlease.load o
                                where o.status <> 'Promoted'
                                  and o.reported_time < p_now - interval '1 day'
                                limit p_limit for update skip locked));
  delete from rowlease.load l
   where l.load_id = any(array(
           select o.load_id from rowlease.load o
            where o.stream_name is not null and not o.in_lane and o.promoted_time
                  < p_now - (select max(s.retention_days) from rowlease.queue_settings s) * interval '1 day'
            limit p_limit for update skip locked));
  loop
    v_started := clock_timestamp();
    select s.run_number, s.load_id into v_run, v_id
      from rowlease.staging s where s.run_number > v_run order by s.run_number limit 1;
    exit when not found;
    v_cost := v_cost + (clock_timestamp() - v_started);
    continue when exists (select from rowlease.load l
                           where (l.load_id, l.run_number) = (v_id, v_run)
                             and l.status = 'Staging');
    delete from rowlease.staging s
     where s.ctid = any(array(select o.ctid from rowlease.staging o
                               where (o.load_id, o.run_number) = (v_id, v_run)
                               limit p_limit for update skip locked));
    get diagnostics v_rows = row_count;
    v_dropped := v_dropped + v_rows;
  end loop;
  if v_cost > interval '50 ms' then
    perform set_config('rowlease.sweep_after', (clock_timestamp() + 50 * v_cost)::text, false);
  end if;
  return v_dropped;
end $$;
