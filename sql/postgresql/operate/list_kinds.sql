-- list_kinds: list what became of the requests of each kind, of those that were enqueued last.
-- params:   p_look integer (how many finished requests to read), p_limit integer (how many kinds)
-- returns:  kind text, num_complete bigint, num_cancelled bigint, num_failed bigint (dead letters),
--           num_failures bigint (attempts that failed), wait_p50_ms bigint (of the completed: from due
--           to claimed), run_p50_ms bigint (from claimed to completed), run_p95_ms bigint -- the
--           most frequent kind first
-- errors:   none
-- locks:    none
-- why:      counts do not know kinds, because completions would pay for that. So it reads the p_look
--           finished requests that were enqueued last, by the index of ids, and the dead letters that
--           were enqueued since the first of these, or all if there are fewer finished requests: at
--           most p_look, as many of each queue, but at least 100. A percentile is the value of one
--           request.
create or replace function rowlease.list_kinds(
  p_look integer default 10000, p_limit integer default 100)
returns table (
  kind text, num_complete bigint, num_cancelled bigint, num_failed bigint, num_failures bigint,
  wait_p50_ms bigint, run_p50_ms bigint, run_p95_ms bigint)
language sql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
  with finished as materialized (
    select h.request_id, h.kind, h.status, h.num_attempts, h.due_time, h.locked_time, h.completion_time
      from rowlease.queue_history h
     order by h.request_id desc limit p_look),
  dead as (
    select l.kind, l.num_attempts
      from (select s.queue_name, greatest(p_look / count(*) over (), 100) as look
              from rowlease.queue_settings s) s
     cross join lateral (
       select q.kind, q.num_attempts from rowlease.queue q
        where q.status = 'Failed'
          and (q.queue_name, q.request_id) >= (s.queue_name, coalesce((
                select min(f.request_id) from finished f having count(*) = p_look), 0))
          and (q.queue_name, q.request_id) <= (s.queue_name, 9223372036854775807)
        order by q.queue_name desc, q.request_id desc limit s.look) l),
  seen as (
    select f.kind, f.status, f.num_attempts,
           greatest(0, extract(epoch from f.locked_time - f.due_time) * 1000)::bigint as wait_ms,
           greatest(0, extract(epoch from f.completion_time - f.locked_time) * 1000)::bigint as run_ms
      from finished f
    union all
    select d.kind, 'Failed', d.num_attempts, null, null from dead d)
  select s.kind::text, count(*) filter (where s.status = 'Complete'),
         count(*) filter (where s.status = 'Cancelled'),
         count(*) filter (where s.status = 'Failed'),
         sum(s.num_attempts) - count(*) filter (where s.status = 'Complete'),
         percentile_disc(0.5) within group (order by s.wait_ms) filter (where s.status = 'Complete'),
         percentile_disc(0.5) within group (order by s.run_ms) filter (where s.status = 'Complete'),
         percentile_disc(0.95) within group (order by s.run_ms) filter (where s.status = 'Complete')
    from seen s
   group by s.kind
   order by count(*) desc, s.kind limit p_limit;
$$;
