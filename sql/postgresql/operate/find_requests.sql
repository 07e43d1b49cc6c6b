-- find_requests: find requests, newest first, in steps of bounded cost.
-- params:   p_filter jsonb (queue, status: an array, kind, error: a part of last_error in any case,
--           dedup_key, group_key, load_id, worker: its id, host or host:pid, ids: an array of at most
--           10,000, min_priority, max_priority, min_age_ms, max_age_ms: since the enqueue, since,
--           until: times of the enqueue, in UTC), p_after bigint (look below this id),
--           p_limit integer (how many to return), p_look integer (how many to look at)
-- returns:  the columns of get_request, and after bigint: rows in which it is null, then one row with
--           nulls in all other columns, in which it is the p_after of the next call (null: there are
--           no more)
-- errors:   RL001 as check_filter
-- locks:    none
-- why:      the filter is JSON, so that every routine that takes one has one parameter for it.
create or replace function rowlease.find_requests(
  p_filter jsonb default '{}', p_after bigint default null, p_limit integer default 100,
  p_look integer default 10000
) returns table (
  request_id bigint, queue_name text, kind text, status text, priority integer,
  due_time timestamptz, dedup_key text, group_key text, num_attempts integer, payload text,
  last_error text, result text, max_attempts integer, requested_time timestamptz, locked_by text,
  locked_time timestamptz, completion_time timestamptz, load_id text, headers text,
  requeued_from bigint, attempts text, cancel_time timestamptz, cancelled_by text,
  progress double precision, progress_note text, after bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_filter jsonb := coalesce(p_filter, '{}');
  v_found  record;
begin
  perform rowlease_internal.check_filter(v_filter);
  select * into v_found
    from rowlease_internal.find_ids(v_filter, rowlease.now(), p_after, p_limit, p_look);
  return query
    select g.*, null::bigint from unnest(v_found.request_ids) with ordinality as u(id, place)
     cross join lateral rowlease.get_request(u.id) g order by u.place;
  after := v_found.after;
  return next;
end $$;
