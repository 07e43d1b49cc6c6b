-- enqueue: put one request into a queue.
-- params:   p_queue_name text, p_kind text, p_payload text, p_priority integer, p_delay_ms bigint,
--           p_due_time timestamptz, p_dedup_key text, p_group_key text, p_max_attempts integer,
--           p_retry_base_ms integer, p_headers text, p_receipt_key text, p_in_transaction boolean,
--           p_wait_ms bigint
-- returns:  request_id bigint, outcome text, requested_us bigint -- 'ok' | 'duplicate' | 'repeat'; or
--           'full', as enqueue_many
-- errors:   as enqueue_many
-- locks:    as enqueue_many
-- why:      most calls have one request without keys, for a queue without a capacity. This routine
--           handles such calls by statements for one row, which cost about half as much as those for
--           many rows. All other calls, and those with a receipt that is known, go to enqueue_many.
create or replace function rowlease.enqueue(
  p_queue_name text, p_kind text, p_payload text default '{}', p_priority integer default 0,
  p_delay_ms bigint default null, p_due_time timestamptz default null,
  p_dedup_key text default null, p_group_key text default null,
  p_max_attempts integer default null, p_retry_base_ms integer default null,
  p_headers text default null, p_receipt_key text default null,
  p_in_transaction boolean default true, p_wait_ms bigint default null
) returns table (request_id bigint, outcome text, requested_us bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_xid          xid8 := pg_current_xact_id();  -- must be assigned before the clock is read: see floor_in_force
  v_now          timestamptz := rowlease.now();
  v_id           bigint;
  v_max_priority smallint;
  v_max_attempts integer;
  v_priority     integer;
  v_due          timestamptz;
  v_is_plain     boolean;
  v_done         boolean;
begin
  if p_dedup_key is null and p_group_key is null then
    select nextval('rowlease.queue_request_id_seq'), s.max_priority, s.max_attempts
      into v_id, v_max_priority, v_max_attempts
      from rowlease.queue_settings s where s.queue_name = p_queue_name and s.capacity is null;
    v_is_plain := found;
  end if;
  if v_is_plain and p_receipt_key is not null then
    insert into rowlease.enqueue_receipt (receipt_key, request_ids, received_time)
    values (p_receipt_key, array[v_id], v_now) on conflict do nothing;
    v_is_plain := found;
  end if;
  if v_is_plain is not true then
    return query
      select e.request_id, e.outcome, e.requested_us
        from rowlease.enqueue_many(
          p_queue_name, array[p_kind], array[p_payload], array[p_priority], array[p_delay_ms],
          array[p_due_time], array[p_dedup_key], array[p_group_key], array[p_max_attempts],
          array[p_retry_base_ms], case when p_headers is not null then array[p_headers] end,
          p_receipt_key, p_in_transaction, p_wait_ms) e;
    return;
  end if;
  if not rowlease_internal.is_acceptable(p_kind, p_priority, p_payload, p_max_attempts) then
    v_done := rowlease_internal.check_request(p_kind, p_priority, p_payload, p_max_attempts);
  end if;
  if p_headers is not null then
    v_done := rowlease_internal.check_headers(p_headers);
  end if;
  v_done := p_in_transaction is not false and rowlease_internal.wake_later(p_queue_name);
  v_priority := least(coalesce(p_priority, 0), v_max_priority);
  v_due := greatest(coalesce(p_due_time, v_now + p_delay_ms * interval '1 ms', v_now), v_now);
  insert into rowlease.queue (
    request_id, queue_name, kind, status, priority, requested_time, due_time, max_attempts,
    retry_base_ms, payload, headers)
  overriding system value
  values (v_id, p_queue_name, p_kind, case when v_due > v_now then 'Scheduled' else 'Pending' end,
          v_priority, v_now, v_due, coalesce(p_max_attempts, v_max_attempts), p_retry_base_ms,
          coalesce(p_payload, '{}')::json, p_headers::json);
  insert into rowlease.queue_depth (queue_name, priority, scheduled, pending)
  values (p_queue_name, v_priority, (v_due > v_now)::integer, (v_due <= v_now)::integer);
  if not p_in_transaction and random() < 0.005 then
    perform rowlease_internal.fold_depth(2000);
  end if;
  v_done := p_in_transaction is false and rowlease_internal.worker_is_idle(p_queue_name)
            and rowlease_internal.wake_once(p_queue_name, v_now);
  return query values (v_id, 'ok', (extract(epoch from v_now) * 1000000)::bigint);
end $$;
