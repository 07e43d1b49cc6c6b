-- list_batches: list batches and loads, the latest first.
-- params:   p_batch_ids text[] (null: all), p_limit integer
-- returns:  batch_id text, num_requests bigint, num_live bigint, num_complete bigint,
--           num_failed bigint, num_cancelled bigint, created_time timestamptz, finished_time timestamptz
-- errors:   none
-- locks:    none
-- why:      it returns the rows of the view batches. A program that waits for batches reads them
--           repeatedly; a plan for any parameters would read all batches for one. An index has batches in
--           the order of time, so that counts are added up only for those that are returned.
create or replace function rowlease.list_batches(p_batch_ids text[] default null, p_limit integer default 100)
returns table (batch_id text, num_requests bigint, num_live bigint, num_complete bigint,
               num_failed bigint, num_cancelled bigint, created_time timestamptz,
               finished_time timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan set jit = off
as $$
#variable_conflict use_column
begin
  return query
    select b.batch_id::text, b.num_requests, b.num_live, b.num_complete, b.num_failed,
           b.num_cancelled, b.created_time, b.finished_time
      from (select n.batch_id from rowlease.batch n
             where p_batch_ids is null or n.batch_id = any (p_batch_ids)
             order by n.created_time desc, n.batch_id limit p_limit) f
      join rowlease.batches b on b.batch_id = f.batch_id
     order by b.created_time desc, b.batch_id;
end $$;
