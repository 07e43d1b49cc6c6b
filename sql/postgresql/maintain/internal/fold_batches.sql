-- fold_batches: add the counts of batches to their rows.
-- params:   p_batch_id text (null: every batch), p_limit integer
-- returns:  bigint -- how many rows were folded
-- errors:   none
-- locks:    rows of queue_depth, exclusive, skipping locked ones; rows of batch, against changes only
-- why:      a step of maintain, finish_batches and delete_queue. The caller has locked the gate without a
--           name, or the batch: two callers that change several batches could wait for each other. The
--           sum of a row of counts is above 0 if it enqueued requests, and below 0 if it cancelled or
--           purged them. All other changes move requests from one count to another.
create or replace function rowlease_internal.fold_batches(p_batch_id text, p_limit integer)
returns bigint
language sql
set search_path = pg_catalog, pg_temp
as $$
  with folded as (
    delete from rowlease.queue_depth d
     where d.ctid = any(array(select f.ctid from rowlease.queue_depth f
                               where f.load_id = coalesce(p_batch_id, f.load_id)
                               limit p_limit for update skip locked))
    returning d.*, d.scheduled + d.pending + d.processing as live),
  added as (
    insert into rowlease.queue_depth (queue_name, priority, scheduled, pending, processing, failed,
                                      num_finished, num_failures)
    select f.queue_name, f.priority, sum(f.scheduled), sum(f.pending), sum(f.processing),
           sum(f.failed), least(sum(f.num_finished), 9223372036854775807),
           least(sum(f.num_failures), 9223372036854775807)
      from folded f group by f.queue_name, f.priority),
  counted as (
    update rowlease.batch b
       set num_requests = b.num_requests + c.num_requests, num_live = b.num_live + c.num_live,
           num_complete = b.num_complete + c.num_complete, num_failed = b.num_failed + c.num_failed
      from (select f.load_id, sum(greatest(f.live + f.failed + f.num_finished, 0)) as num_requests,
                   sum(f.live) as num_live, sum(f.num_finished) as num_complete,
                   sum(f.failed) as num_failed
              from folded f group by f.load_id) c
     where b.batch_id = c.load_id)
  select count(*) from folded;
$$;
