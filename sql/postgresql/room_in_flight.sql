-- room_in_flight: how many more requests of a queue may be leased by this worker now.
-- params:   p_settings rowlease.queue_settings, p_worker_id text, p_now timestamptz, p_limit integer
-- returns:  integer -- 0 to p_limit
-- errors:   none
-- locks:    none -- dequeue has taken the gate of a queue with a limit
-- why:      a queue without limits pays for two comparisons. With consumer priorities a worker
--           steps back while a higher one of the queue is alive (heard of within 2 s) and has free
--           slots.
create or replace function rowlease.room_in_flight(
  p_settings rowlease.queue_settings, p_worker_id text, p_now timestamptz, p_limit integer
) returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_room integer := p_limit;
begin
  if p_settings.max_in_flight is not null then
    select least(p_limit, p_settings.max_in_flight - coalesce(sum(d.processing), 0)) into v_room
      from rowlease.queue_depth d where d.queue_name = p_settings.queue_name;
  end if;
  if p_settings.consumer_priorities and exists (
    select from rowlease.worker w
     where w.consumer_priority > coalesce((select me.consumer_priority from rowlease.worker me
                                            where me.worker_id = p_worker_id), 0)
       and w.queue_names::jsonb ? p_settings.queue_name
       and w.busy < w.slots and w.heartbeat_time > p_now - interval '2 s')
  then
    return 0;
  end if;
  return greatest(v_room, 0);
end $$;
