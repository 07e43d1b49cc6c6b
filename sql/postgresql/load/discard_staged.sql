-- discard_staged: delete the staged rows of a load, except the parts that count; or end its run.
-- params:   p_load_id text, p_run_number bigint, p_kept_parts bigint[] (null: none, and the run ends, so
--           that tasks which still write are refused) -- a row's part is its row_id divided by 2^30
-- returns:  bigint -- how many rows were dropped
-- errors:   RL014 the run is over, as take_load
-- locks:    the load's row; rows of staging and lane of this load
-- why:      several tries of a Spark task may all have written; the driver knows which one counts. If
--           its job has failed or was cancelled, none counts, and the run ends: Spark lets tasks that
--           it has killed write to their end. The rows of a promoted load in the lane are requests, so
--           it is not touched.
create or replace function rowlease.discard_staged(
  p_load_id text, p_run_number bigint, p_kept_parts bigint[]
) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_load    rowlease.load := rowlease_internal.take_load(p_load_id, p_run_number);
  v_dropped bigint;
  v_rows    bigint;
begin
  if v_load.status = 'Promoted' then
    return 0;
  elsif p_kept_parts is null then
    update rowlease.load l set status = 'Ended', num_staged = 0 where l.load_id = p_load_id;
  end if;
  delete from rowlease.staging s
   where (s.load_id, s.run_number) = (p_load_id, p_run_number)
     and (s.row_id >> 30) <> all (coalesce(p_kept_parts, '{}'));
  get diagnostics v_dropped = row_count;
  with parts as (
    delete from rowlease.lane_part p
     where p.run_number = p_run_number and p.part <> all (coalesce(p_kept_parts, '{}'))
    returning p.*)
  delete from rowlease.lane r using parts p
   where r.run_number = p.run_number and r.writer = p.writer
     and r.priority = p.priority and r.part = p.part;
  get diagnostics v_rows = row_count;
  v_dropped := v_dropped + v_rows;
  return v_dropped;
end $$;
