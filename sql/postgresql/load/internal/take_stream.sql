-- take_stream: note that a batch is the last one that its stream has enqueued.
-- params:   p_load rowlease.load, p_now timestamptz
-- returns:  void
-- errors:   RL001, RL009 as check_stream, or the batch or a later one is enqueued
-- locks:    the stream's row, exclusive; held to the caller's commit
-- why:      the row is kept until forget_stream, so that a batch is enqueued once, however late Spark
--           repeats it. The load of the batch is dropped earlier.
create or replace function rowlease_internal.take_stream(p_load rowlease.load, p_now timestamptz)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_load.stream_name is null then
    return;
  end if;
  insert into rowlease.stream as s (stream_name, query_id, batch_number, promoted_time)
  values (p_load.stream_name, p_load.query_id, p_load.batch_number, p_now)
  on conflict (stream_name) do update
     set query_id = coalesce(excluded.query_id, s.query_id), batch_number = excluded.batch_number,
         promoted_time = excluded.promoted_time
   where s.batch_number < excluded.batch_number
     and (s.query_id <> excluded.query_id) is not true;
  if not found then
    perform rowlease_internal.check_stream(
      p_load.stream_name, p_load.query_id, p_load.batch_number);
    raise exception using errcode = 'RL009',
      message = format('batch %s of stream "%s", or a later one, is enqueued already; '
                       'let one driver at a time run the stream',
                       p_load.batch_number, p_load.stream_name);
  end if;
end $$;
