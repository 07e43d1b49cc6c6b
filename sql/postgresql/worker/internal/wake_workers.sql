-- wake_workers: notify idle workers.
-- params:   p_queue_name text, p_always boolean
-- returns:  boolean -- whether a notification was sent
-- errors:   none
-- locks:    a session advisory lock, taken without waiting and released immediately
-- why:      NOTIFY takes a database-wide lock at commit, so it is sent only while a worker is
--           idle. An idle worker holds the queue's advisory lock in shared mode, so if an
--           exclusive lock is not granted, a worker is idle. Inside a caller's transaction, the
--           commit may come much later and a worker may become idle meanwhile, so there the
--           notification is always sent.
create or replace function rowlease_internal.wake_workers(p_queue_name text, p_always boolean) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_key integer := hashtext(p_queue_name);
begin
  if not p_always and pg_try_advisory_lock(1919907436, v_key) then
    return not pg_advisory_unlock(1919907436, v_key);
  end if;
  perform pg_notify('rowlease', p_queue_name);
  return true;
end $$;
