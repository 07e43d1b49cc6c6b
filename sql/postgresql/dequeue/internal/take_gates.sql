-- take_gates: lock the gates of the queues that limit how many requests are in flight or start.
-- params:   p_queue_names text[]
-- returns:  text[] -- the queues whose gates other sessions hold
-- errors:   25000 as refuse_old_snapshot
-- locks:    one row of gate per queue with max_in_flight or a rate, exclusive, in the order of names, to the
--           end of the transaction; waits as take_gate does
-- why:      two claims that count concurrently would both find the last free place. All gates are
--           locked before any row of queue, and in one order, so no two claims wait for each
--           other. A claim holds its gates until it ends. A gate that is held for longer is held
--           by a person or a broken session, and other queues must not wait for it. So the call
--           waits only for the first locked gate; it takes the others only if they are free.
create or replace function rowlease_internal.take_gates(p_queue_names text[]) returns text[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_name   text;
  v_closed text[] := '{}';
begin
  for v_name in
    select s.queue_name from rowlease.queue_settings s
     where s.queue_name = any(p_queue_names) 
       and (s.max_in_flight is not null or s.rate is not null or s.group_rate is not null)
     order by 1
  loop
    perform rowlease_internal.refuse_old_snapshot();
    perform from rowlease.gate g where g.queue_name = v_name for no key update skip locked;
    if not found and (cardinality(v_closed) > 0 or not rowlease_internal.take_gate(v_name)) then
      v_closed := v_closed || v_name;
    end if;
  end loop;
  return v_closed;
end $$;
