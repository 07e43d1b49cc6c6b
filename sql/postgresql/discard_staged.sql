-- discard_staged: drop the staged rows of a load but for the parts that count.
-- params:   p_load_id text, p_kept_parts bigint[] -- empty: drop all; a row's part is its row_id
--           divided by 2^30
-- returns:  bigint -- how many rows were dropped
-- errors:   none
-- locks:    rows of staging of this load, in no order: only writers of the same load meet here
-- why:      of several tries of a Spark task all may have written; the driver knows which one counts.
--           A promoted load is not touched: it has no staged rows, or late ones that nobody promotes.
create or replace function rowlease.discard_staged(p_load_id text, p_kept_parts bigint[])
returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_dropped bigint;
begin
  delete from rowlease.staging s
   where s.load_id = p_load_id and (s.row_id >> 30) <> all (coalesce(p_kept_parts, '{}'));
  get diagnostics v_dropped = row_count;
  return v_dropped;
end $$;
