-- wake_at_commit: notify idle workers when a caller's transaction commits.
-- params:   none -- a deferred trigger on rowlease.queue
-- returns:  trigger
-- errors:   none
-- locks:    as worker_is_idle and wake_once
-- why:      a caller may commit long after its enqueue, and a worker may become idle meanwhile. A
--           deferred trigger runs immediately before the commit, so it notifies only if a worker is
--           idle then. wake_later sets rowlease.wake to '?' for the transaction. The trigger's
--           condition replaces that by the queue's name, so it runs once for each transaction and
--           queue, not for each row.
create or replace function rowlease_internal.wake_at_commit() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform set_config('rowlease.wake', '', true);
  if rowlease_internal.worker_is_idle(new.queue_name) then
    perform rowlease_internal.wake_once(new.queue_name, rowlease.now());
  end if;
  return null;
end $$;

do $$
begin
  if not exists (select from pg_trigger t where t.tgname = 'wake_at_commit'
                    and t.tgrelid = 'rowlease.queue'::regclass) then
    create constraint trigger wake_at_commit
    after insert on rowlease.queue deferrable initially deferred
    for each row when (current_setting('rowlease.wake', true) = '?'
                       and set_config('rowlease.wake', new.queue_name, true) is not null)
    execute function rowlease_internal.wake_at_commit();
  end if;
end $$;
