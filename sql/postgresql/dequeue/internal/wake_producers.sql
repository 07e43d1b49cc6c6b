-- wake_producers: notify producers that wait for room in a queue.
-- params:   p_queue_name text
-- returns:  void
-- errors:   none
-- locks:    none
-- why:      NOTIFY takes a database-wide lock at commit, so it is sent only while a producer waits.
create or replace function rowlease_internal.wake_producers(p_queue_name text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if exists (select from rowlease.queue_waiter w where w.queue_name = p_queue_name) then
    perform pg_notify('rowlease_room', p_queue_name);
  end if;
end $$;
