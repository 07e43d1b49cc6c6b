-- sweep_staging: drop staged rows that nobody will promote any more.
-- params:   p_now timestamptz, p_limit integer -- how many rows of each load
-- returns:  bigint -- how many rows were dropped
-- errors:   none
-- locks:    rows of load, skipping locked ones (a row that is not committed yet is waited for, for at
--           most 100 ms); rows of staging of those loads
-- why:      a row says nothing of its age, so an unknown load gets a row in the ledger when it is
--           first seen. Rows that come after the promotion are those of a task that was not needed;
--           a load that was not reported on for a day is abandoned, and its id free again. Loads are
--           looked up by their index, one step each, never by reading the rows. Under a snapshot that
--           somebody holds, entries of a load long promoted are stepped over: looks that take long
--           become rare, as in keep_floor.
create or replace function rowlease.sweep_staging(p_now timestamptz, p_limit integer) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set lock_timeout = '100ms'
as $$
declare
  v_old     timestamptz := p_now - interval '1 day';
  v_id      text := '';
  v_load    rowlease.load;
  v_rows    bigint;
  v_dropped bigint := 0;
  v_started timestamptz;
  v_cost    interval := '0';
begin
  if clock_timestamp() < nullif(current_setting('rowlease.sweep_after', true), '')::timestamptz then
    return 0;
  end if;
  loop
    v_started := clock_timestamp();
    v_id := (select s.load_id from rowlease.staging s where s.load_id > v_id
              order by s.load_id limit 1);
    v_cost := v_cost + (clock_timestamp() - v_started);
    exit when v_id is null;
    begin
      insert into rowlease.load (load_id, status, num_rows, started_time, reported_time)
      values (v_id, 'Staging', 0, p_now, p_now) on conflict do nothing;
    exception when lock_not_available then
      continue;
    end;
    select * into v_load from rowlease.load l where l.load_id = v_id for update skip locked;
    if v_load.status = 'Promoted' or v_load.reported_time < v_old then
      delete from rowlease.staging s
       where s.ctid = any(array(select o.ctid from rowlease.staging o where o.load_id = v_id
                                 limit p_limit for update skip locked));
      get diagnostics v_rows = row_count;
      v_dropped := v_dropped + v_rows;
    end if;
  end loop;
  delete from rowlease.load l
   where l.load_id = any(array(select o.load_id from rowlease.load o
                                where o.status = 'Staging' and o.reported_time < v_old
                                  and not exists (select from rowlease.staging s
                                                   where s.load_id = o.load_id)
                                  for update skip locked));
  if v_cost > interval '50 ms' then
    perform set_config('rowlease.sweep_after', (clock_timestamp() + 50 * v_cost)::text, false);
  end if;
  return v_dropped;
end $$;
