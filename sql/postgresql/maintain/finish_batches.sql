-- finish_batches: finish batches that have ended, without waiting for maintain.
-- params:   p_batch_id text (null: every batch)
-- returns:  bigint -- how many batches were finished and requests made due
-- errors:   25000 as refuse_old_snapshot
-- locks:    for one batch: its row, skipping it if it is locked; for every batch: the gate without a name,
--           after at most 2 s; as finish_idle_batches
-- why:      when the last worker has ended, nothing calls maintain. So a worker calls this before it
--           ends, and a program that waits for a batch calls it when nothing of the batch is left. A
--           batch that is locked is left to its owner, or to the next call. A read-only session, such as
--           on a standby, finishes nothing.
create or replace function rowlease.finish_batches(p_batch_id text default null) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if current_setting('transaction_read_only')::boolean then
    return 0;
  end if;
  perform rowlease_internal.refuse_old_snapshot();
  if p_batch_id is not null then
    perform from rowlease.batch b where b.batch_id = p_batch_id for no key update skip locked;
    if not found then
      return 0;
    end if;
  elsif not exists (select from rowlease.queue_depth d where d.load_id is not null)
        and not exists (select from rowlease.batch b where b.num_live = 0 and b.finished_time is null)
        or not rowlease_internal.take_gate('') then
    return 0;
  end if;
  perform rowlease_internal.fold_batches(p_batch_id, 2147483647);
  return rowlease_internal.finish_idle_batches(p_batch_id, rowlease.now(), 10000);
end $$;
