-- get_request: show one request.
-- params:   p_request_id bigint
-- returns:  request_id bigint, queue_name text, kind text, status text, priority integer,
--           due_time timestamptz, dedup_key text, group_key text, num_attempts integer, payload text,
--           last_error text, result text, max_attempts integer, requested_time timestamptz,
--           locked_by text, locked_time timestamptz, completion_time timestamptz, load_id text,
--           headers text, requeued_from bigint (the finished request that it is a copy of; null:
--           none), attempts text (JSON: rows of the table attempt, oldest first; null: none),
--           cancel_time timestamptz (when it was cancelled, or its worker was asked to stop it),
--           cancelled_by text, progress double precision (of a running request, as its task has
--           reported it), progress_note text -- no row if there is no such request
-- errors:   none
-- locks:    none
-- why:      it reads by key, so a program may call it repeatedly until a request is finished. With the
--           limit, the parts of the lane are searched only for an id that no other table has.
create or replace function rowlease.get_request(p_request_id bigint)
returns table (
  request_id bigint, queue_name text, kind text, status text, priority integer,
  due_time timestamptz, dedup_key text, group_key text, num_attempts integer, payload text,
  last_error text, result text, max_attempts integer, requested_time timestamptz, locked_by text,
  locked_time timestamptz, completion_time timestamptz, load_id text, headers text,
  requeued_from bigint, attempts text, cancel_time timestamptz, cancelled_by text,
  progress double precision, progress_note text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off
as $$
  select r.request_id, r.queue_name::text, r.kind::text, r.status::text, r.priority::integer,
         r.due_time, r.dedup_key::text, r.group_key::text, r.num_attempts, r.payload::text,
         r.last_error, r.result::text, r.max_attempts, r.requested_time, r.locked_by::text,
         r.locked_time, r.completion_time, r.load_id::text, r.headers::text,
         (select o.requeued_from from rowlease.requeued o where o.request_id = r.request_id),
         (select json_agg(to_json(t) order by t.lock_token)::text
            from (select a.lock_token, a.attempt_number, a.worker_id, a.started_time, a.ended_time,
                         a.outcome, a.error, a.error_type, a.traceback
                    from rowlease.attempt a where a.request_id = r.request_id) t),
         (select c.asked_time from rowlease.cancellation c where c.request_id = r.request_id),
         (select c.asked_by::text from rowlease.cancellation c where c.request_id = r.request_id),
         (select p.fraction from rowlease.progress p
           where p.request_id = r.request_id and p.lock_token = r.lock_token and r.status = 'Processing'),
         (select p.note::text from rowlease.progress p
           where p.request_id = r.request_id and p.lock_token = r.lock_token and r.status = 'Processing')
    from rowlease.requests r
   where r.request_id = p_request_id limit 1
$$;
