-- take_load: lock a load's row, if the load still belongs to this run.
-- params:   p_load_id text, p_run_number bigint (as begin_load has given it; null is nobody's)
-- returns:  rowlease.load
-- errors:   RL014 another run has taken the load over, or it is not known
-- locks:    the load's row
-- why:      the one place where the run number is compared. Whoever changes anything of a load starts
--           here, so calls for one load come one after the other, and a run that was superseded
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
  if v_load.run_number is distinct from p_run_number then
    raise exception using errcode = 'RL014', message = case
      when v_load.load_id is null then
        format('load "%s" is not known: it has not begun, or nobody reported on it for a day; begin it',
               p_load_id)
      else
        format('load "%s" was taken over by %s at %s; nothing of this run counts: let that one end, or '
               'run this one again', p_load_id, v_load.run_by, v_load.started_time)
      end;
  end if;
  return v_load;
end $$;
