-- enqueue_many: put many requests into a queue, all or none.
-- params:   p_queue_name text, p_kinds text[], p_payloads text[], p_priorities integer[],
--           p_delays_ms bigint[], p_due_times timestamptz[], p_dedup_keys text[],
--           p_group_keys text[], p_max_attempts integer[], p_retry_bases_ms integer[],
--           p_headers text[], p_receipt_key text, p_in_transaction boolean, p_wait_ms bigint,
--           p_waiter_id bigint, p_batch_id text (the batch that they join), p_after text (the batch
--           that they wait for)
-- returns:  request_id bigint, outcome text, requested_us bigint (when the request was enqueued, in
--           microseconds since 1970; null if it is gone) -- 'ok' | 'duplicate' | 'repeat', in the
--           order given; or one row (waiter id, 'full', null): call again with this id within 2 s, or,
--           if p_wait_ms is 0, (null, 'full', null)
-- errors:   RL002 unknown queue, RL003 bad priority, RL004 bad payload, RL005 queue is full,
--           RL006 no kind, RL007 attempts below 1, RL016 bad headers, RL017 as take_batches
-- locks:    the receipt's key; queue_settings if the queue has a capacity; as take_batches and add_requests
-- why:      with the same receipt, a second call after an unknown commit returns the ids of the first
--           call. An error would roll the caller's transaction back, so with p_wait_ms the answer for
--           a full queue is a row. Without keys, all requests are new, so their ids are known
--           beforehand and the receipt is written once. If an array is null, every request has the
--           default. Helpers are called in assignments, which PostgreSQL evaluates without a query.
--           Idle workers are notified here if the caller commits at once (p_in_transaction is false),
--           else by wake_at_commit. Where no worker calls maintain, one call in 200 folds the counts.
create or replace function rowlease.enqueue_many(
  p_queue_name text, p_kinds text[], p_payloads text[], p_priorities integer[] default null,
  p_delays_ms bigint[] default null, p_due_times timestamptz[] default null,
  p_dedup_keys text[] default null, p_group_keys text[] default null,
  p_max_attempts integer[] default null, p_retry_bases_ms integer[] default null,
  p_headers text[] default null, p_receipt_key text default null,
  p_in_transaction boolean default true, p_wait_ms bigint default null,
  p_waiter_id bigint default null, p_batch_id text default null, p_after text default null
) returns table (request_id bigint, outcome text, requested_us bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_xid      xid8 := pg_current_xact_id();  -- must be assigned before the clock is read: see floor_in_force
  v_now      timestamptz := rowlease.now();
  v_has_keys boolean := greatest(num_nonnulls(variadic p_dedup_keys), num_nonnulls(variadic p_group_keys)) > 0;
  v_settings rowlease.queue_settings;
  v_priority integer;
  v_done     boolean;
  v_ids      bigint[]; v_outcomes text[];
begin
  if v_has_keys is not true then
    v_ids := array(select nextval('rowlease.queue_request_id_seq')
                     from generate_series(1, cardinality(p_kinds)));
  end if;
  if p_receipt_key is not null then
    insert into rowlease.enqueue_receipt (receipt_key, request_ids, received_time)
    values (p_receipt_key, coalesce(v_ids, '{}'), v_now) on conflict do nothing;
    if not found then
      return query
        select i.id, 'repeat'::text, rowlease_internal.requested_us(i.id)
          from rowlease.enqueue_receipt r, unnest(r.request_ids) with ordinality as i(id, place)
         where r.receipt_key = p_receipt_key order by i.place;
      return;
    end if;
  end if;
  v_done := p_in_transaction is not false and rowlease_internal.wake_later(p_queue_name);
  v_settings := rowlease_internal.check_queue(p_queue_name);
  if v_settings.capacity is not null then
    v_priority := (select max(coalesce(u, 0)) from unnest(coalesce(p_priorities, '{0}')) as u);
    v_settings := rowlease_internal.check_capacity(
      p_queue_name, coalesce(cardinality(p_kinds), 0), v_priority, v_now, p_waiter_id, p_wait_ms);
    if v_settings.queue_name is null then
      delete from rowlease.enqueue_receipt r where r.receipt_key = p_receipt_key;
      return query select case when p_wait_ms > 0 then rowlease_internal.wait_for_room(p_queue_name,
        v_priority, cardinality(p_kinds), v_now, p_wait_ms, p_waiter_id) end, 'full'::text, null::bigint;
      return;
    end if;
  end if;
  if coalesce(p_batch_id, p_after) is not null then
    p_due_times := rowlease_internal.take_batches(
      p_batch_id, p_after, v_now, p_kinds, p_delays_ms, p_due_times, p_headers);
  end if;

  if v_has_keys then
    select array_agg(a.request_id), array_agg(a.outcome) into v_ids, v_outcomes
      from rowlease_internal.add_requests(
        v_settings, v_now, p_kinds, p_payloads, p_priorities, p_delays_ms, p_due_times,
        p_dedup_keys, p_group_keys, p_max_attempts, p_retry_bases_ms, p_headers, p_batch_id) a;
    update rowlease.enqueue_receipt set request_ids = v_ids where receipt_key = p_receipt_key;
  else
    v_done := rowlease_internal.add_plain(
      v_settings, v_now, v_ids, p_kinds, p_payloads, p_priorities, p_delays_ms, p_due_times,
      p_max_attempts, p_retry_bases_ms, p_headers, p_batch_id);
  end if;
  v_done := p_after is null or rowlease_internal.wait_for_batch(p_after, v_ids, v_outcomes, p_due_times);
  if p_waiter_id is not null then delete from rowlease.queue_waiter w where w.waiter_id = p_waiter_id; end if;
  if not p_in_transaction and random() < 0.005 then
    perform rowlease_internal.fold_depth(2000);
  end if;
  v_done := p_in_transaction is false and rowlease_internal.worker_is_idle(p_queue_name)
            and rowlease_internal.wake_once(p_queue_name, v_now);
  return query
    select a.id, coalesce(a.outcome, 'ok'),
           case when a.outcome = 'duplicate' then rowlease_internal.requested_us(a.id)
                else (extract(epoch from v_now) * 1000000)::bigint end
      from unnest(v_ids, v_outcomes) as a(id, outcome);
end $$;
