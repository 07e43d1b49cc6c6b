-- dequeue_lane: lease the first requests of a queue and of its lane.
-- params:   p_worker_id text, p_queue_name text, p_now timestamptz, p_lease_ms bigint,
--           p_limit integer, p_slots integer
-- returns:  one row per leased request in claim order
-- errors:   none
-- locks:    rows of queue and of lane, exclusive, in claim order, skipping locked ones
-- why:      the plain way of dequeue while a load is in the lane. The requests of a load that have one
--           priority are one block: they are due when the load was promoted, and no request of the
--           queue is between them. So it takes what is before the first block, then of this block, and
--           so on, until it has enough. A request moves from the lane into queue as it is leased,
--           which costs less than an update of a row with so many columns and indexes.
create or replace function rowlease_internal.dequeue_lane(
  p_worker_id text, p_queue_name text, p_now timestamptz, p_lease_ms bigint, p_limit integer,
  p_slots integer
) returns table (
  request_id bigint, queue_name text, kind text, priority integer, requested_time timestamptz,
  due_time timestamptz, locked_time timestamptz, lock_expires_time timestamptz, lock_token bigint,
  num_attempts integer, max_attempts integer, num_crashes integer, group_key text, load_id text,
  payload text)
language plpgsql
as $$
#variable_conflict use_column
declare
  v_left    integer := p_limit;
  v_expires timestamptz := p_now + p_lease_ms * interval '1 ms';
  v_stepped bigint := rowlease_internal.num_stepped_over_in_lane();
  v_block   record;
  v_num     integer;
begin
  select * into v_block from rowlease_internal.next_block(p_queue_name, 256, '-infinity', 0);
  loop
    if v_block.priority is null or v_block.is_behind then
      return query
        with picked as materialized (
          select p.request_id, row_number() over () as place
            from (select f.request_id from (
                    select q.request_id from rowlease.queue q
                     where q.queue_name = p_queue_name and q.status = 'Pending'
                       and not q.group_blocked and not q.returned
                       and q.priority > coalesce(v_block.priority, -1) and q.group_key is null
                     order by q.priority desc, q.due_time, q.request_id for no key update skip locked) f
                  union all
                  select s.request_id from (
                    select q.request_id from rowlease.queue q
                     where q.queue_name = p_queue_name and q.status = 'Pending'
                       and not q.group_blocked and not q.returned and q.priority = v_block.priority
                       and q.group_key is null
                       and (q.due_time, q.request_id) < (v_block.promoted_time, v_block.place)
                     order by q.due_time, q.request_id for no key update skip locked) s
                   limit v_left) p),
        claimed as (
          update rowlease.queue q
             set status = 'Processing', locked_by = p_worker_id, locked_time = p_now,
                 lock_expires_time = v_expires, num_attempts = q.num_attempts + 1,
                 started_time = case when p.place <= p_slots - p_limit + v_left then p_now end,
                 lock_token = q.lock_token + 1 + floor(random() * 4294967296)::bigint
            from picked p where q.request_id = any(array[p.request_id])
          returning q.request_id, q.queue_name::text, q.kind::text, q.priority::integer,
                    q.requested_time, q.due_time, q.locked_time, q.lock_expires_time, q.lock_token,
                    q.num_attempts, q.max_attempts, q.num_crashes, q.group_key::text,
                    q.load_id::text, q.payload::text),
        counted as (
          insert into rowlease.queue_depth (queue_name, priority, pending, processing)
          select p_queue_name, c.priority, -count(*), count(*) from claimed c group by c.priority)
        select c.* from claimed c;
      get diagnostics v_num = row_count;
      v_left := v_left - v_num;
    end if;
    exit when v_left = 0 or v_block.priority is null;
    return query
      with picked as materialized (
        select p.tid, row_number() over () as place
          from (select r.tid
                  from (select * from rowlease.lane_part b where b.run_number = v_block.run_number
                           and b.priority = v_block.priority order by b.part) b
                 cross join lateral (
                   select y.ctid as tid from rowlease.lane y
                    where y.run_number = v_block.run_number and y.priority = v_block.priority
                      and y.part = b.part and y.request_id >= b.first_id
                    order by y.request_id for update skip locked) r
                 limit v_left) p),
      gone as (
        delete from rowlease.lane r using picked p where r.ctid = p.tid returning r.*, p.place),
      claimed as (
        insert into rowlease.queue (
          request_id, queue_name, kind, status, priority, requested_time, due_time, locked_by,
          locked_time, lock_expires_time, started_time, lock_token, num_attempts, max_attempts,
          load_id, payload)
        overriding system value
        select g.request_id, p_queue_name, g.kind, 'Processing', g.priority, v_block.promoted_time,
               v_block.promoted_time, p_worker_id, p_now, v_expires,
               case when g.place <= p_slots - p_limit + v_left then p_now end,
               1 + floor(random() * 4294967296)::bigint, 1, v_block.max_attempts, v_block.load_id,
               g.payload from gone g
        returning request_id, queue_name::text, kind::text, priority::integer, requested_time,
                  due_time, locked_time, lock_expires_time, lock_token, num_attempts, max_attempts,
                  num_crashes, group_key::text, load_id::text, payload::text),
      counted as (
        insert into rowlease.queue_depth (queue_name, priority, pending, processing)
        select p_queue_name, c.priority, -count(*), count(*) from claimed c group by c.priority)
      select c.* from claimed c;
    get diagnostics v_num = row_count;
    v_left := v_left - v_num;
    if rowlease_internal.num_stepped_over_in_lane() - v_stepped > greatest(1000, 5 * p_limit) then
      perform rowlease_internal.raise_lane_floor(v_block.run_number, v_block.priority);
    end if;
    exit when v_left = 0;
    select * into v_block from rowlease_internal.next_block(
      p_queue_name, v_block.priority, v_block.promoted_time, v_block.place);
  end loop;
end $$;
