-- correct_counts: set the counts of queues to the counts of their rows.
-- params:   p_queue_names text[] (null: every queue)
-- returns:  as recount, but only for the counters
-- errors:   none
-- locks:    the caller holds the gate without a name
-- why:      one statement counts the rows, adds up the counts and appends the difference, so it
--           sees both in one snapshot. Each transaction commits its rows and its counts together,
--           so the snapshot has either both or neither, and nothing has to wait. Two such
--           statements running concurrently would both append the same difference, so the caller
--           holds the gate, and is at READ COMMITTED.
create or replace function rowlease_internal.correct_counts(p_queue_names text[])
returns table (queue_name text, priority integer, counter text, was bigint, actual bigint)
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = on set enable_hashjoin = on set enable_mergejoin = on
as $$
#variable_conflict use_column
declare
  v_queues text[] := '{}';
  v_name   text;
begin
  for queue_name, priority, counter, was, actual in
    with counts as (
      select d.queue_name, d.priority, d.scheduled as was_scheduled, d.pending as was_pending,
             d.processing as was_processing, d.failed as was_failed,
             0 as scheduled, 0 as pending, 0 as processing, 0 as failed
        from rowlease.queue_depth d
       where p_queue_names is null or d.queue_name = any(p_queue_names)
      union all
      select q.queue_name, q.priority, 0, 0, 0, 0,
             count(*) filter (where q.status = 'Scheduled'),
             count(*) filter (where q.status = 'Pending'),
             count(*) filter (where q.status = 'Processing'),
             count(*) filter (where q.status = 'Failed')
        from rowlease.queue q
       where p_queue_names is null or q.queue_name = any(p_queue_names)
       group by q.queue_name, q.priority
      union all
      select l.queue_name, r.priority, 0, 0, 0, 0, 0, count(*), 0, 0
        from rowlease.load l join rowlease.lane_part p on p.run_number = l.run_number
        join rowlease.lane r on r.run_number = p.run_number and r.writer = p.writer
                            and r.priority = p.priority and r.part = p.part
                            and r.request_id >= p.first_id and r.request_id <= p.last_id
       where l.in_lane and (p_queue_names is null or l.queue_name = any(p_queue_names))
       group by l.queue_name, r.priority),
    compared as materialized (
      select c.queue_name, c.priority, sum(c.was_scheduled) as was_scheduled,
             sum(c.was_pending) as was_pending, sum(c.was_processing) as was_processing,
             sum(c.was_failed) as was_failed, sum(c.scheduled) as scheduled,
             sum(c.pending) as pending, sum(c.processing) as processing, sum(c.failed) as failed
        from counts c group by c.queue_name, c.priority),
    corrected as (
      insert into rowlease.queue_depth (queue_name, priority, scheduled, pending, processing, failed)
      select c.queue_name, c.priority, c.scheduled - c.was_scheduled, c.pending - c.was_pending,
             c.processing - c.was_processing, c.failed - c.was_failed
        from compared c
       where (c.scheduled, c.pending, c.processing, c.failed)
             <> (c.was_scheduled, c.was_pending, c.was_processing, c.was_failed))
    select c.queue_name, c.priority, n.counter, n.was, n.actual
      from compared c
     cross join lateral (values ('scheduled', c.was_scheduled, c.scheduled),
                                ('pending', c.was_pending, c.pending),
                                ('processing', c.was_processing, c.processing),
                                ('failed', c.was_failed, c.failed)) as n(counter, was, actual)
     where n.was <> n.actual
     order by c.queue_name, c.priority desc
  loop
    v_queues := v_queues || queue_name;
    return next;
  end loop;
  foreach v_name in array array(select distinct u.name from unnest(v_queues) as u(name)) loop
    perform rowlease_internal.wake_workers(v_name, false);
    perform pg_notify('rowlease_room', v_name);
  end loop;
end $$;
