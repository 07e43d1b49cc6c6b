-- recount: compare the counts of queues and batches with their rows, and correct them.
-- params:   p_queue_name text (null: every queue, and every batch), p_actor text (the operator's name)
-- returns:  the wrong counts: queue_name text, priority integer, counter text -- 'scheduled' |
--           'pending' | 'processing' | 'failed', or 'group_blocked': requests that waited for a
--           request of their group that no longer exists; was bigint, actual bigint, batch_id text --
--           of a batch, whose counters are 'batch_requests' | 'batch_live' | 'batch_complete' |
--           'batch_failed', without queue_name and priority
-- errors:   RL002 unknown queue, 25000 as refuse_old_snapshot; 55P03 maintain or another recount has been running for 2 s
-- locks:    the gate without a name, after at most 2 s; rows of batch, against changes only; rows of queue that are unblocked, exclusive,
--           skipping locked ones
-- why:      for use after a DELETE, UPDATE or TRUNCATE by hand. It reads the whole queue, but
--           blocks no other call.
create or replace function rowlease.recount(p_queue_name text default null, p_actor text default null)
returns table (queue_name text, priority integer, counter text, was bigint, actual bigint,
               batch_id text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_queues text[] := case when p_queue_name is not null then array[p_queue_name] end;
begin
  if p_queue_name is not null then
    perform rowlease_internal.check_queue(p_queue_name);
  end if;
  perform rowlease_internal.refuse_old_snapshot();
  if not rowlease_internal.take_gate('') then
    raise exception using errcode = 'lock_not_available',
      message = 'maintain or another recount has been running for 2 s; nothing was done, call again';
  end if;
  perform rowlease_internal.note_operation(
    'recount', jsonb_strip_nulls(jsonb_build_object('queue', p_queue_name)), null, p_actor,
    rowlease.now(), true);
  return query select c.*, null::text from rowlease_internal.correct_counts(v_queues) c;
  if p_queue_name is null then
    return query select null::text, null::integer, b.counter, b.was, b.actual, b.batch_id
                   from rowlease_internal.correct_batches() b;
  end if;
  v_queues := coalesce(v_queues, array(select distinct d.queue_name from rowlease.queue_depth d));
  return query
    select f.queue_name, f.priority, 'group_blocked', count(*), 0::bigint, null::text
      from rowlease_internal.free_groups(v_queues) f group by 1, 2 order by 1, 2 desc;
end $$;
