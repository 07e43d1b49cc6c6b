-- remove_schedule: delete a schedule; requests that it has enqueued stay.
-- params:   p_schedule_name text
-- returns:  outcome text -- 'ok' | 'not_found'
-- errors:   none
-- locks:    the schedule's row
-- why:      if a task declares the schedule in its code, the next worker to start creates it
--           again: pause such a schedule instead.
create or replace function rowlease.remove_schedule(p_schedule_name text)
returns table (outcome text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  delete from rowlease.schedule s where s.schedule_name = p_schedule_name;
  outcome := case when found then 'ok' else 'not_found' end;
  return next;
end $$;
