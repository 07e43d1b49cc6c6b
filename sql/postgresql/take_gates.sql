-- take_gates: queue up for the queues that allow only so many requests in flight.
-- params:   p_queue_names text[]
-- returns:  void
-- errors:   none
-- locks:    one advisory lock per queue with max_in_flight, in key order, to the end of the
--           transaction
-- why:      two claimers that count at once would both find the last place free. All gates are
--           taken before any row, and in one order, so that no two claimers wait for each other.
create or replace function rowlease.take_gates(p_queue_names text[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_key integer;
begin
  for v_key in
    select distinct hashtext(s.queue_name) from rowlease.queue_settings s
     where s.queue_name = any(p_queue_names) and s.max_in_flight is not null order by 1
  loop
    perform pg_advisory_xact_lock(1919907437, v_key);
  end loop;
end $$;
