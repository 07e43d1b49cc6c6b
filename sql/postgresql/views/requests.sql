-- requests: a view of every request: waiting, running, failed and finished.
-- params:   none
-- returns:  the columns of queue_history
-- errors:   none
-- locks:    none
-- why:      one name for unfinished and finished requests.
create or replace view rowlease.requests as
select request_id, queue_name, kind, status, priority, requested_time, due_time, locked_by,
       locked_time, lock_expires_time, started_time, lock_token, num_attempts, max_attempts,
       num_crashes, num_abandons, retry_base_ms, dedup_key, group_key, group_blocked, returned,
       cancel_requested, load_id, payload, last_error, completion_time, null::json as result
  from rowlease.queue
union all
select request_id, queue_name, kind, status, priority, requested_time, due_time, locked_by,
       locked_time, lock_expires_time, started_time, lock_token, num_attempts, max_attempts,
       num_crashes, num_abandons, retry_base_ms, dedup_key, group_key, group_blocked, returned,
       cancel_requested, load_id, payload, last_error, completion_time, result
  from rowlease.queue_history;
