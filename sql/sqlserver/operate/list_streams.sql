-- list_streams: list the streams that have enqueued a batch, the latest first.
-- params:   p_limit int
-- returns:  stream_name text, query_id text (null: not known), batch_number bigint (of the last batch),
--           promoted_time timestamptz (of that batch)
-- errors:   none
-- locks:    none
-- why:      a stream has one row, so there are few.
create or alter procedure rowlease.list_streams @p_limit int = 100
as
set nocount on;
set xact_abort on;
select top (@p_limit) s.StreamName as stream_name, s.QueryId as query_id, s.BatchNumber as batch_number,
       s.PromotedTime as promoted_time
  from rowlease.Stream as s order by s.PromotedTime desc, s.StreamName;
