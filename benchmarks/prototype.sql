-- The least that a claim, a completion, an exchange and an enqueue can cost: the columns of
-- rowlease.queue, two indexes, no checks, no depth, no policies, groups or limits, no receipts, no
-- repeated calls. benchmarks/server_cost.py compares with it. It is a limit, and no queue: it loses
-- requests whose worker dies.
create schema prototype;

create table prototype.queue (
  like rowlease.queue including defaults including identity
) with (fillfactor = 85);
alter table prototype.queue add primary key (request_id);
create index on prototype.queue (queue_name, priority desc, due_time, request_id)
  where status = 'Pending';
create index on prototype.queue (queue_name, lock_expires_time) where status = 'Processing';

create table prototype.history (like rowlease.queue_history);
create index on prototype.history (request_id);

create function prototype.dequeue(p_worker_id text, p_queue_name text, p_limit integer)
returns setof prototype.queue
language plpgsql
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_ids bigint[];
begin
  v_ids := array(select q.request_id from prototype.queue q
                  where q.queue_name = p_queue_name and q.status = 'Pending'
                  order by q.priority desc, q.due_time, q.request_id
                  limit p_limit for no key update skip locked);
  if v_ids = '{}' then
    return;
  end if;
  return query
    update prototype.queue q
       set status = 'Processing', locked_by = p_worker_id, locked_time = now(),
           lock_expires_time = now() + interval '30 s', started_time = now(),
           lock_token = q.lock_token + 1, num_attempts = q.num_attempts + 1
      from unnest(v_ids) as l(id)
     where q.request_id = any(array[l.id])
    returning q.*;
end $$;

create function prototype.complete(p_request_ids bigint[], p_lock_tokens bigint[])
returns setof bigint
language plpgsql
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
  return query
    with done as (
      delete from prototype.queue q using unnest(p_request_ids, p_lock_tokens) as l(id, token)
       where q.request_id = any(array[l.id]) and q.lock_token = l.token
      returning q.*)
    insert into prototype.history (
      request_id, queue_name, kind, status, priority, requested_time, due_time, locked_by,
      locked_time, lock_expires_time, started_time, lock_token, num_attempts, max_attempts,
      num_crashes, num_abandons, retry_base_ms, dedup_key, group_key, group_blocked, returned,
      cancel_requested, load_id, payload, headers, last_error, completion_time)
    select d.request_id, d.queue_name, d.kind, 'Complete', d.priority, d.requested_time, d.due_time,
           d.locked_by, d.locked_time, d.lock_expires_time, d.started_time, d.lock_token,
           d.num_attempts, d.max_attempts, d.num_crashes, d.num_abandons, d.retry_base_ms,
           d.dedup_key, d.group_key, d.group_blocked, d.returned, d.cancel_requested, d.load_id,
           d.payload, d.headers, d.last_error, now()
      from done d
    returning request_id;
end $$;

create function prototype.exchange(
  p_worker_id text, p_queue_name text, p_limit integer, p_request_ids bigint[],
  p_lock_tokens bigint[]
) returns setof prototype.queue
language plpgsql
as $$
begin
  perform prototype.complete(p_request_ids, p_lock_tokens);
  return query select * from prototype.dequeue(p_worker_id, p_queue_name, p_limit);
end $$;

create function prototype.enqueue_many(p_queue_name text, p_kinds text[], p_payloads text[])
returns setof bigint
language plpgsql
set plan_cache_mode = force_generic_plan set jit = off
as $$
begin
  return query
    insert into prototype.queue (queue_name, kind, status, priority, requested_time, due_time,
                                 max_attempts, payload)
    select p_queue_name, g.kind, 'Pending', 0, now(), now(), 5, g.payload::json
      from unnest(p_kinds, p_payloads) as g(kind, payload)
    returning request_id;
end $$;
