-- take_gate: lock the gate of this name; wait at most 2 s.
-- params:   p_queue_name text -- empty: the gate of maintain and recount
-- returns:  boolean -- false if another session has held the gate for 2 s
-- errors:   none
-- locks:    the row of gate, exclusive, after at most 2 s of waiting, to the end of the transaction
-- why:      a row that was deleted by hand is created again. This is a separate function because
--           the time limit is a setting, and restoring the setting needs a subtransaction: callers
--           that get the gate without waiting pay for neither.
create or replace function rowlease_internal.take_gate(p_queue_name text) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
begin
  insert into rowlease.gate (queue_name) values (p_queue_name) on conflict do nothing;
  perform from rowlease.gate g where g.queue_name = p_queue_name for no key update;
  return true;
exception when lock_not_available then
  return false;
end $$;
