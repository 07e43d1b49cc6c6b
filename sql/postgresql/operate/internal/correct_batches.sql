-- correct_batches: set the counts of batches to the counts of their rows; a part of recount.
-- params:   none
-- returns:  batch_id text, counter text -- 'batch_requests' | 'batch_live' | 'batch_complete' |
--           'batch_failed'; was bigint, actual bigint
-- errors:   none
-- locks:    rows of batch, against changes only; the caller has locked the gate without a name
-- why:      one statement counts the rows and adds up the counts, as correct_counts does, and changes a
--           batch by the difference. The history tells how many are complete, as long as it keeps them;
--           it is read only for batches whose other counts are wrong. The rest was cancelled.
create or replace function rowlease_internal.correct_batches()
returns table (batch_id text, counter text, was bigint, actual bigint)
language sql
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = on set enable_hashjoin = on set enable_mergejoin = on
as $$
  with found as materialized (
    select f.load_id, sum(f.num_live) as num_live, sum(f.num_failed) as num_failed
      from (select q.load_id, count(*) filter (where q.status <> 'Failed') as num_live,
                   count(*) filter (where q.status = 'Failed') as num_failed
              from rowlease.queue q where q.load_id is not null group by q.load_id
            union all
            select l.load_id, count(*), 0
              from rowlease.load l join rowlease.lane_part p on p.run_number = l.run_number
              join rowlease.lane r on r.run_number = p.run_number and r.writer = p.writer
                                  and r.priority = p.priority and r.part = p.part
                                  and r.request_id >= p.first_id and r.request_id <= p.last_id
             where l.in_lane group by l.load_id) f
     group by f.load_id),
  wrong as materialized (
    select b.*, coalesce(f.num_live, 0) as live, coalesce(f.num_failed, 0) as failed
      from rowlease.batches b left join found f on f.load_id = b.batch_id
     where (b.num_live, b.num_failed) <> (coalesce(f.num_live, 0), coalesce(f.num_failed, 0))),
  completed as materialized (
    select h.load_id, count(*) as num_complete
      from rowlease.queue_history h
     where h.load_id in (select w.batch_id from wrong w) and h.status = 'Complete'
     group by h.load_id),
  compared as materialized (
    select w.*, greatest(w.num_complete, c.num_complete) as complete,
           greatest(w.num_requests,
                    w.live + w.failed + greatest(w.num_complete, c.num_complete)) as requests
      from wrong w left join completed c on c.load_id = w.batch_id),
  corrected as (
    update rowlease.batch b
       set num_requests = b.num_requests + c.requests - c.num_requests,
           num_live = b.num_live + c.live - c.num_live,
           num_complete = b.num_complete + c.complete - c.num_complete,
           num_failed = b.num_failed + c.failed - c.num_failed
      from compared c where b.batch_id = c.batch_id)
  select c.batch_id::text, n.counter, n.was, n.actual
    from compared c
   cross join lateral (values (1, 'batch_requests', c.num_requests, c.requests::bigint),
                              (2, 'batch_live', c.num_live, c.live::bigint),
                              (3, 'batch_complete', c.num_complete, c.complete::bigint),
                              (4, 'batch_failed', c.num_failed, c.failed::bigint)
                      ) as n(place, counter, was, actual)
   where n.was <> n.actual
   order by c.batch_id, n.place
$$;
