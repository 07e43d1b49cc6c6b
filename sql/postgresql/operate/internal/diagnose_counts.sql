-- diagnose_counts: find queues whose counts differ from their rows; a part of diagnose.
-- params:   p_limit integer -- a queue with more requests than this is not counted
-- returns:  as diagnose
-- errors:   none
-- locks:    none
-- why:      it sees rows and counts in one snapshot, as recount_queues does, and changes nothing.
create or replace function rowlease_internal.diagnose_counts(p_limit integer)
returns table (finding text, subject text, message text, action text)
language sql stable
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off
as $$
  with counts as materialized (
    select d.queue_name, d.priority::integer as priority, sum(d.scheduled) as scheduled,
           sum(d.pending) as pending, sum(d.processing) as processing, sum(d.failed) as failed
      from rowlease.queue_depth d group by 1, 2),
  few as materialized (
    select s.queue_name
      from rowlease.queue_settings s left join counts c on c.queue_name = s.queue_name
     group by s.queue_name
    having coalesce(sum(c.scheduled + c.pending + c.processing + c.failed), 0) <= p_limit),
  different as (
    select e.queue_name
      from (select c.* from counts c join few f on f.queue_name = c.queue_name
            union all
            select f.queue_name, r.priority, -count(*) filter (where r.status = 'Scheduled'),
                   -count(*) filter (where r.status = 'Pending'),
                   -count(*) filter (where r.status = 'Processing'),
                   -count(*) filter (where r.status = 'Failed')
              from few f
             cross join lateral rowlease_internal.sample_requests(f.queue_name, p_limit + 1) r
             group by f.queue_name, r.priority) e
     group by e.queue_name, e.priority
    having sum(e.scheduled) <> 0 or sum(e.pending) <> 0 or sum(e.processing) <> 0
        or sum(e.failed) <> 0
    union
    select c.queue_name from counts c
     where least(c.scheduled, c.pending, c.processing, c.failed) < 0)
  select distinct 'counts', d.queue_name::text,
         format('the counts of the queue "%s" differ from its rows', d.queue_name),
         format('correct them: select * from rowlease.%s(%L)', 'recount', d.queue_name)
    from different d;
$$;
