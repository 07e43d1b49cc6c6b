-- complete_and_enqueue: finish a leased request and enqueue its successor, both or neither.
-- params:   p_request_id bigint, p_lock_token bigint, p_result text, p_queue_name text (of the
--           successor, as all that follow), p_kind text, p_payload text, p_priority integer,
--           p_delay_ms bigint, p_dedup_key text, p_group_key text, p_max_attempts integer,
--           p_retry_base_ms integer, p_headers text
-- returns:  request_id bigint, outcome text -- as complete, of which only 'ok' enqueues
-- errors:   as complete; RL002 unknown queue, RL003 bad priority, RL004 bad payload, RL006 no kind,
--           RL007 attempts below 1, RL016 bad headers
-- locks:    as complete; then as add_requests
-- why:      the next link of a chain must exist if and only if the link before it is complete. It
--           belongs to the batch of its request, which cannot be finished before this commit, and
--           also to one that is: a link that was requeued later. It fits into a full queue, because
--           an error would run a complete task again. A deferred trigger notifies idle workers.
create or replace function rowlease.complete_and_enqueue(
  p_request_id bigint, p_lock_token bigint, p_result text default null,
  p_queue_name text default 'default', p_kind text default null, p_payload text default '{}',
  p_priority integer default 0, p_delay_ms bigint default null, p_dedup_key text default null,
  p_group_key text default null, p_max_attempts integer default null,
  p_retry_base_ms integer default null, p_headers text default null
) returns table (request_id bigint, outcome text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_xid     xid8 := pg_current_xact_id();  -- must be assigned before the clock is read: see floor_in_force
  v_now     timestamptz := rowlease.now();
  v_load_id text := (select q.load_id from rowlease.queue q where q.request_id = p_request_id);
begin
  select c.request_id, c.outcome into request_id, outcome
    from rowlease.complete(array[p_request_id], array[p_lock_token], array[p_result]) c;
  if outcome = 'ok' then
    perform rowlease_internal.wake_later(p_queue_name);
    perform from rowlease_internal.add_requests(
      rowlease_internal.check_queue(p_queue_name), v_now, array[p_kind], array[p_payload],
      array[p_priority], array[p_delay_ms], null, array[p_dedup_key], array[p_group_key],
      array[p_max_attempts], array[p_retry_base_ms], array[p_headers], v_load_id);
  end if;
  return next;
end $$;
