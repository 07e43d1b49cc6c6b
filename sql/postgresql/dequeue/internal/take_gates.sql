-- take_gates: lock the gates of the queues that limit how many requests are in flight.
-- params:   p_queue_names text[]
-- returns:  text[] -- the queues whose gates other sessions hold
-- errors:   none
-- locks:    one row of gate per queue with max_in_flight, exclusive, in the order of names, to the
--           end of the transaction; waited for as take_gate
-- why:      two claimers that count at once would both find the last free place. All gates are
--           taken before any row of queue, and in one order, so no two claimers wait for each
--           other. A gate is held as long as a claim takes. One that is held longer is held by a
--           person or a broken session, and other queues must not wait for it: so only the first
--           locked gate is waited for; the others are taken if they are free.
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
     where s.queue_name = any(p_queue_names) and s.max_in_flight is not null order by 1
  loop
    perform from rowlease.gate g where g.queue_name = v_name for no key update skip locked;
    if not found and (cardinality(v_closed) > 0 or not rowlease_internal.take_gate(v_name)) then
      v_closed := v_closed || v_name;
    end if;
  end loop;
  return v_closed;
end $$;
