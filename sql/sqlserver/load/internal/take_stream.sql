-- take_stream: note that a batch is the last one that its stream has enqueued.
-- params:   p_load_id nvarchar(400), p_now datetime2(6)
-- returns:  nothing
-- errors:   RL001, RL009 as check_stream, or the batch or a later one is enqueued; 51012 as take_lock
-- locks:    the stream's lock; held to the caller's commit
create or alter procedure rowlease_internal.take_stream @p_load_id nvarchar(400), @p_now datetime2(6)
as
set nocount on;
set xact_abort on;
declare @stream nvarchar(100), @query nvarchar(100), @batch bigint, @is_enqueued bit;
declare @lock nvarchar(255), @says nvarchar(2048);
select @stream = l.StreamName, @query = l.QueryId, @batch = l.BatchNumber
  from rowlease.[Load] as l where l.LoadId = @p_load_id;
if @stream is null
  return;
set @lock = rowlease_internal.lock_name(N'stream', N'', @stream);
exec rowlease_internal.take_lock @lock;
exec rowlease_internal.check_stream @stream, @query, @batch, @is_enqueued output;
if @is_enqueued = 1
begin
  set @says = concat(N'batch ', @batch, N' of stream "', @stream,
                     N'", or a later one, is enqueued already; let one driver at a time run the stream');
  throw 51009, @says, 1;
end;
update rowlease.Stream
   set QueryId = coalesce(@query, QueryId), BatchNumber = @batch, PromotedTime = @p_now
 where StreamName = @stream;
if @@rowcount = 0
  insert into rowlease.Stream (StreamName, QueryId, BatchNumber, PromotedTime)
  values (@stream, @query, @batch, @p_now);
