-- resume_schedule: let a paused schedule fire again, starting now.
-- params:   p_schedule_name text, p_actor text (the operator's name)
-- returns:  outcome text -- 'ok' | 'repeat' (unchanged) | 'not_found'
-- errors:   none
-- locks:    the schedule's row
-- why:      firings that were missed during the pause are not enqueued: firings are counted from
--           now.
create or replace function rowlease.resume_schedule(p_schedule_name text, p_actor text default null)
returns table (outcome text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update rowlease.schedule s
     set paused = false, next_time = null, changed_time = rowlease.now(), locked_by = null,
         lock_expires_time = null, lock_token = s.lock_token + 1
   where s.schedule_name = p_schedule_name and s.paused <> false;
  outcome := case when found then 'ok'
                  when exists (select from rowlease.schedule s
                                where s.schedule_name = p_schedule_name) then 'repeat'
                  else 'not_found' end;
  if outcome = 'ok' then
    perform rowlease_internal.note_operation(
      'resume_schedule', jsonb_build_object('schedule', p_schedule_name), null, p_actor, rowlease.now(), true);
  end if;
  return next;
end $$;
