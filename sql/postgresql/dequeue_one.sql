-- dequeue_one: lease waiting requests of one queue.
-- params:   p_queue_name text, p_worker_id text, p_now timestamptz, p_lease_ms bigint,
--           p_limit integer, p_slots integer, p_floor jsonb
-- returns:  request_ids bigint[] in claim order, more boolean, floor jsonb
-- errors:   RL002 unknown queue
-- locks:    as dequeue
-- why:      dequeue's work on each of its queues.
create or replace function rowlease.dequeue_one(
  p_queue_name text, p_worker_id text, p_now timestamptz, p_lease_ms bigint,
  p_limit integer, p_slots integer, p_floor jsonb,
  out request_ids bigint[], out more boolean, out floor jsonb
) language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_settings   rowlease.queue_settings;
  v_moved_from timestamptz := coalesce((p_floor ->> 'moved')::timestamptz, '-infinity');
  v_step       integer := 2 * p_limit + 10;
  v_room       integer;
  v_order      integer[];
  v_times      timestamptz[];
  v_ids        bigint[];
  v_priorities integer[];
  v_due_times  timestamptz[];
begin
  request_ids := '{}';
  more := false;
  floor := p_floor;
  select * into v_settings from rowlease.queue_settings s where s.queue_name = p_queue_name;
  if not found then
    raise exception using errcode = 'RL002',
      message = format('queue "%s" does not exist', p_queue_name),
      hint = 'create it with rowlease.configure_queue';
  elsif v_settings.paused then
    return;
  end if;
  more := greatest(rowlease.break_expired(p_queue_name, p_now, v_moved_from, v_step),
                   rowlease.wake_due(p_queue_name, p_now, v_moved_from, v_step)) = v_step;
  v_room := rowlease.room_in_flight(v_settings, p_worker_id, p_now, p_limit);
  if v_room = 0 then
    return;
  end if;
  select array_agg(p.priority order by p.priority desc),
         array_agg(coalesce((p_floor -> 'claimed' -> p.priority::text ->> 0)::timestamptz, '-infinity')
                   order by p.priority),
         array_agg(coalesce((p_floor -> 'claimed' -> p.priority::text ->> 1)::bigint, 0)
                   order by p.priority)
    into v_order, v_times, v_ids
    from generate_series(0, v_settings.max_priority) as p(priority);
  select array_agg(c.request_id), array_agg(c.priority), array_agg(c.due_time)
    into request_ids, v_priorities, v_due_times
    from rowlease.claim(
      p_queue_name, p_worker_id, p_now,
      coalesce(p_lease_ms, v_settings.lease_seconds * 1000::bigint),
      v_order, array_fill(v_room, array[cardinality(v_order)]), 'infinity', v_room, p_slots,
      v_times, v_ids) c;
  request_ids := coalesce(request_ids, '{}');
  floor := rowlease.raise_floor(
    p_floor, p_now, v_priorities, v_due_times, request_ids,
    array(select p from unnest(v_order) p
           where cardinality(request_ids) < v_room or p > (select min(c) from unnest(v_priorities) c)),
    not more);
end $$;
