-- dequeue_one: lease waiting requests of one queue.
-- params:   p_queue_name text, p_worker_id text, p_now timestamptz, p_lease_ms bigint,
--           p_limit integer, p_slots integer, p_proven timestamptz, p_floor jsonb
-- returns:  request_ids bigint[] in claim order, more boolean, held_back boolean (other workers go
--           first, or the limit in flight is reached), floor jsonb, policy text
-- errors:   RL002 unknown queue
-- locks:    as dequeue
-- why:      dequeue does this for each of its queues. A round may return fewer requests than asked
--           for, because some of those it met are behind another request of their group; the next
--           round does not meet these again.
create or replace function rowlease_internal.dequeue_one(
  p_queue_name text, p_worker_id text, p_now timestamptz, p_lease_ms bigint,
  p_limit integer, p_slots integer, p_proven timestamptz, p_floor jsonb,
  out request_ids bigint[], out more boolean, out held_back boolean, out floor jsonb,
  out policy text
) language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_settings rowlease.queue_settings;
  v_step     constant integer := 2 * p_limit + 10;
  v_from     timestamptz;
  v_moved    timestamptz;
  v_room     integer;
  v_times    timestamptz[] := translate(p_floor ->> 'times', '[]', '{}');
  v_ids      bigint[] := translate(p_floor ->> 'ids', '[]', '{}');
  v_round    integer := 0;
  v_order    record;
  v_got      record;
  v_raised   record;
  v_loads    rowlease.load[] := array(
    select l from rowlease.load l where l.queue_name = p_queue_name and l.in_lane);
  v_stepped  bigint := case when v_loads <> '{}' then rowlease_internal.num_stepped_over_in_lane() end;
begin
  request_ids := '{}';
  more := false;
  held_back := false;
  floor := p_floor;
  v_settings := rowlease_internal.settings_of(p_queue_name);
  policy := v_settings.policy;
  if v_settings.paused then
    return;
  end if;
  if cardinality(v_times) is distinct from v_settings.max_priority + 1 then
    perform rowlease_internal.lower_priorities(p_queue_name, v_settings.max_priority, 1000);
    floor := rowlease_internal.keep_floor(v_settings, p_now, p_proven, floor);
    v_times := translate(floor ->> 'times', '[]', '{}');
    v_ids := translate(floor ->> 'ids', '[]', '{}');
  end if;
  v_from := floor ->> 'moved';
  v_moved := p_now - interval '50 ms';  -- enqueues may be about to commit
  if rowlease_internal.next_event(p_queue_name, v_from, p_now) is not null then
    more := greatest(rowlease_internal.break_expired(p_queue_name, p_now, v_from, v_step),
                     rowlease_internal.wake_due(p_queue_name, p_now, v_from, v_step)) = v_step;
    if more then
      v_moved := least(v_moved, rowlease_internal.next_event(p_queue_name, v_from, p_now));
    end if;
  end if;
  held_back := v_settings.consumer_priorities
               and rowlease_internal.is_held_back(v_settings, p_worker_id, p_now);
  v_room := case when held_back then 0 else rowlease_internal.room_in_flight(v_settings, p_limit) end;
  while cardinality(request_ids) < v_room loop
    v_round := v_round + 1;
    v_order := rowlease_internal.choose_priorities(v_settings, v_round, v_room - cardinality(request_ids),
                                    v_times, v_ids);
    v_got := rowlease_internal.claim(
      p_queue_name, p_worker_id, p_now,
      coalesce(p_lease_ms, v_settings.lease_seconds * 1000::bigint), v_order.priorities,
      v_order.quotas, v_order.until, v_room - cardinality(request_ids),
      p_slots - cardinality(request_ids), v_times, v_ids, v_loads);
    v_raised := rowlease_internal.raise_floor(
      v_moved, v_got.met_priorities, v_got.met_times, v_got.met_ids, v_order.priorities,
      v_order.quotas, v_order.until, v_room - cardinality(request_ids), v_times, v_ids);
    v_times := v_raised.p_times;
    v_ids := v_raised.p_ids;
    request_ids := request_ids || v_got.leased;
    if v_got.behind is not null then
      perform rowlease_internal.block_groups(p_queue_name, v_got.behind);
    end if;
    more := more or v_round >= 50;
    exit when v_order.last and v_got.behind is null or v_round >= 50;
  end loop;
  if v_stepped is not null and (cardinality(request_ids) < v_room or
       rowlease_internal.num_stepped_over_in_lane() - v_stepped > greatest(1000, 5 * p_limit)) then
    perform rowlease_internal.raise_lane_floors(v_loads);
  end if;
  held_back := held_back or v_room < p_limit and cardinality(request_ids) = v_room;
  floor := floor || jsonb_build_object('moved', v_moved, 'times', v_times, 'ids', v_ids);
  perform rowlease_internal.wake_others(v_settings, p_worker_id, p_now, p_slots, cardinality(request_ids));
end $$;
