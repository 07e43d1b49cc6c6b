-- measure_waits: measure how long completed requests have waited and run, for each queue and for all.
-- params:   p_within_ms bigint (only requests completed within this time), p_look integer (the
--           maximum number of requests to read)
-- returns:  queue_name text (null: all queues), num_requests bigint, wait_p50_ms bigint (from due to
--           claimed), wait_p95_ms bigint, wait_p99_ms bigint, run_p50_ms bigint (from claimed to
--           completed), run_p95_ms bigint, run_p99_ms bigint -- all queues first, then by name
-- errors:   none
-- locks:    none
-- why:      displays call it every few seconds. An index by completion_time finds the rows, and
--           p_look bounds them: in a busy database, the figures are of the requests that were
--           completed first in this time. A percentile is the value of one request; p50 of two values
--           is the smaller one.
create or replace function rowlease.measure_waits(
  p_within_ms bigint default 60000, p_look integer default 2000)
returns table (
  queue_name text, num_requests bigint, wait_p50_ms bigint, wait_p95_ms bigint, wait_p99_ms bigint,
  run_p50_ms bigint, run_p95_ms bigint, run_p99_ms bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_since timestamptz := rowlease.now() - p_within_ms * interval '1 millisecond';
begin
  return query
  with sampled as materialized (
    select h.queue_name::text as queue_name,
           greatest(0, extract(epoch from h.locked_time - h.due_time) * 1000)::bigint as wait_ms,
           greatest(0, extract(epoch from h.completion_time - h.locked_time) * 1000)::bigint as run_ms
      from rowlease.queue_history h
     where h.completion_time > v_since and h.status = 'Complete'
     limit p_look),
  twice as (
    select s.queue_name, s.wait_ms, s.run_ms from sampled s
    union all
    select null, s.wait_ms, s.run_ms from sampled s),
  placed as (
    select t.queue_name, t.wait_ms, t.run_ms, count(*) over q as num_requests,
           row_number() over (partition by t.queue_name order by t.wait_ms) as wait_place,
           row_number() over (partition by t.queue_name order by t.run_ms) as run_place
      from twice t
    window q as (partition by t.queue_name))
  select p.queue_name, max(p.num_requests),
         max(case when p.wait_place <= (p.num_requests + 1) / 2 then p.wait_ms end),
         max(case when p.wait_place <= (p.num_requests * 95 + 99) / 100 then p.wait_ms end),
         max(case when p.wait_place <= (p.num_requests * 99 + 99) / 100 then p.wait_ms end),
         max(case when p.run_place <= (p.num_requests + 1) / 2 then p.run_ms end),
         max(case when p.run_place <= (p.num_requests * 95 + 99) / 100 then p.run_ms end),
         max(case when p.run_place <= (p.num_requests * 99 + 99) / 100 then p.run_ms end)
    from placed p
   group by p.queue_name
   order by p.queue_name nulls first;
end $$;
