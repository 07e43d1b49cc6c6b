-- dequeue: lease up to p_limit waiting requests for a worker.
-- params:   p_worker_id text, p_queue_names text[], p_limit integer, p_slots integer,
--           p_lease_ms bigint, p_floor text
-- returns:  one row per leased request in claim order, then one row whose request_id is null:
--           more (ask again at once), wait_ms (until something is due or expires) and floor
-- errors:   RL001 bad argument, RL002 unknown queue
-- locks:    the gates of queues with a limit in flight, as take_gates; then rows of queue, exclusive,
--           in claim order, skipping locked ones
-- why:      due and expired requests are moved first, a bounded number of them, so that a queue
--           works without maintain. Requests past p_slots (default: all start) count as fetched
--           ahead. The floor goes back in with the next call; it is ignored after a second. A queue
--           whose gate is held gives nothing, and the caller is told to ask again soon.
create or replace function rowlease.dequeue(
  p_worker_id text, p_queue_names text[], p_limit integer, p_slots integer default null,
  p_lease_ms bigint default null, p_floor text default null
) returns table (
  request_id bigint, queue_name text, kind text, priority integer, requested_time timestamptz,
  due_time timestamptz, locked_time timestamptz, lock_expires_time timestamptz, lock_token bigint,
  num_attempts integer, max_attempts integer, num_crashes integer, group_key text, load_id text,
  payload text, more boolean, wait_ms bigint, floor text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_now   timestamptz;
  v_floor jsonb;
  v_left  integer := p_limit;
  v_more  boolean := false;
  v_held  boolean := false;
  v_shut  text[];
  v_queue text;
  v_claim record;
  v_next  record;
begin
  if coalesce(p_worker_id, '') = '' or p_queue_names is null or p_limit is null
     or p_limit not between 1 and 10000 or p_lease_ms not between 100 and 86400000 then
    raise exception using errcode = 'RL001',
      message = 'dequeue wants a worker id, queues, a limit of 1 to 10000 and a lease of 100 to '
                '86400000 ms';
  end if;
  v_shut := rowlease_internal.take_gates(p_queue_names);
  v_now := rowlease.now();  -- not before the gates: a lease must not run while its claim waits
  v_floor := rowlease_internal.floor_in_force(p_floor, v_now);
  foreach v_queue in array p_queue_names loop
    exit when v_left = 0;
    v_held := v_held or v_queue = any(v_shut);
    continue when v_queue = any(v_shut);
    v_claim := rowlease_internal.dequeue_one(
      v_queue, p_worker_id, v_now, p_lease_ms, v_left,
      coalesce(p_slots, p_limit) - (p_limit - v_left), (v_floor ->> 'proven')::timestamptz,
      coalesce(v_floor -> 'queues' -> v_queue, '{}'));
    v_more := v_more or v_claim.more;
    v_held := v_held or v_claim.held_back;
    v_floor := jsonb_set(v_floor, array['queues', v_queue], v_claim.floor);
    v_left := v_left - cardinality(v_claim.request_ids);
    if cardinality(v_claim.request_ids) > 0 then
      return query
        select q.request_id, q.queue_name::text, q.kind::text, q.priority::integer,
               q.requested_time, q.due_time, q.locked_time, q.lock_expires_time, q.lock_token,
               q.num_attempts, q.max_attempts, q.num_crashes, q.group_key::text, q.load_id::text,
               q.payload::text, null::boolean, null::bigint, null::text
          from unnest(v_claim.request_ids) with ordinality as c(id, place)
          join rowlease.queue q on q.request_id = any(array[c.id])
         order by c.place;
    end if;
  end loop;
  more := v_more or v_left = 0;
  floor := v_floor;
  if not more then
    v_next := rowlease_internal.next_event_ms(p_queue_names, v_now, v_floor);
    wait_ms := v_next.wait_ms;
    floor := v_next.floor;
  end if;
  if v_held then
    wait_ms := least(wait_ms, 500);  -- the worker we stepped back for may be dead in 2 s
  end if;
  return next;
end $$;
