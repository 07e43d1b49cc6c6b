-- forget_stream: forget which batches a stream has enqueued, so that another query may have its name.
-- params:   p_stream_name nvarchar(400), p_dry_run bit (change nothing), p_actor nvarchar(max) (the
--           operator's name)
-- errors:   RL015 a batch is being written, or has requests that wait, run or are dead letters; 51012 as
--           take_lock
-- locks:    the stream's lock; rows of load and batch of this stream
create or alter procedure rowlease.forget_stream
  @p_stream_name nvarchar(400), @p_dry_run bit = 0, @p_actor nvarchar(max) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @lock nvarchar(255) = rowlease_internal.lock_name(N'stream', N'', @p_stream_name);
declare @outcome varchar(10) = 'not_found', @query nvarchar(100), @batch bigint, @loads bigint;
declare @says nvarchar(2048), @first nvarchar(401) = concat(@p_stream_name, N'/');
declare @batches table (BatchId nvarchar(100) collate Latin1_General_100_BIN2 not null primary key);
begin transaction;
exec rowlease_internal.take_lock @lock;
select @outcome = 'ok', @query = s.QueryId, @batch = s.BatchNumber
  from rowlease.Stream as s where s.StreamName = @p_stream_name;
if @outcome = 'ok'
begin
  insert into @batches (BatchId)
  select b.BatchId from rowlease.Batch as b
   where left(b.BatchId, len(@first)) = @first collate Latin1_General_100_BIN2
     and len(b.BatchId) > len(@first) and substring(b.BatchId, len(@first) + 1, 100) not like N'%[^0-9]%';
  if exists (select 1 from rowlease.[Load] as l
              where l.StreamName = @p_stream_name and (l.Status = 'Staging' or l.InLane = 1))
     or exists (select 1 from @batches as c inner join rowlease.Batch as b on b.BatchId = c.BatchId
                 where b.FinishedTime is null or b.NumLive > 0 or b.NumFailed > 0)
  begin
    set @says = concat(N'stream "', @p_stream_name, N'" cannot be forgotten: a batch of it is being written, ',
                       N'or has requests that wait, run or are dead letters; finish or purge them and let ',
                       N'maintain run, or give the stream another name');
    throw 51015, @says, 1;
  end;
  set @loads = (select count(*) from rowlease.[Load] as l where l.StreamName = @p_stream_name);
  if @p_dry_run = 0
  begin
    delete from rowlease.[Load] where StreamName = @p_stream_name;
    delete b
      from @batches as c
     inner join rowlease.Batch as b with (index (batch_pkey), forceseek, rowlock) on b.BatchId = c.BatchId
    option (loop join, force order, maxdop 1);
    delete from rowlease.Stream where StreamName = @p_stream_name;
    exec rowlease_internal.note_change N'forget_stream', N'stream', @p_stream_name, null, @p_actor;
  end;
end;
commit transaction;
select @outcome as outcome, @query as query_id, @batch as batch_number, @loads as num_loads;
