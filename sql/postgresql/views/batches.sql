-- batches: a view of the batches, and of the loads: how many of their requests are finished.
-- params:   none
-- returns:  batch_id, num_requests (how many were enqueued), num_live (of them, how many wait or run),
--           num_complete (are complete), num_failed (are dead letters), num_cancelled (were cancelled or
--           purged), created_time, finished_time (when none of them waited or ran any more)
-- errors:   none
-- locks:    none
-- why:      it adds the counts that are not folded yet, so it is exact.
create or replace view rowlease.batches as
select t.batch_id, t.num_requests, t.num_live, t.num_complete, t.num_failed,
       t.num_requests - t.num_live - t.num_complete - t.num_failed as num_cancelled, t.created_time,
       t.finished_time
  from (select b.batch_id, b.num_requests + coalesce(c.num_requests, 0) as num_requests,
               b.num_live + coalesce(c.num_live, 0) as num_live,
               b.num_complete + coalesce(c.num_complete, 0) as num_complete,
               b.num_failed + coalesce(c.num_failed, 0) as num_failed, b.created_time, b.finished_time
          from rowlease.batch b
          left join (
            select d.load_id, sum(d.scheduled + d.pending + d.processing)::bigint as num_live,
                   sum(d.num_finished)::bigint as num_complete, sum(d.failed)::bigint as num_failed,
                   sum(greatest(d.scheduled + d.pending + d.processing + d.failed + d.num_finished,
                                0))::bigint as num_requests
              from rowlease.queue_depth d
             where d.load_id is not null
             group by d.load_id) c on c.load_id = b.batch_id) t;
