-- dequeue_before: lease the first requests of a queue that go before a block of its lane.
-- params:   p_worker_id text, p_queue_name text, p_lease_ms bigint, p_limit integer, p_slots integer,
--           p_priority smallint, p_time timestamptz, p_place bigint
--           (the block's priority, and its place among requests of that priority)
-- returns:  one row per leased request in claim order, as dequeue
-- errors:   none
-- locks:    rows of queue, exclusive, in claim order, skipping locked ones
-- why:      as dequeue, in two ranges of the index on waiting requests.
create or replace function rowlease_internal.dequeue_before(
  p_worker_id text, p_queue_name text, p_lease_ms bigint, p_limit integer, p_slots integer,
  p_priority smallint, p_time timestamptz, p_place bigint
) returns table (
  request_id bigint, queue_name text, kind text, priority integer, requested_time timestamptz,
  due_time timestamptz, locked_time timestamptz, lock_expires_time timestamptz, lock_token bigint,
  num_attempts integer, max_attempts integer, num_crashes integer, group_key text, load_id text,
  payload text, headers text, more boolean, wait_ms bigint, floor text)
language plpgsql
as $$
#variable_conflict use_column
begin
  return query
    with picked as materialized (
      select p.request_id, row_number() over () as place, (select rowlease.now()) as written
        from (select f.request_id from (
                select q.request_id from rowlease.queue q
                 where q.queue_name = p_queue_name and q.status = 'Pending'
                   and not q.group_blocked and not q.returned
                   and q.priority > p_priority and q.group_key is null
                 order by q.priority desc, q.due_time, q.request_id for no key update skip locked) f
              union all
              select s.request_id from (
                select q.request_id from rowlease.queue q
                 where q.queue_name = p_queue_name and q.status = 'Pending'
                   and not q.group_blocked and not q.returned and q.priority = p_priority
                   and q.group_key is null and (q.due_time, q.request_id) < (p_time, p_place)
                 order by q.due_time, q.request_id for no key update skip locked) s
               limit p_limit) p),
    claimed as (
      update rowlease.queue q
         set status = 'Processing', locked_by = p_worker_id, locked_time = p.written,
             lock_expires_time = p.written + p_lease_ms * interval '1 ms',
             started_time = case when p.place <= p_slots then p.written end,
             lock_token = q.lock_token + 1 + floor(random() * 4294967296)::bigint,
             num_attempts = q.num_attempts + 1
        from picked p
       where q.request_id = any(array[p.request_id])
      returning q.request_id, q.queue_name::text, q.kind::text, q.priority::integer,
                q.requested_time, q.due_time, q.locked_time, q.lock_expires_time, q.lock_token,
                q.num_attempts, q.max_attempts, q.num_crashes, q.group_key::text,
                q.load_id::text, q.payload::text, q.headers::text),
    counted as (
      insert into rowlease.queue_depth (queue_name, priority, pending, processing)
      select p_queue_name, c.priority, -count(*), count(*) from claimed c group by c.priority)
    select c.*, null::boolean, null::bigint, null::text from claimed c;
end $$;
