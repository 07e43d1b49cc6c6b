-- take_batches: add the requests of a call to a batch, and have them wait for another batch.
-- params:   p_batch_id nvarchar(400), p_after nvarchar(400), p_now datetime2(6),
--           p_delays_ms nvarchar(max), p_due_times nvarchar(max), p_headers nvarchar(max),
--           p_waits bit output
-- returns:  p_waits -- whether the requests have to wait
-- locks:    the locks of the batches until the caller's commit, as take_batch
-- why:      a request that waits for a batch is due at the end of the calendar, until finish_idle_batches
--           changes that. Headers that leave no room for the headers of the batch would make a copy
--           of the request impossible (requeue).
create or alter procedure rowlease_internal.take_batches
  @p_batch_id nvarchar(400), @p_after nvarchar(400), @p_now datetime2(6),
  @p_delays_ms nvarchar(max), @p_due_times nvarchar(max), @p_headers nvarchar(max), @p_waits bit output
as
set nocount on;
set xact_abort on;
declare @lock nvarchar(255) = rowlease_internal.lock_name(N'batch', N'', @p_after);
declare @finished datetime2(6), @found bit = 0, @says nvarchar(2048);
set @p_waits = 0;
if @p_batch_id = N'' or len(@p_batch_id) > 100
   or @p_batch_id = @p_after collate Latin1_General_100_BIN2
  throw 51017, N'a batch id has 1 to 100 characters, and requests cannot wait for their own batch', 1;
if @p_batch_id is not null
  exec rowlease_internal.take_batch @p_batch_id, @p_now;
if @p_after is null
  return;
if exists (select 1 from openjson(@p_delays_ms) as d where d.value is not null)
   or exists (select 1 from openjson(@p_due_times) as d where d.value is not null)
  throw 51017, N'requests that wait for a batch have no due time of their own; leave delay and due_time out', 1;
if exists (select 1 from openjson(@p_headers) as h
            where datalength(cast(h.value collate Latin1_General_100_BIN2_UTF8 as varchar(max))) > 7168)
  throw 51016, N'headers of a request that waits for a batch have at most 7168 bytes, because the batch adds its counts', 1;
exec rowlease_internal.take_lock @lock, 'Shared';
select @finished = b.FinishedTime, @found = 1
  from rowlease.Batch as b with (forceseek (batch_pkey (BatchId))) where b.BatchId = @p_after;
if @found = 0
begin
  set @says = concat(N'there is no batch "', @p_after,
                     N'" to wait for; enqueue its requests, or promote its load, first');
  throw 51017, @says, 1;
end;
if @finished is null
  set @p_waits = 1;
