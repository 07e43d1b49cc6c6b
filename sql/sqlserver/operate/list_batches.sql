-- list_batches: list batches and loads, the latest first.
-- params:   p_batch_ids nvarchar(max) (null: all), p_limit int
-- why:      it returns the rows of the view batches. A program that waits for a batch reads it
--           repeatedly; a plan for any parameters would read all batches for one.
create or alter procedure rowlease.list_batches @p_batch_ids nvarchar(max) = null, @p_limit int = 100
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
select top (@p_limit)
       b.BatchId as batch_id, b.NumRequests as num_requests, b.NumLive as num_live,
       b.NumComplete as num_complete, b.NumFailed as num_failed, b.NumCancelled as num_cancelled,
       b.CreatedTime as created_time, b.FinishedTime as finished_time
  from rowlease.Batches as b
 where @p_batch_ids is null
    or b.BatchId in (select i.id from openjson(@p_batch_ids) with (id nvarchar(400) '$') as i)
 order by b.CreatedTime desc, b.BatchId
option (recompile);
