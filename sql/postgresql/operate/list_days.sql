-- list_days: list how many requests were finished in each day, of a queue or of all.
-- params:   p_queue_name text (null: all queues), p_days integer (how many days, the last is today)
-- returns:  day date (UTC), num_finished bigint (requests completed in it), num_failures bigint
--           (attempts that failed in it), num_failed bigint (dead letters at its end; today: now) --
--           the latest first
-- errors:   none
-- locks:    none
-- why:      it reads one row for each day and queue, and no requests. A day in which maintain was not
--           called has no row; what was finished in it counts for the day before.
create or replace function rowlease.list_days(p_queue_name text default null, p_days integer default 30)
returns table (day date, num_finished bigint, num_failures bigint, num_failed bigint)
language sql stable security definer
set search_path = pg_catalog, pg_temp set timezone = 'UTC'
set jit = off set enable_seqscan = off
as $$
  with totals as (
    select d.queue_name, d.day, d.num_finished::numeric, d.num_failures::numeric,
           d.num_failed::numeric
      from rowlease.queue_day d
     where (p_queue_name is null or d.queue_name = p_queue_name)
       and d.day > rowlease.now()::date - p_days
    union all
    select q.queue_name, '9999-12-31', sum(q.num_finished), sum(q.num_failures), sum(q.failed)
      from rowlease.queue_depth q
     where p_queue_name is null or q.queue_name = p_queue_name
     group by q.queue_name),
  differences as (
    select t.day, lead(t.num_finished) over q - t.num_finished as num_finished,
           lead(t.num_failures) over q - t.num_failures as num_failures,
           lead(t.num_failed) over q as num_failed
      from totals t
    window q as (partition by t.queue_name order by t.day))
  select d.day, greatest(least(coalesce(sum(d.num_finished), 0), 9223372036854775807), 0)::bigint,
         greatest(least(coalesce(sum(d.num_failures), 0), 9223372036854775807), 0)::bigint,
         greatest(coalesce(sum(d.num_failed), 0), 0)::bigint
    from differences d
   where d.day < '9999-12-31'
   group by d.day
   order by d.day desc;
$$;
