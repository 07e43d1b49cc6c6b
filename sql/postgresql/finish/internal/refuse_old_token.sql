-- refuse_old_token: refuse an update that lowers a lock token.
-- params:   none -- a trigger on rowlease.queue and rowlease.schedule
-- returns:  trigger
-- errors:   23514 the token would decrease
-- locks:    none
-- why:      a lower token could make a broken lease valid again. The routines never lower one; an
--           update by hand might. The comparison is the trigger's condition, so an update that
--           keeps or raises the token does not call this function. The trigger fires after the
--           update, because a trigger before the update would lock the row first.
create or replace function rowlease_internal.refuse_old_token() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception using errcode = '23514', constraint = tg_name,
    message = format('a lock token must not decrease (here from %s to %s): an old lease would be valid '
                     'again', old.lock_token, new.lock_token);
end $$;

do $$
begin
  if not exists (select from pg_catalog.pg_trigger t
                  where t.tgrelid = 'rowlease.queue'::regclass and t.tgname = 'queue_token') then
    create trigger queue_token
    after update of lock_token on rowlease.queue
    for each row when (new.lock_token < old.lock_token)
    execute function rowlease_internal.refuse_old_token();
  end if;
end $$;

do $$
begin
  if not exists (select from pg_catalog.pg_trigger t
                  where t.tgrelid = 'rowlease.schedule'::regclass and t.tgname = 'schedule_token') then
    create trigger schedule_token
    after update of lock_token on rowlease.schedule
    for each row when (new.lock_token < old.lock_token)
    execute function rowlease_internal.refuse_old_token();
  end if;
end $$;
