-- maintain: do the housekeeping; call this every second or so.
-- params:   p_limit integer -- how many rows a step may touch
-- returns:  what text, num_rows bigint, error text (null: none; else the step failed and did nothing)
--           -- one row per step that did something or failed
-- errors:   25000 as refuse_old_snapshot
-- locks:    the gate without a name, without waiting; rows of queue, load and batch, skipping locked ones;
--           the partitions of queue_history when days change, after at most 100 ms of waiting
-- why:      one caller at a time does the work; other callers return immediately. Every step is
--           bounded and skips locked rows, so any worker may call this while it runs tasks. A step that
--           fails changes nothing, and the others go on: one row that somebody has changed by hand must
--           not stop the leases of all queues. diagnose shows the failure until the step succeeds. A
--           deadlock or a lock that was not granted is no failure; the next call tries again.
create or replace function rowlease.maintain(p_limit integer default 1000)
returns table (what text, num_rows bigint, error text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  c_steps constant text[] := array[
    'counts of batches folded', 'batches finished', 'times set back', 'leases broken',
    'scheduled requests due', 'counts corrected', 'counts folded', 'receipts dropped', 'workers removed', 'progress dropped',
    'attempts dropped', 'operations dropped', 'batches dropped', 'staged rows dropped',
    'waiters expired', 'starts forgotten', 'days begun', 'history partitions'];
  v_now    timestamptz := rowlease.now();
  v_step   record;
  v_failed text[] := '{}';
begin
  perform rowlease_internal.refuse_old_snapshot();
  perform from rowlease.gate g where g.queue_name = '' for no key update skip locked;
  if not found then
    insert into rowlease.gate (queue_name)  -- the row may have been deleted by hand
    select '' where not exists (select from rowlease.gate g where g.queue_name = '')
    on conflict do nothing;
    return;
  end if;
  for v_step in
    select s.name, coalesce(q.queue_name, '') as queue_name
      from unnest(c_steps) with ordinality as s(name, place)
      left join rowlease.queue_settings q
             on s.name = any(array['leases broken', 'scheduled requests due'])
     order by s.place, q.queue_name
  loop
    begin
      what := v_step.name;
      error := null;
      num_rows := rowlease_internal.maintain_step(v_step.name, v_step.queue_name, v_now, p_limit);
    exception when others then
      if sqlstate not like '40%' and sqlstate <> '55P03' then
        num_rows := 0;
        error := sqlerrm;
        v_failed := v_failed || (v_step.name || e'\n' || v_step.queue_name);
        insert into rowlease.maintain_failure as f (what, queue_name, error, failed_since)
        values (v_step.name, v_step.queue_name, sqlerrm, v_now)
        on conflict (what, queue_name) do update set error = excluded.error
         where f.error <> excluded.error;
      end if;
    end;
    if num_rows > 0 or error is not null then return next; end if;
  end loop;
  delete from rowlease.maintain_failure f
   where f.what || e'\n' || f.queue_name <> all (v_failed);
end $$;
