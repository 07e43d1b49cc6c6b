-- wake_workers: notify idle workers.
-- params:   p_queue_name text, p_always boolean
-- returns:  boolean -- whether a notification was sent
-- errors:   none
-- locks:    as worker_is_idle
-- why:      NOTIFY takes a database-wide lock at commit, so it is sent only while a worker is
--           idle. A caller whose commit may come much later always notifies, because a worker may
--           become idle meanwhile. Enqueues, which are frequent, use wake_once.
create or replace function rowlease_internal.wake_workers(p_queue_name text, p_always boolean) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_always or rowlease_internal.worker_is_idle(p_queue_name) then
    perform pg_notify('rowlease', p_queue_name);
    return true;
  end if;
  return false;
end $$;
