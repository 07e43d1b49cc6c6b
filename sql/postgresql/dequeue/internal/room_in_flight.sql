-- room_in_flight: compute how many more requests of a queue may be leased now.
-- params:   p_settings rowlease.queue_settings, p_limit integer
-- returns:  integer -- 0 to p_limit
-- errors:   none
-- locks:    none -- dequeue has taken the gate of a queue with a limit
-- why:      a queue without a limit pays for one comparison.
create or replace function rowlease_internal.room_in_flight(
  p_settings rowlease.queue_settings, p_limit integer
) returns integer
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_settings.max_in_flight is null then
    return p_limit;
  end if;
  return (select greatest(0, least(p_limit, p_settings.max_in_flight - coalesce(sum(d.processing), 0)))
            from rowlease.queue_depth d where d.queue_name = p_settings.queue_name);
end $$;
