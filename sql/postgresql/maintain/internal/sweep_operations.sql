-- sweep_operations: drop operations 90 days after their last step.
-- params:   p_now timestamptz, p_limit integer
-- returns:  bigint -- how many were dropped
-- errors:   none
-- locks:    rows of operation, exclusive, skipping locked ones; rows of requeued and cancellation
-- why:      90 days answer most questions about who did what; copy the rows to keep them for longer.
create or replace function rowlease_internal.sweep_operations(p_now timestamptz, p_limit integer)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off
as $$
declare
  v_ids bigint[] := array(
    select o.operation_id from rowlease.operation o
     where o.last_time < p_now - interval '90 days'
     order by o.last_time limit p_limit for update skip locked);
begin
  if cardinality(v_ids) > 0 then
    delete from rowlease.requeued r where r.operation_id = any(v_ids);
    delete from rowlease.cancellation c where c.operation_id = any(v_ids);
    delete from rowlease.operation o where o.operation_id = any(v_ids);
  end if;
  return cardinality(v_ids);
end $$;
