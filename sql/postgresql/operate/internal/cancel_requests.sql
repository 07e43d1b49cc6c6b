-- cancel_requests: cancel waiting requests; ask running ones to stop.
-- params:   p_request_ids bigint[], p_operation_id bigint (null: an earlier operation has asked for
--           it, and the lease has ended now)
-- returns:  request_id bigint, outcome text -- 'ok' (cancelled) | 'cancel_requested' (running: its
--           worker is notified) | 'not_found'
-- errors:   none
-- locks:    rows of cancellation; as unblock_groups; the caller has locked the rows of queue
-- why:      no lease is broken: a running request ends when its worker reports an outcome, or when
--           its lease runs out. A worker that misses the notification learns of it at the next
--           renew. A message has at most 8,000 bytes, and 300 ids always fit.
create or replace function rowlease_internal.cancel_requests(
  p_request_ids bigint[], p_operation_id bigint)
returns table (request_id bigint, outcome text)
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_now    timestamptz := rowlease.now();
  v_done   bigint[];
  v_asked  bigint[];
  v_queues text[];
  v_groups text[];
begin
  with asked as (
    update rowlease.queue q set cancel_requested = true
     where q.request_id = any(p_request_ids) and q.locked_by is not null
    returning q.request_id),
  done as (
    delete from rowlease.queue q
     where q.request_id = any(p_request_ids) and q.locked_by is null
    returning q.*),
  kept as (
    insert into rowlease.queue_history (
      request_id, queue_name, kind, status, priority, requested_time, due_time, locked_by,
      locked_time, lock_expires_time, started_time, lock_token, num_attempts, max_attempts,
      num_crashes, num_abandons, retry_base_ms, dedup_key, group_key, load_id, payload, headers,
      last_error, completion_time, cancel_requested)
    select d.request_id, d.queue_name, d.kind, 'Cancelled', d.priority, d.requested_time, d.due_time,
           d.locked_by, d.locked_time, d.lock_expires_time, d.started_time, d.lock_token,
           d.num_attempts, d.max_attempts, d.num_crashes, d.num_abandons, d.retry_base_ms,
           d.dedup_key, d.group_key, d.load_id,
           case when s.keep_history is not false then d.payload end,
           case when s.keep_history is not false then d.headers end, d.last_error, v_now, true
      from done d left join rowlease.queue_settings s on s.queue_name = d.queue_name),
  counted as (
    insert into rowlease.queue_depth (queue_name, priority, load_id, scheduled, pending, failed)
    select d.queue_name, d.priority, d.load_id, -count(*) filter (where d.status = 'Scheduled'),
           -count(*) filter (where d.status = 'Pending'),
           -count(*) filter (where d.status = 'Failed')
      from done d group by d.queue_name, d.priority, d.load_id)
  select (select array_agg(a.request_id) from asked a),
         array_agg(d.request_id),
         array_agg(d.queue_name) filter (where d.group_key is not null),
         array_agg(d.group_key) filter (where d.group_key is not null)
    into v_asked, v_done, v_queues, v_groups
    from done d;
  if p_operation_id is not null then
    insert into rowlease.cancellation as c (request_id, operation_id, asked_time, asked_by, kills)
    select u.id, o.operation_id, v_now, coalesce(o.actor, o.login),
           coalesce((o.arguments ->> 'kill')::boolean, false)
      from unnest(v_done || v_asked) as u(id)
      join rowlease.operation o on o.operation_id = p_operation_id
        on conflict on constraint cancellation_pkey do update
       set operation_id = excluded.operation_id, asked_time = excluded.asked_time,
           asked_by = excluded.asked_by, kills = c.kills or excluded.kills;
    perform pg_notify('rowlease_cancel', string_agg(u.id::text, ' '))
       from unnest(v_asked) with ordinality as u(id, place)
      group by (u.place - 1) / 300;
  end if;
  if v_groups is not null then
    perform rowlease_internal.unblock_groups(v_queues, v_groups);
  end if;
  if v_done is not null and rowlease_internal.somebody_waits() then
    perform rowlease_internal.announce_finished(v_done);
  end if;
  return query
    select u.id, case when u.id = any(v_done) then 'ok'
                      when u.id = any(v_asked) then 'cancel_requested'
                      else 'not_found' end
      from unnest(p_request_ids) with ordinality as u(id, place)
     order by u.place;
end $$;
