-- maintain_step: do one step of the housekeeping.
-- params:   p_what text (what the step does), p_queue_name text (for steps that work queue by queue),
--           p_now timestamptz, p_limit integer
-- returns:  bigint -- how many rows it changed
-- errors:   none
-- locks:    the caller holds the gate without a name; as the routine of the step
-- why:      maintain makes each step a subtransaction, so that a step that fails stops no other.
create or replace function rowlease_internal.maintain_step(
  p_what text, p_queue_name text, p_now timestamptz, p_limit integer
) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_rows bigint;
begin
  case p_what
    when 'counts of batches folded' then
      return rowlease_internal.fold_batches(null, p_limit * 10);
    when 'batches finished' then
      return rowlease_internal.finish_idle_batches(null, p_now, p_limit);
    when 'times set back' then
      return rowlease_internal.set_back_times(p_now);
    when 'leases broken' then
      v_rows := rowlease_internal.break_expired(p_queue_name, p_now, '-infinity', p_limit);
    when 'scheduled requests due' then
      v_rows := rowlease_internal.wake_due(p_queue_name, p_now, '-infinity', p_limit);
    when 'counts corrected' then
      return rowlease_internal.recount_queues(p_limit);
    when 'counts folded' then
      return rowlease_internal.fold_depth(p_limit * 10);
    when 'receipts dropped' then
      delete from rowlease.enqueue_receipt r
       where r.receipt_key = any(array(
               select o.receipt_key from rowlease.enqueue_receipt o
                where o.received_time < p_now - interval '1 day'
                order by o.received_time limit p_limit for update skip locked));
      get diagnostics v_rows = row_count;
      return v_rows;
    when 'workers removed' then
      delete from rowlease.worker w where w.heartbeat_time < p_now - interval '1 hour';
      get diagnostics v_rows = row_count;
      return v_rows;
    when 'progress dropped' then
      return rowlease_internal.sweep_progress(p_limit);
    when 'attempts dropped' then
      return rowlease_internal.sweep_attempts(p_now, p_limit);
    when 'operations dropped' then
      return rowlease_internal.sweep_operations(p_now, p_limit);
    when 'batches dropped' then
      return rowlease_internal.sweep_batches(p_now, p_limit);
    when 'staged rows dropped' then
      perform rowlease_internal.sweep_loads(p_now, p_limit);
      return rowlease_internal.sweep_lane(p_limit * 100);
    when 'waiters expired' then
      delete from rowlease.queue_waiter w where w.expires_time < p_now - interval '1 minute';
      get diagnostics v_rows = row_count;
      return v_rows;
    when 'starts forgotten' then
      return rowlease_internal.sweep_starts(p_now, p_limit * 10);
    when 'days begun' then
      return rowlease_internal.begin_day(p_now);
    when 'history partitions' then
      return rowlease_internal.roll_history_partitions(p_now);
  end case;
  if v_rows > 0 then
    perform rowlease_internal.wake_workers(p_queue_name, false);
  end if;
  return v_rows;
end $$;
