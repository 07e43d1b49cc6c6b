-- list_streams: list the streams that have enqueued a batch, the latest first.
-- params:   p_limit integer
-- returns:  stream_name text, query_id text (null: not known), batch_number bigint (of the last batch),
--           promoted_time timestamptz (of that batch)
-- errors:   none
-- locks:    none
-- why:      a stream has one row, so there are few.
create or replace function rowlease.list_streams(p_limit integer default 100)
returns table (stream_name text, query_id text, batch_number bigint, promoted_time timestamptz)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.stream_name::text, s.query_id::text, s.batch_number, s.promoted_time
    from rowlease.stream s order by s.promoted_time desc, s.stream_name limit p_limit;
$$;
