-- maintain: do the housekeeping; call this every second or so.
-- params:   p_limit integer -- how many rows a step may touch
-- returns:  what text, num_rows bigint -- one row per step that did something
-- errors:   none
-- locks:    the gate without a name, without waiting; rows of queue, load and batch, skipping locked ones;
--           the partitions of queue_history when days change, after at most 100 ms of waiting
-- why:      one caller at a time does the work; other callers return immediately. Every step is
--           bounded and skips locked rows, so any worker may call this while it runs tasks.
create or replace function rowlease.maintain(p_limit integer default 1000)
returns table (what text, num_rows bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_now   timestamptz := rowlease.now();
  v_queue text;
begin
  perform from rowlease.gate g where g.queue_name = '' for no key update skip locked;
  if not found then
    insert into rowlease.gate (queue_name)  -- the row may have been deleted by hand
    select '' where not exists (select from rowlease.gate g where g.queue_name = '')
    on conflict do nothing;
    return;
  end if;
  what := 'counts folded';
  num_rows := rowlease_internal.fold_batches(null, p_limit * 10);
  if num_rows > 0 then return next; end if;
  what := 'batches finished';
  num_rows := rowlease_internal.finish_idle_batches(null, v_now, p_limit);
  if num_rows > 0 then return next; end if;

  what := 'times set back';
  num_rows := rowlease_internal.set_back_times(v_now);
  if num_rows > 0 then return next; end if;

  for v_queue in select s.queue_name from rowlease.queue_settings s order by 1 loop
    what := 'leases broken';
    num_rows := rowlease_internal.break_expired(v_queue, v_now, '-infinity', p_limit);
    if num_rows > 0 then
      perform rowlease_internal.wake_workers(v_queue, false);
      return next;
    end if;
    what := 'scheduled requests due';
    num_rows := rowlease_internal.wake_due(v_queue, v_now, '-infinity', p_limit);
    if num_rows > 0 then
      perform rowlease_internal.wake_workers(v_queue, false);
      return next;
    end if;
  end loop;
  what := 'counts corrected';
  num_rows := rowlease_internal.recount_queues(p_limit);
  if num_rows > 0 then return next; end if;

  what := 'counts folded';
  num_rows := rowlease_internal.fold_depth(p_limit * 10);
  if num_rows > 0 then return next; end if;

  what := 'receipts dropped';
  delete from rowlease.enqueue_receipt r
   where r.receipt_key = any(array(select o.receipt_key from rowlease.enqueue_receipt o
                                    where o.received_time < v_now - interval '1 day'
                                    order by o.received_time limit p_limit for update skip locked));
  get diagnostics num_rows = row_count;
  if num_rows > 0 then return next; end if;

  what := 'workers removed';
  delete from rowlease.worker w where w.heartbeat_time < v_now - interval '1 hour';
  get diagnostics num_rows = row_count;
  if num_rows > 0 then return next; end if;

  what := 'progress dropped';
  num_rows := rowlease_internal.sweep_progress(p_limit);
  if num_rows > 0 then return next; end if;
  what := 'attempts dropped';
  num_rows := rowlease_internal.sweep_attempts(v_now, p_limit);
  if num_rows > 0 then return next; end if;
  what := 'operations dropped';
  num_rows := rowlease_internal.sweep_operations(v_now, p_limit);
  if num_rows > 0 then return next; end if;
  what := 'batches dropped';
  num_rows := rowlease_internal.sweep_batches(v_now, p_limit);
  if num_rows > 0 then return next; end if;
  what := 'staged rows dropped';
  num_rows := rowlease_internal.sweep_staging(v_now, p_limit * 10)
              + rowlease_internal.sweep_lane(p_limit * 10);
  if num_rows > 0 then return next; end if;

  what := 'waiters expired';
  delete from rowlease.queue_waiter w where w.expires_time < v_now - interval '1 minute';
  get diagnostics num_rows = row_count;
  if num_rows > 0 then return next; end if;

  what := 'starts forgotten';
  num_rows := rowlease_internal.sweep_starts(v_now, p_limit * 10);
  if num_rows > 0 then return next; end if;

  what := 'history partitions';
  num_rows := rowlease_internal.roll_history_partitions(v_now);
  if num_rows > 0 then return next; end if;
end $$;
