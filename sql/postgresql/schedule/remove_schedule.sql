-- remove_schedule: delete a schedule; requests that it has enqueued stay.
-- params:   p_schedule_name text, p_actor text (the operator's name)
-- returns:  outcome text -- 'ok' | 'not_found'
-- errors:   none
-- locks:    the schedule's row
-- why:      if a task declares the schedule in its code, the next worker to start creates it
--           again: pause such a schedule instead.
create or replace function rowlease.remove_schedule(p_schedule_name text, p_actor text default null)
returns table (outcome text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  delete from rowlease.schedule s where s.schedule_name = p_schedule_name;
  outcome := case when found then 'ok' else 'not_found' end;
  if outcome = 'ok' then
    perform rowlease_internal.note_operation(
      'remove_schedule', jsonb_build_object('schedule', p_schedule_name), null, p_actor, rowlease.now(), true);
  end if;
  return next;
end $$;
