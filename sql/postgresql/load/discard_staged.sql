-- discard_staged: delete the staged rows of a load, except the parts that count.
-- params:   p_load_id text, p_run_number bigint, p_kept_parts bigint[] -- empty: drop all; a row's part
--           is its row_id divided by 2^30
-- returns:  bigint -- how many rows were dropped
-- errors:   RL014 another run has taken the load over
-- locks:    the load's row; rows of staging of this load
-- why:      several tries of a Spark task may all have written; the driver knows which one counts.
--           A promoted load has no staged rows, or late ones that are never promoted, so it is not
--           touched.
create or replace function rowlease.discard_staged(
  p_load_id text, p_run_number bigint, p_kept_parts bigint[]
) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_dropped bigint;
begin
  perform rowlease_internal.take_load(p_load_id, p_run_number);
  delete from rowlease.staging s
   where (s.load_id, s.run_number) = (p_load_id, p_run_number)
     and (s.row_id >> 30) <> all (coalesce(p_kept_parts, '{}'));
  get diagnostics v_dropped = row_count;
  return v_dropped;
end $$;
