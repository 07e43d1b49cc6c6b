-- list_streams: list the streams that have enqueued a batch, the latest first.
-- params:   p_limit int
create or alter procedure rowlease.list_streams @p_limit int = 100
as
set nocount on;
set xact_abort on;
select top (@p_limit) s.StreamName as stream_name, s.QueryId as query_id, s.BatchNumber as batch_number,
       s.PromotedTime as promoted_time
  from rowlease.Stream as s order by s.PromotedTime desc, s.StreamName;
