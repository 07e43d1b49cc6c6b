-- list_queues: list every queue with its totals and the age of its oldest request.
-- params:   none
-- returns:  queue_name text, paused boolean, num_finished bigint, num_failures bigint (failed
--           attempts), oldest_ms bigint (since it was due; null: nothing waits) -- by name
-- errors:   none
-- locks:    none
-- why:      displays and metrics may call this once a second: it adds up counters and probes an
--           index once for each priority at which requests wait, and never counts rows of the
--           queue. Requests that wait for another request of their group are ignored when it looks
--           for the oldest.
create or replace function rowlease.list_queues()
returns table (
  queue_name text, paused boolean, num_finished bigint, num_failures bigint, oldest_ms bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := rowlease.now();
begin
  return query
  with counts as materialized (
    select d.queue_name, d.priority, sum(d.pending) as pending,
           sum(d.num_finished) as num_finished, sum(d.num_failures) as num_failures
      from rowlease.queue_depth d group by d.queue_name, d.priority),
  waiting as materialized (
    select c.queue_name, least(
             rowlease_internal.oldest_due_time(c.queue_name, c.priority, '-infinity', 0),
             (select min(r.due_time) from rowlease_internal.first_past_floors(c.queue_name, c.priority) r)
           ) as due_time
      from counts c where c.pending > 0),
  totals as (
    select c.queue_name, least(sum(c.num_finished), 9223372036854775807)::bigint as num_finished,
           least(sum(c.num_failures), 9223372036854775807)::bigint as num_failures
      from counts c group by c.queue_name)
  select s.queue_name::text, s.paused, coalesce(t.num_finished, 0), coalesce(t.num_failures, 0),
         (select greatest(0, extract(epoch from v_now - min(w.due_time)) * 1000)::bigint
            from waiting w where w.queue_name = s.queue_name having min(w.due_time) is not null)
    from rowlease.queue_settings s
    left join totals t on t.queue_name = s.queue_name
   order by s.queue_name;
end $$;
