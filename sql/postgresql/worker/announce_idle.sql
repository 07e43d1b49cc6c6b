-- announce_idle: record whether this connection's worker is idle.
-- params:   p_queue_names text[], p_idle boolean
-- returns:  void
-- errors:   none
-- locks:    one session advisory lock per queue, shared, after at most 1 s of waiting; it ends with
--           the connection at the latest
-- why:      producers notify only while a worker is idle (wake_workers). No row is written. After
--           announcing, a worker must claim once more before it sleeps: a producer that checked
--           the lock before may commit later. Any session can hold the lock exclusively; while it
--           does, every producer notifies, so the worker needs no lock of its own.
create or replace function rowlease.announce_idle(p_queue_names text[], p_idle boolean) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '1s'
as $$
declare
  v_name text;
begin
  foreach v_name in array p_queue_names loop
    if p_idle then
      begin
        perform pg_advisory_lock_shared(1919907436, hashtext(v_name));
      exception when lock_not_available then
        null;
      end;
    else
      perform pg_advisory_unlock_shared(1919907436, hashtext(v_name));
    end if;
  end loop;
end $$;
