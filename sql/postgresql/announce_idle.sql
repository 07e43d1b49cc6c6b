-- announce_idle: say that this connection's worker sleeps, or no longer does.
-- params:   p_queue_names text[], p_idle boolean
-- returns:  void
-- errors:   none
-- locks:    one session advisory lock per queue, shared; it ends with the connection at the latest
-- why:      producers ring only while somebody sleeps (wake_workers). No row is written. Who has
--           announced must claim once more before sleeping: a producer that looked before may
--           commit after.
create or replace function rowlease.announce_idle(p_queue_names text[], p_idle boolean) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_name text;
begin
  foreach v_name in array p_queue_names loop
    if p_idle then
      perform pg_advisory_lock_shared(1919907436, hashtext(v_name));
    else
      perform pg_advisory_unlock_shared(1919907436, hashtext(v_name));
    end if;
  end loop;
end $$;
