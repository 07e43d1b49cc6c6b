-- dequeue_carefully: lease waiting requests of queues that dequeue cannot claim from in the plain way.
-- params:   p_worker_id text, p_queue_names text[], p_limit integer, p_slots integer, p_lease_ms
--           bigint, p_floor text, p_next timestamptz -- the next due time or expiry in the queues
--           that the caller has already claimed from
-- returns:  as dequeue
-- errors:   RL002 unknown queue
-- locks:    the gates of queues with an in-flight limit or a rate, as take_gates; then rows of
--           queue, exclusive, in claim order, skipping locked ones
-- why:      due and expired requests are changed first, a bounded number of them, so that a queue
--           works without maintain. A floor is in force as long as claims step over many index
--           entries: it ends when a claim has read every priority from its start and met few such
--           entries. A queue with the policy weighted or aging always has a floor, because these
--           policies use it to choose priorities. Nothing is claimed from a queue whose gate is
--           held, and the caller is asked to call again soon.
create or replace function rowlease_internal.dequeue_carefully(
  p_worker_id text, p_queue_names text[], p_limit integer, p_slots integer, p_lease_ms bigint,
  p_floor text, p_next timestamptz default null
) returns table (
  request_id bigint, queue_name text, kind text, priority integer, requested_time timestamptz,
  due_time timestamptz, locked_time timestamptz, lock_expires_time timestamptz, lock_token bigint,
  num_attempts integer, max_attempts integer, num_crashes integer, group_key text, load_id text,
  payload text, headers text, more boolean, wait_ms bigint, floor text)
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_shut    text[] := rowlease_internal.take_gates(p_queue_names);
  v_now     timestamptz := rowlease.now();
  v_floor   jsonb := '{"queues": {}}';
  v_stepped bigint := rowlease_internal.num_stepped_over();
  v_left    integer := p_limit;
  v_more    boolean := false;
  v_held    boolean := false;
  v_keeps   boolean := false;
  v_queue   text;
  v_old     jsonb;
  v_claim   record;
  v_next    record;
begin
  if p_floor is not null then
    v_floor := rowlease_internal.floor_in_force(p_floor, v_now);
  end if;
  foreach v_queue in array p_queue_names loop
    exit when v_left = 0;
    if v_queue = any(v_shut) then
      p_next := v_now;
      continue;
    end if;
    p_next := least(p_next, rowlease_internal.next_commit(v_queue, v_now));
    v_old := v_floor -> 'queues' -> v_queue;
    v_claim := rowlease_internal.dequeue_queue_carefully(
      v_queue, p_worker_id, v_now, p_lease_ms, v_left, p_slots - p_limit + v_left,
      (v_floor ->> 'proven')::timestamptz, coalesce(v_old, '{}'));
    v_more := v_more or v_claim.more;
    v_held := v_held or v_claim.held_back;
    v_keeps := v_keeps or v_claim.policy <> 'strict'
               or p_floor is not null
                  and coalesce(v_old -> 'full' = v_claim.floor -> 'full', true);
    p_next := least(p_next, v_claim.next_start);
    v_floor := jsonb_set(v_floor, array['queues', v_queue], v_claim.floor);
    v_left := v_left - cardinality(v_claim.request_ids);
    if cardinality(v_claim.request_ids) > 0 then
      return query
        select q.request_id, q.queue_name::text, q.kind::text, q.priority::integer,
               q.requested_time, q.due_time, q.locked_time, q.lock_expires_time, q.lock_token,
               q.num_attempts, q.max_attempts, q.num_crashes, q.group_key::text, q.load_id::text,
               q.payload::text, q.headers::text, null::boolean, null::bigint, null::text
          from unnest(v_claim.request_ids) with ordinality as c(id, place)
          join rowlease.queue q on q.request_id = any(array[c.id])
         order by c.place;
    end if;
  end loop;
  more := v_more or v_left = 0;
  if not more then
    v_next := rowlease_internal.next_event_ahead(p_queue_names, v_floor);
    v_floor := v_next.floor;
    p_next := least(p_next, v_next.at);
    if isfinite(p_next) then
      wait_ms := greatest(0, ceil(extract(epoch from p_next - v_now) * 1000));
    end if;
  end if;
  if v_held then
    wait_ms := least(wait_ms, 500);  -- a worker of higher priority may have died
  end if;
  if v_keeps or rowlease_internal.needs_floor(v_stepped, p_limit) then
    floor := v_floor;
  end if;
  return next;
end $$;
