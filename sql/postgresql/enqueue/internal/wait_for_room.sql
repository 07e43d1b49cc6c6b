-- wait_for_room: take or keep a producer's place in the line for a full queue.
-- params:   p_queue_name text, p_priority integer, p_num_requests integer, p_now timestamptz,
--           p_wait_ms bigint, p_waiter_id bigint
-- returns:  bigint -- the waiter's id
-- errors:   none
-- locks:    the waiter's own row
-- why:      a place lasts at most 2 s and is kept by calling again, so that a producer that died
--           blocks other producers for no more than 2 s. The last place ends when the producer's
--           wait ends.
create or replace function rowlease_internal.wait_for_room(
  p_queue_name text, p_priority integer, p_num_requests integer, p_now timestamptz,
  p_wait_ms bigint, p_waiter_id bigint
) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_expires timestamptz := p_now + least(p_wait_ms, 2000) * interval '1 ms';
  v_id      bigint;
begin
  update rowlease.queue_waiter w set expires_time = v_expires where w.waiter_id = p_waiter_id
  returning w.waiter_id into v_id;
  if v_id is null then
    insert into rowlease.queue_waiter (queue_name, priority, num_requests, arrived_time,
                                       expires_time)
    select p_queue_name, least(p_priority, s.max_priority), p_num_requests, p_now, v_expires
      from rowlease.queue_settings s where s.queue_name = p_queue_name
    returning waiter_id into v_id;
  end if;
  return v_id;
end $$;
