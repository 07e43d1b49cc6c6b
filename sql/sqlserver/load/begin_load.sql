-- begin_load: start a run of a load, and end any earlier run.
-- params:   p_load_id nvarchar(400), p_queue_name nvarchar(400), p_run_by nvarchar(400) (the name
--           of the run, 1 to 200 characters, unique), p_columns nvarchar(max) (a description of its
--           rows; null: none), p_stream_name nvarchar(400) (of which stream it is a batch; null: none),
--           p_query_id nvarchar(400) (the streaming query; null: not known), p_batch_number bigint
-- errors:   RL001 bad argument, RL002 unknown queue, RL009 the load id was used for another queue or
--           for other columns, or as check_stream, RL014 a later run has taken the load over from
--           this one, or it was ended; 51012 as take_lock
-- locks:    the load's lock and row
-- why:      the run number is a fencing token: a later run has a larger one, and rows that an earlier
--           run writes do not count. maintain deletes those in the lane. It starts at a random number
--           up to 2^32 and grows by random numbers, as lock tokens do. If it grew by 1, a number could
--           be assigned twice after a restore, or after a failover that lost commits. The same run may call twice and gets the
--           same number, because an answer may be lost. A run that was superseded or ended cannot
--           begin again, so two live drivers cannot take the load from each other for ever. A promoted
--           load that is begun with other columns is refused, because it would enqueue nothing.
create or alter procedure rowlease.begin_load
  @p_load_id nvarchar(400), @p_queue_name nvarchar(400), @p_run_by nvarchar(400),
  @p_columns nvarchar(max) = null, @p_stream_name nvarchar(400) = null,
  @p_query_id nvarchar(400) = null, @p_batch_number bigint = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6), @says nvarchar(2048), @outcome varchar(10) = 'ok', @queue nvarchar(100);
declare @lock nvarchar(255) = rowlease_internal.lock_name(N'load', N'', @p_load_id);
declare @by nvarchar(500) = concat(@p_run_by, N' (', suser_sname(), N')');
declare @step bigint = cast(2147483649 as bigint) + checksum(newid());
declare @run bigint, @run_by nvarchar(500), @past nvarchar(max);
declare @status varchar(10), @columns nvarchar(max);
declare @rows bigint, @enqueued bigint, @duplicates bigint, @clamped bigint;
declare @is_enqueued bit;
if @p_load_id is null or len(@p_load_id) not between 1 and 100
   or datalength(@p_load_id) > datalength(rtrim(@p_load_id))
   or @p_run_by is null or len(@p_run_by) not between 1 and 200
  throw 51001, N'a load id has 1 to 100 characters and no blank at its end, and the name of its run has 1 to 200', 1;
exec rowlease_internal.check_queue @p_queue_name;
exec rowlease_internal.check_stream @p_stream_name, @p_query_id, @p_batch_number, @is_enqueued output;
if @is_enqueued = 1
begin
  select 'repeat' as outcome, cast(null as bigint) as run_number, coalesce(max(l.NumRows), 0) as num_rows,
         coalesce(max(l.NumEnqueued), 0) as num_enqueued, coalesce(max(l.NumDuplicates), 0) as num_duplicates,
         coalesce(max(l.NumClamped), 0) as num_clamped,
         (select cast(s.MaxPriority as int) from rowlease.QueueSettings as s
           where s.QueueName = @p_queue_name) as max_priority
    from rowlease.[Load] as l where l.LoadId = @p_load_id and l.Status = 'Promoted';
  return;
end;
begin transaction;
exec rowlease_internal.take_lock @lock;
set @now = rowlease.now();
insert into rowlease.[Load] (LoadId, QueueName, Status, NumRows, [Columns], RunNumber, RunBy,
                             StartedTime, ReportedTime, StreamName, QueryId, BatchNumber)
select @p_load_id, @p_queue_name, 'Staging', 0, @p_columns, @step, @by, @now, @now, @p_stream_name,
       @p_query_id, @p_batch_number
 where not exists (select 1 from rowlease.[Load] as l with (updlock, holdlock)
                    where l.LoadId = @p_load_id);
select @queue = l.QueueName, @run = l.RunNumber, @run_by = l.RunBy, @past = l.PastRuns,
       @status = l.Status, @columns = l.[Columns], @rows = l.NumRows, @enqueued = l.NumEnqueued,
       @duplicates = l.NumDuplicates, @clamped = l.NumClamped
  from rowlease.[Load] as l where l.LoadId = @p_load_id;
if @queue <> @p_queue_name collate Latin1_General_100_BIN2
begin
  set @says = concat(N'load "', @p_load_id, N'" belongs to queue "', @queue, N'", not to "',
                     @p_queue_name, N'"; use another load id');
  throw 51009, @says, 1;
end;
if charindex(concat(nchar(10), @by, nchar(10)) collate Latin1_General_100_BIN2,
             concat(nchar(10), @past) collate Latin1_General_100_BIN2) > 0
   or (@status = 'Ended' and @run_by = @by collate Latin1_General_100_BIN2)
  exec rowlease_internal.take_load @p_load_id, null;
if @status = 'Promoted'
begin
  if @columns <> @p_columns collate Latin1_General_100_BIN2
  begin
    set @says = concat(N'load "', @p_load_id, N'" was enqueued from other columns: ', @columns,
                       N', not ', @p_columns, N'; use another load id');
    throw 51009, @says, 1;
  end;
  select @outcome = 'repeat', @run = null;
end;
else
begin
  if @run_by <> @by collate Latin1_General_100_BIN2
  begin
    set @run = @run + @step;
    update rowlease.[Load]
       set Status = 'Staging', RunNumber = @run, RunBy = @by, PastRuns = concat(RunBy, nchar(10), left(PastRuns, 10000)),
           QueueName = @p_queue_name, [Columns] = @p_columns, NumStaged = 0, StartedTime = @now,
           ReportedTime = @now, StreamName = @p_stream_name, QueryId = @p_query_id,
           BatchNumber = @p_batch_number
     where LoadId = @p_load_id;
  end;
  select @rows = null, @enqueued = null, @duplicates = null, @clamped = null;
end;
commit transaction;
select @outcome as outcome, @run as run_number, @rows as num_rows, @enqueued as num_enqueued,
       @duplicates as num_duplicates, @clamped as num_clamped,
       (select cast(s.MaxPriority as int) from rowlease.QueueSettings as s
         where s.QueueName = @p_queue_name) as max_priority;
