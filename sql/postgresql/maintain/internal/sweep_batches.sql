-- sweep_batches: drop batches that were finished long ago.
-- params:   p_now timestamptz, p_limit integer
-- returns:  bigint -- how many were dropped
-- errors:   none
-- locks:    rows of batch, exclusive, skipping locked ones
-- why:      a step of maintain. A finished batch is kept for the longest retention of all queues. It
--           is kept for longer while it has dead letters or a requeued one runs, because these would
--           change the counts of a later batch with this id.
create or replace function rowlease_internal.sweep_batches(p_now timestamptz, p_limit integer)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off
as $$
declare
  v_days  integer := (select max(s.retention_days) from rowlease.queue_settings s);
  v_count bigint;
begin
  delete from rowlease.batch b
   where b.batch_id = any(array(select o.batch_id from rowlease.batch o
                                 where o.finished_time < p_now - make_interval(days => v_days)
                                   and o.num_live = 0 and o.num_failed = 0
                                 order by o.finished_time limit p_limit for update skip locked));
  get diagnostics v_count = row_count;
  return v_count;
end $$;
