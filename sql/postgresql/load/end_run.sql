-- end_run: end the run of a load whose job has failed or was cancelled.
-- params:   p_load_id text, p_run_number bigint
-- returns:  void
-- errors:   RL014 the run is over, as take_load
-- locks:    the load's row
-- why:      Spark lets tasks that it has killed write to their end; what they commit later is refused.
--           maintain deletes what is written, in steps. A promoted load stays promoted.
create or replace function rowlease.end_run(p_load_id text, p_run_number bigint) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_load rowlease.load := rowlease_internal.take_load(p_load_id, p_run_number);
begin
  update rowlease.load l set status = 'Ended', num_staged = 0
   where l.load_id = v_load.load_id and l.status = 'Staging';
end $$;
