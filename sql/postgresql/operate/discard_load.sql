-- discard_load: end the run of a load that will not be promoted, so that its staged rows are deleted.
-- params:   p_load_id text, p_dry_run boolean (true: change nothing; only raise errors and count),
--           p_actor text (the operator's name)
-- returns:  bigint -- how many rows were staged, as the run has reported
-- errors:   RL014 the load is promoted, its run is over, or there is no such load
-- locks:    the load's row
-- why:      tasks that still write are refused, because the run is over. maintain deletes the rows in
--           steps, so this call is short for any load.
create or replace function rowlease.discard_load(
  p_load_id text, p_dry_run boolean default false, p_actor text default null
) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_load rowlease.load;
begin
  select * into v_load from rowlease.load l where l.load_id = p_load_id for update;
  if v_load.status is distinct from 'Staging' then
    raise exception using errcode = 'RL014', message = case v_load.status
      when 'Promoted' then format(
        'load "%s" is promoted, so its rows are requests; cancel the requests with the filter load:%s',
        p_load_id, p_load_id)
      when 'Ended' then format('the run of load "%s" was ended; nothing is left to discard', p_load_id)
      else format('there is no load "%s"; list the loads', p_load_id)
      end;
  end if;
  if not p_dry_run then
    update rowlease.load l set status = 'Ended', num_staged = 0 where l.load_id = p_load_id;
    perform rowlease_internal.note_operation(
      'discard_load', jsonb_build_object('load_id', p_load_id), null, p_actor, rowlease.now(), true);
  end if;
  return v_load.num_staged;
end $$;
