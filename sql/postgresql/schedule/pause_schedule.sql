-- pause_schedule: stop a schedule from firing; requests that it has enqueued stay.
-- params:   p_schedule_name text, p_actor text (the operator's name)
-- returns:  outcome text -- 'ok' | 'repeat' (unchanged) | 'not_found'
-- errors:   none
-- locks:    the schedule's row
-- why:      if a worker is firing the schedule now, it is refused: the lock token changes.
create or replace function rowlease.pause_schedule(p_schedule_name text, p_actor text default null)
returns table (outcome text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update rowlease.schedule s
     set paused = true, locked_by = null, lock_expires_time = null, lock_token = s.lock_token + 1
   where s.schedule_name = p_schedule_name and s.paused <> true;
  outcome := case when found then 'ok'
                  when exists (select from rowlease.schedule s
                                where s.schedule_name = p_schedule_name) then 'repeat'
                  else 'not_found' end;
  if outcome = 'ok' then
    perform rowlease_internal.note_operation(
      'pause_schedule', jsonb_build_object('schedule', p_schedule_name), null, p_actor, rowlease.now(), true);
  end if;
  return next;
end $$;
