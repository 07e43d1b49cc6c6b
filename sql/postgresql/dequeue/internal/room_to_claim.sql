-- room_to_claim: compute how many requests of a queue a claim may lease now.
-- params:   p_settings rowlease.queue_settings, p_worker_id text, p_now timestamptz, p_limit integer,
--           p_slots integer
-- returns:  room integer -- 0 to p_limit; held_back boolean (a worker with a higher consumer priority
--           goes first), in_flight integer (the room without the rate)
-- errors:   none
-- locks:    none -- dequeue has taken the gate of a queue with a limit
-- why:      from a queue with a rate, nothing is prefetched, because a claim is a start.
create or replace function rowlease_internal.room_to_claim(
  p_settings rowlease.queue_settings, p_worker_id text, p_now timestamptz, p_limit integer,
  p_slots integer, out room integer, out held_back boolean, out in_flight integer
) language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  held_back := p_settings.consumer_priorities
               and rowlease_internal.is_held_back(p_settings, p_worker_id, p_now);
  in_flight := case when held_back then 0
                    else rowlease_internal.room_in_flight(p_settings, p_limit) end;
  room := in_flight;
  if p_settings.rate is not null then
    room := (select least(in_flight, p_slots, r.room)
               from rowlease_internal.room_in_rate(p_settings.queue_name, '', p_settings.rate, p_now) r);
  end if;
end $$;
