-- lease_from_lane: lease the first requests of a queue while loads are in its lane.
-- params:   p_worker_id text, p_queue_name text, p_lease_ms bigint, p_limit integer, p_slots integer,
--           p_first_priority smallint, p_first_time timestamptz, p_first_id bigint
--           (the first request of queue; null: none)
-- returns:  one row per leased request in claim order, as dequeue
-- errors:   none
-- locks:    rows of queue and of lane, exclusive, in claim order, skipping locked ones
-- why:      a load in the lane has a block of requests for each of its priorities; all are due at the
--           time of its promotion. The claim takes the requests of queue that come before the first
--           block, then those of the block, then those of queue before the next block, and so on.
--           dequeue leases what comes after the last block. A request moves from the lane into queue
--           as it is leased. This delete and insert cost less than the update of a row of queue,
--           which has many columns and indexes.
create or replace function rowlease_internal.lease_from_lane(
  p_worker_id text, p_queue_name text, p_lease_ms bigint, p_limit integer, p_slots integer,
  p_first_priority smallint, p_first_time timestamptz, p_first_id bigint
) returns table (
  request_id bigint, queue_name text, kind text, priority integer, requested_time timestamptz,
  due_time timestamptz, locked_time timestamptz, lock_expires_time timestamptz, lock_token bigint,
  num_attempts integer, max_attempts integer, num_crashes integer, group_key text, load_id text,
  payload text, headers text, more boolean, wait_ms bigint, floor text)
language plpgsql
as $$
#variable_conflict use_column
declare
  v_left  integer := p_limit;
  v_block record;
  v_gone  bigint;
  v_num   integer;
begin
  select * into v_block from rowlease_internal.next_block(p_queue_name, 256, '-infinity', 0);
  while v_block.priority is not null loop
    if p_first_priority > v_block.priority
       or p_first_priority = v_block.priority
          and (p_first_time, p_first_id) < (v_block.promoted_time, v_block.place) then
      return query
        select d.* from rowlease_internal.dequeue_before(
          p_worker_id, p_queue_name, p_lease_ms, v_left, p_slots - p_limit + v_left,
          v_block.priority, v_block.promoted_time, v_block.place) d;
      get diagnostics v_num = row_count;
      v_left := v_left - v_num;
      exit when v_left = 0;
    end if;
    v_gone := rowlease_internal.num_stepped_over_in_lane();
    return query
      with picked as materialized (
        select p.tid, row_number() over () as place, (select rowlease.now()) as written
          from (select r.tid
                  from (select * from rowlease.lane_part b
                         where b.run_number = v_block.run_number
                           and b.priority = v_block.priority order by b.part) b
                 cross join lateral (
                   select y.ctid as tid from rowlease.lane y
                    where y.run_number = v_block.run_number and y.writer = b.writer
                      and y.priority = v_block.priority and y.part = b.part
                      and y.request_id >= b.first_id and y.request_id <= b.last_id
                    order by y.request_id for update skip locked) r
                 limit v_left) p),
      gone as (
        delete from rowlease.lane r using picked p where r.ctid = p.tid
        returning r.*, p.place, p.written)
      insert into rowlease.queue (
        request_id, queue_name, kind, status, priority, requested_time, due_time, locked_by,
        locked_time, lock_expires_time, started_time, lock_token, num_attempts, max_attempts,
        load_id, payload, headers)
      overriding system value
      select g.request_id, p_queue_name, g.kind, 'Processing', g.priority, v_block.promoted_time,
             v_block.promoted_time, p_worker_id, g.written, g.written + p_lease_ms * interval '1 ms',
             case when g.place <= p_slots - p_limit + v_left then g.written end,
             1 + floor(random() * 4294967296)::bigint, 1, v_block.max_attempts, v_block.load_id,
             g.payload, g.headers from gone g
      returning request_id, queue_name::text, kind::text, priority::integer, requested_time,
                due_time, locked_time, lock_expires_time, lock_token, num_attempts,
                max_attempts, num_crashes, group_key::text, load_id::text, payload::text,
                headers::text, null::boolean, null::bigint, null::text;
    get diagnostics v_num = row_count;
    if v_num > 0 then
      insert into rowlease.queue_depth (queue_name, priority, pending, processing)
      values (p_queue_name, v_block.priority, -v_num, v_num);
    end if;
    v_left := v_left - v_num;
    if v_left > 0
       or rowlease_internal.num_stepped_over_in_lane() - v_gone > greatest(1000, 5 * p_limit) then
      perform rowlease_internal.raise_lane_floor(v_block.run_number, v_block.priority);
    end if;
    exit when v_left = 0;
    select * into v_block from rowlease_internal.next_block(
      p_queue_name, v_block.priority, v_block.promoted_time, v_block.place);
  end loop;
end $$;
