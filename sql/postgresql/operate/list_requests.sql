-- list_requests: list the matching requests, in the order in which they were enqueued.
-- params:   p_queue_name text (null: every queue), p_kind text (null: every kind),
--           p_statuses text[] (null: every status), p_limit integer
-- returns:  request_id bigint, queue_name text, kind text, status text, priority integer,
--           due_time timestamptz, dedup_key text, group_key text, num_attempts integer, payload text,
--           last_error text, result text, max_attempts integer, requested_time timestamptz,
--           locked_by text, locked_time timestamptz, completion_time timestamptz, load_id text,
--           headers text, attempts text (JSON: rows of the table attempt, oldest first; null: none)
-- errors:   none
-- locks:    none
-- why:      for people and tests: with a filter that matches few requests, it reads whole tables.
create or replace function rowlease.list_requests(
  p_queue_name text default null, p_kind text default null, p_statuses text[] default null,
  p_limit integer default 1000
) returns table (
  request_id bigint, queue_name text, kind text, status text, priority integer,
  due_time timestamptz, dedup_key text, group_key text, num_attempts integer, payload text,
  last_error text, result text, max_attempts integer, requested_time timestamptz, locked_by text,
  locked_time timestamptz, completion_time timestamptz, load_id text, headers text, attempts text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select r.request_id, r.queue_name::text, r.kind::text, r.status::text, r.priority::integer,
         r.due_time, r.dedup_key::text, r.group_key::text, r.num_attempts, r.payload::text,
         r.last_error, r.result::text, r.max_attempts, r.requested_time, r.locked_by::text,
         r.locked_time, r.completion_time, r.load_id::text, r.headers::text,
         (select json_agg(to_json(t) order by t.lock_token)::text
            from (select a.lock_token, a.attempt_number, a.worker_id, a.started_time, a.ended_time,
                         a.outcome, a.error, a.error_type, a.traceback
                    from rowlease.attempt a where a.request_id = r.request_id) t)
    from rowlease.requests r
   where (p_queue_name is null or r.queue_name = p_queue_name)
     and (p_kind is null or r.kind = p_kind)
     and (p_statuses is null or r.status = any(p_statuses))
   order by r.request_id limit p_limit;
$$;
