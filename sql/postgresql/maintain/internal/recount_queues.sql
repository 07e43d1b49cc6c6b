-- recount_queues: correct the counts of queues and unblock groups, at a bounded cost.
-- params:   p_limit integer -- a queue with more requests than this is not counted
-- returns:  bigint -- how many counts were wrong and how many requests were blocked by mistake
-- errors:   none
-- locks:    as correct_counts and free_groups
-- why:      rows may have been changed by hand. If the counts of a queue show few requests, its
--           rows are counted. In a larger queue, this routine notices a count below 0, a count
--           without a request and a request without a count; other mistakes are found when the
--           queue has become small, or by recount. While a snapshot is held open, dead entries
--           slow this routine down; then it runs less often, for at most a hundredth of the time.
create or replace function rowlease_internal.recount_queues(p_limit integer) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = on set enable_hashjoin = on set enable_mergejoin = on
as $$
declare
  v_started timestamptz := clock_timestamp();
  v_after   timestamptz;
  v_cost    interval;
  v_few     text[];
  v_wrong   text[];
  v_corrected  bigint;
begin
  v_after := nullif(current_setting('rowlease.recount_after', true), '');
  if v_started < v_after and v_started > v_after - interval '1 hour' then  -- else the clock was set back
    return 0;
  end if;
  with counts as materialized (
    select d.queue_name, d.priority::integer as priority, sum(d.scheduled) as scheduled,
           sum(d.pending) as pending, sum(d.processing) as processing, sum(d.failed) as failed
      from rowlease.queue_depth d group by 1, 2),
  queues as materialized (
    select s.queue_name,
           coalesce(sum(c.scheduled + c.pending + c.processing + c.failed), 0) <= p_limit as is_few,
           min(least(c.scheduled, c.pending, c.processing, c.failed)) < 0 as is_below,
           array[sum(c.scheduled) > 0, sum(c.pending) > 0, sum(c.processing) > 0,
                 sum(c.failed) > 0] as has
      from rowlease.queue_settings s left join counts c on c.queue_name = s.queue_name
     group by s.queue_name),
  found as materialized (
    select u.queue_name, r.priority, count(*) filter (where r.status = 'Scheduled') as scheduled,
           count(*) filter (where r.status = 'Pending') as pending,
           count(*) filter (where r.status = 'Processing') as processing,
           count(*) filter (where r.status = 'Failed') as failed
      from queues u
     cross join lateral rowlease_internal.sample_requests(
       u.queue_name, case when u.is_few then p_limit + 1 else 1 end) r
     group by 1, 2),
  different as (
    select e.queue_name
      from (select c.* from counts c
            union all
            select f.queue_name, f.priority, -f.scheduled, -f.pending, -f.processing, -f.failed
              from found f) e
     group by e.queue_name, e.priority
    having sum(e.scheduled) <> 0 or sum(e.pending) <> 0 or sum(e.processing) <> 0
        or sum(e.failed) <> 0)
  select array_agg(u.queue_name) filter (where u.is_few),
         array_agg(u.queue_name) filter (
           where u.is_below or u.is_few and u.queue_name in (select d.queue_name from different d)
              or not u.is_few and u.has is distinct from (
                select array[sum(f.scheduled) > 0, sum(f.pending) > 0, sum(f.processing) > 0,
                             sum(f.failed) > 0]
                  from found f where f.queue_name = u.queue_name))
    into v_few, v_wrong
    from queues u;
  v_corrected := (select count(*) from rowlease_internal.free_groups(v_few));
  if v_wrong is not null then
    v_corrected := v_corrected + (select count(*) from rowlease_internal.correct_counts(v_wrong));
  end if;
  v_cost := clock_timestamp() - v_started;
  if v_cost > interval '10 ms' then
    perform set_config('rowlease.recount_after', (clock_timestamp() + 100 * v_cost)::text, false);
  end if;
  return v_corrected;
end $$;
