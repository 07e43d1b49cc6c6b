-- check_stream: tell whether a batch of a stream is enqueued; refuse the batches of another query.
-- params:   p_stream_name text, p_query_id text (null: the query is not known), p_batch_number bigint
-- returns:  boolean -- true: it is enqueued
-- errors:   RL001 a wrong name or number, RL009 the stream belongs to another query
-- locks:    none
-- why:      Spark numbers the batches of a query from 0 and repeats only the last one. A new
--           checkpoint is a new query: its rows may be enqueued already, under other numbers. Where
--           one of the queries is not known, a number below the last one shows a new checkpoint.
create or replace function rowlease_internal.check_stream(
  p_stream_name text, p_query_id text, p_batch_number bigint
) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_stream rowlease.stream;
begin
  if p_stream_name is not null and (length(p_stream_name) between 1 and 80
      and p_stream_name not like '% ' and p_batch_number >= 0) is not true then
    raise exception using errcode = 'RL001',
      message = 'a stream has a name of 1 to 80 characters without a blank at its end, and numbers '
                'its batches from 0';
  end if;
  select * into v_stream from rowlease.stream s where s.stream_name = p_stream_name;
  if not coalesce(v_stream.query_id = p_query_id, p_batch_number >= v_stream.batch_number) then
    raise exception using errcode = 'RL009', message = format(
      'stream "%s" has enqueued its batches up to %s from the streaming query %s; this is batch %s '
      'of the query %s: a new checkpoint is a new query, and its rows may be enqueued already. '
      'Continue with the old checkpoint, give the stream another name, or forget what it has '
      'enqueued: rowlease loads forget-stream "%s"',
      p_stream_name, v_stream.batch_number, coalesce(v_stream.query_id, '(unknown)'),
      p_batch_number, coalesce(p_query_id, '(unknown)'), p_stream_name);
  end if;
  return coalesce(p_batch_number <= v_stream.batch_number, false);
end $$;
