-- fold_depth: combine many rows of counts into few.
-- params:   p_limit integer
-- returns:  bigint -- how many rows were folded
-- errors:   none
-- locks:    rows of queue_depth, exclusive, skipping locked ones
-- why:      counts are appended so that no transaction waits for a counter; this routine adds them
--           up. The new row and the removal of the old rows become visible together. Counts of batches
--           are left to fold_batches.
create or replace function rowlease_internal.fold_depth(p_limit integer) returns bigint
language sql
set search_path = pg_catalog, pg_temp
as $$
  with folded as (
    delete from rowlease.queue_depth d
     where d.ctid = any(array(select f.ctid from rowlease.queue_depth f
                               where f.load_id is null
                               limit p_limit for update skip locked))
    returning d.*),
  added as (
    insert into rowlease.queue_depth (queue_name, priority, scheduled, pending, processing, failed,
                                      num_finished, num_failures)
    select f.queue_name, f.priority, sum(f.scheduled), sum(f.pending), sum(f.processing),
           sum(f.failed), least(sum(f.num_finished), 9223372036854775807),
           least(sum(f.num_failures), 9223372036854775807)
      from folded f group by f.queue_name, f.priority
    having sum(f.scheduled) <> 0 or sum(f.pending) <> 0 or sum(f.processing) <> 0
        or sum(f.failed) <> 0 or sum(f.num_finished) <> 0 or sum(f.num_failures) <> 0)
  select count(*) from folded;
$$;
