-- requests: a view of every request: waiting, running, failed and finished.
-- params:   none
-- returns:  the columns of queue_history, and error_line (the first line of last_error)
-- errors:   none
-- locks:    none
-- why:      one name for unfinished and finished requests, in the queue, in the lane or in the history.
--           A request in the lane is found by its id through lane_part: the index is not searched for
--           an id that is not between the first and the last of the part. The union with no row makes
--           the parts come first in every plan; else the planner may search the whole index for the
--           id. Nulls are cast so that the columns keep their types.
create or replace view rowlease.requests as
select request_id, queue_name, kind, status, priority, requested_time, due_time, locked_by,
       locked_time, lock_expires_time, started_time, lock_token, num_attempts, max_attempts,
       num_crashes, num_abandons, retry_base_ms, dedup_key, group_key, group_blocked, returned,
       cancel_requested, load_id, payload, headers, last_error, completion_time, null::json as result,
       split_part(last_error, E'\n', 1) as error_line
  from rowlease.queue
union all
select request_id, queue_name, kind, status, priority, requested_time, due_time, locked_by,
       locked_time, lock_expires_time, started_time, lock_token, num_attempts, max_attempts,
       num_crashes, num_abandons, retry_base_ms, dedup_key, group_key, group_blocked, returned,
       cancel_requested, load_id, payload, headers, last_error, completion_time, result,
       split_part(last_error, E'\n', 1)
  from rowlease.queue_history
union all
select r.request_id, l.queue_name, r.kind, 'Pending'::varchar(10), r.priority, l.promoted_time,
       l.promoted_time, null::varchar(200), null, null, null, 0::bigint, 0, l.max_attempts, 0, 0, null,
       null::varchar(400), null::varchar(200), false, false, false, l.load_id, r.payload, r.headers,
       null, null, null, null
  from rowlease.load l
  join rowlease.lane_part p on p.run_number = l.run_number
 cross join lateral (
   select r.request_id, r.kind, r.payload, r.headers, r.priority from rowlease.lane r
    where r.run_number = p.run_number and r.writer = p.writer
      and r.priority = p.priority and r.part = p.part
      and r.request_id between p.first_id and p.last_id
   union all
   select null::bigint, null::varchar(200), null::json, null::json, null::smallint where false) r
 where l.in_lane;
