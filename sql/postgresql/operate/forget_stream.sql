-- forget_stream: forget which batches a stream has enqueued, so that another query may have its name.
-- params:   p_stream_name text, p_dry_run boolean (change nothing), p_actor text (the operator's name)
-- returns:  outcome text -- 'ok' | 'not_found', query_id text, batch_number bigint (of the last batch),
--           num_loads bigint (loads of its batches that are dropped)
-- errors:   RL015 a batch is being written, or has requests that wait, run or are dead letters,
--           25000 as refuse_old_snapshot
-- locks:    the stream's row; rows of load and batch of this stream
-- why:      the next query counts from 0 and uses the same ids, so the loads and batches that have
--           them must be gone; else its first batches would count as enqueued. Rows that it enqueues
--           again run again.
create or replace function rowlease.forget_stream(
  p_stream_name text, p_dry_run boolean default false, p_actor text default null
) returns table (outcome text, query_id text, batch_number bigint, num_loads bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_stream  rowlease.stream;
  v_batches text[];
  v_loads   bigint;
begin
  perform rowlease_internal.refuse_old_snapshot();
  select * into v_stream from rowlease.stream s where s.stream_name = p_stream_name for update;
  if not found then
    return query select 'not_found'::text, null::text, null::bigint, null::bigint;
    return;
  end if;
  v_batches := array(
    select b.batch_id from rowlease.batch b
     where starts_with(b.batch_id, p_stream_name || '/')
       and substr(b.batch_id, length(p_stream_name) + 2) ~ '^\d+$');
  if exists (select from rowlease.load l
              where l.stream_name = p_stream_name and (l.status = 'Staging' or l.in_lane))
     or exists (select from rowlease.batch b
                 where b.batch_id = any(v_batches)
                   and (b.finished_time is null or b.num_live > 0 or b.num_failed > 0))
  then
    raise exception using errcode = 'RL015',
      message = format('stream "%s" cannot be forgotten: a batch of it is being written, or has '
                       'requests that wait, run or are dead letters; finish or purge them and let '
                       'maintain run, or give the stream another name', p_stream_name);
  end if;
  v_loads := (select count(*) from rowlease.load l where l.stream_name = p_stream_name);
  if not p_dry_run then
    delete from rowlease.load l where l.stream_name = p_stream_name;
    delete from rowlease.batch b where b.batch_id = any(v_batches);
    delete from rowlease.stream s where s.stream_name = p_stream_name;
    perform rowlease_internal.note_operation(
      'forget_stream', jsonb_build_object('stream', p_stream_name), null, p_actor, rowlease.now(), true);
  end if;
  return query select 'ok'::text, v_stream.query_id::text, v_stream.batch_number, v_loads;
end $$;
