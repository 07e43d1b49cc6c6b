-- check_stream: tell whether a batch of a stream is enqueued; refuse the batches of another query.
-- params:   p_stream_name nvarchar(400), p_query_id nvarchar(400) (null: the query is not known),
--           p_batch_number bigint, p_is_enqueued bit output
-- returns:  p_is_enqueued -- 1: it is
create or alter procedure rowlease_internal.check_stream
  @p_stream_name nvarchar(400), @p_query_id nvarchar(400), @p_batch_number bigint,
  @p_is_enqueued bit output
as
set nocount on;
set xact_abort on;
declare @query nvarchar(100), @last bigint, @says nvarchar(2048);
set @p_is_enqueued = 0;
if @p_stream_name is not null
   and (len(@p_stream_name) not between 1 and 80
        or datalength(@p_stream_name) > datalength(rtrim(@p_stream_name))
        or @p_batch_number is null or @p_batch_number < 0)
  throw 51001, N'a stream has a name of 1 to 80 characters without a blank at its end, and numbers its batches from 0', 1;
select @query = s.QueryId, @last = s.BatchNumber
  from rowlease.Stream as s where s.StreamName = @p_stream_name;
if @query <> @p_query_id collate Latin1_General_100_BIN2
   or ((@query is null or @p_query_id is null) and @p_batch_number < @last)
begin
  set @says = concat(
    N'stream "', @p_stream_name, N'" has enqueued its batches up to ', @last,
    N' from the streaming query ', coalesce(@query, N'(unknown)'), N'; this is batch ', @p_batch_number,
    N' of the query ', coalesce(@p_query_id, N'(unknown)'),
    N': a new checkpoint is a new query, and its rows may be enqueued already. Continue with the old ',
    N'checkpoint, give the stream another name, or forget what it has enqueued: ',
    N'rowlease loads forget-stream "', @p_stream_name, N'"');
  throw 51009, @says, 1;
end;
if @p_batch_number <= @last
  set @p_is_enqueued = 1;
