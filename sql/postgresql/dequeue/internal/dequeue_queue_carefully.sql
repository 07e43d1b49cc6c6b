-- dequeue_queue_carefully: lease waiting requests of one queue.
-- params:   p_queue_name text, p_worker_id text, p_now timestamptz, p_lease_ms bigint,
--           p_limit integer, p_slots integer, p_proven timestamptz, p_floor jsonb
-- returns:  request_ids bigint[] in claim order, more boolean, held_back boolean (other workers go
--           first, or the in-flight limit is reached), floor jsonb, policy text, next_start
--           timestamptz (when the queue's rate permits the next start; now if another transaction
--           has locked a request that is due or whose lease has run out; null otherwise)
-- errors:   RL002 unknown queue
-- locks:    as dequeue
-- why:      dequeue_carefully does this for each queue. A round may return fewer requests than asked
--           for, because some of those it met are behind another request of their group; the next
--           round does not meet these again.
create or replace function rowlease_internal.dequeue_queue_carefully(
  p_queue_name text, p_worker_id text, p_now timestamptz, p_lease_ms bigint,
  p_limit integer, p_slots integer, p_proven timestamptz, p_floor jsonb,
  out request_ids bigint[], out more boolean, out held_back boolean, out floor jsonb,
  out policy text, out next_start timestamptz
) language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_settings rowlease.queue_settings;
  v_step     constant integer := 2 * p_limit + 10;
  v_from     timestamptz;
  v_moved    timestamptz;
  v_rest     timestamptz;
  v_room     record;
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
  v_settings := rowlease_internal.check_queue(p_queue_name);
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
    v_rest := rowlease_internal.next_event(p_queue_name, v_from, p_now);
    if more then
      v_moved := least(v_moved, v_rest);
    elsif v_rest is not null then
      next_start := p_now;
    end if;
  end if;
  v_room := rowlease_internal.room_to_claim(v_settings, p_worker_id, p_now, p_limit, p_slots);
  if v_room.room > 0 and exists (select from rowlease.queue q
                                  where q.queue_name = p_queue_name and q.status <> 'Pending'
                                    and q.returned) then
    perform rowlease_internal.wake_declined(p_queue_name, p_worker_id, v_room.room);
  end if;
  while cardinality(request_ids) < v_room.room loop
    v_round := v_round + 1;
    v_order := rowlease_internal.choose_priorities(v_settings, v_round, v_room.room - cardinality(request_ids),
                                    v_times, v_ids);
    v_got := rowlease_internal.claim_carefully(
      p_queue_name, p_worker_id, p_now,
      coalesce(p_lease_ms, v_settings.lease_seconds * 1000::bigint), v_order.priorities,
      v_order.quotas, v_order.until, v_room.room - cardinality(request_ids),
      p_slots - cardinality(request_ids), v_times, v_ids, v_loads,
      v_settings.group_rate);
    v_raised := rowlease_internal.raise_floor(
      v_moved, v_got.met_priorities, v_got.met_times, v_got.met_ids, v_order.priorities,
      v_order.quotas, v_order.until, v_room.room - cardinality(request_ids), v_times, v_ids);
    v_times := v_raised.p_times;
    v_ids := v_raised.p_ids;
    request_ids := request_ids || v_got.leased;
    if v_got.behind is not null then
      perform rowlease_internal.block_groups(
        p_queue_name, rowlease_internal.delay_groups(v_settings, v_got.behind, p_now));
    end if;
    more := more or v_round >= 50;
    exit when v_order.last and v_got.behind is null or v_round >= 50;
  end loop;
  if v_stepped is not null and (cardinality(request_ids) < v_room.room or
       rowlease_internal.num_stepped_over_in_lane() - v_stepped > greatest(1000, 5 * p_limit)) then
    perform rowlease_internal.raise_lane_floors(v_loads);
  end if;
  held_back := v_room.held_back
               or v_room.in_flight < p_limit and cardinality(request_ids) = v_room.in_flight;
  if v_settings.rate is not null or v_settings.group_rate is not null then
    next_start := least(next_start, rowlease_internal.note_starts(v_settings, request_ids));
  end if;
  floor := floor || jsonb_build_object('moved', v_moved, 'times', v_times, 'ids', v_ids);
  perform rowlease_internal.wake_others(v_settings, p_worker_id, p_now, p_slots, cardinality(request_ids));
end $$;
