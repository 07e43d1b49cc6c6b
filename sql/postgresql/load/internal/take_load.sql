-- take_load: lock a load's row, if the load still belongs to this run.
-- params:   p_load_id text, p_run_number bigint (of begin_load; null belongs to no run)
-- returns:  rowlease.load
-- errors:   RL014 another run has taken the load over, or its run was ended, or it does not exist
-- locks:    the load's row
-- why:      this is the only place where the run number is compared. Every routine that changes a
--           load starts here, so calls for one load run one after the other, and a superseded run
--           changes nothing.
create or replace function rowlease_internal.take_load(p_load_id text, p_run_number bigint)
returns rowlease.load
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_load rowlease.load;
begin
  select * into v_load from rowlease.load l where l.load_id = p_load_id for update;
  if v_load.run_number is distinct from p_run_number or v_load.status = 'Ended' then
    raise exception using errcode = 'RL014', message = case
      when v_load.load_id is null then
        format('load "%s" does not exist: it was not begun, or had no report for a day; begin it',
               p_load_id)
      when v_load.status = 'Ended' then
        format('the run of load "%s" was ended, because its job failed or was cancelled; rows of this '
               'run do not count: run it again', p_load_id)
      else
        format('load "%s" was taken over by %s at %s; rows of this run do not count: let that run end, or '
               'run this one again', p_load_id, v_load.run_by, v_load.started_time)
      end;
  end if;
  return v_load;
end $$;
