-- pause_schedule: stop a schedule from firing; what it has enqueued stays.
-- params:   p_schedule_name text
-- returns:  outcome text -- 'ok' | 'repeat' (it was so already) | 'not_found'
-- errors:   none
-- locks:    the schedule's row
-- why:      whoever is firing it at this moment does so no more: the lock token is another.
create or replace function rowlease.pause_schedule(p_schedule_name text)
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
  return next;
end $$;
