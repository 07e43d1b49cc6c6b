-- promote: move a staged load into the queue, all of it or nothing.
-- params:   p_load_id nvarchar(400), p_run_number bigint, p_expected_rows bigint, p_kind
--           nvarchar(max) (for rows that name none), p_num_clamped bigint (how many rows had their
--           priority lowered by the writer)
-- errors:   RL002 unknown queue, RL003 bad priority, RL004 bad payload, RL005 queue is full, RL006
--           no kind, RL008 staged rows differ from the expected count, RL001, RL009 as take_stream, RL014
--           another run has taken the load over, RL016 bad headers, RL017 as take_batch; 51011 a payload that is not
--           JSON, 51012 as take_lock, add_staged and check_copies
-- locks:    the load's lock; the lock of the run's writers; as take_stream; the queue's admission
--           lock if it has a capacity; as take_batch; the lock of all dedup keys of the queue if the load
--           has any; as add_staged; after the commit, as drop_staged
-- why:      each (load, row) becomes one request, even if a Spark task wrote its rows several
--           times. The load's row makes a second call return the counts of the first. Rows of other
--           runs are not counted; maintain deletes them. Two tries of a task that computed
--           different rows under the same ids cannot be distinguished, so check_copies refuses such
--           a load. The staged rows are counted again at the end, because a task that Spark has
--           given up may write meanwhile. They are deleted after the commit: the transaction locks
--           each request that it inserts, and should not lock each staged row, too. What is in the
--           lane is not copied. A transaction that has written rows of it and is still open is waited
--           for, at most 10 s.
create or alter procedure rowlease.promote
  @p_load_id nvarchar(400), @p_run_number bigint, @p_expected_rows bigint, @p_kind nvarchar(max) = null,
  @p_num_clamped bigint = 0
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6), @queue nvarchar(100), @status varchar(10), @rows bigint;
declare @enqueued bigint, @duplicates bigint, @clamped bigint, @written bigint;
declare @outcome varchar(10) = 'ok', @admitted bit, @says nvarchar(2048);
declare @in_lane bigint, @place bigint;
declare @high bigint = 0, @writers nvarchar(255) = concat(N'rowlease:write:', @p_run_number);
begin transaction;
exec rowlease_internal.take_load @p_load_id, @p_run_number;
set @now = rowlease.now();
select @queue = l.QueueName, @status = l.Status, @rows = l.NumRows, @enqueued = l.NumEnqueued,
       @duplicates = l.NumDuplicates, @clamped = l.NumClamped
  from rowlease.[Load] as l where l.LoadId = @p_load_id;
if @status = 'Promoted'
  set @outcome = 'repeat';
else
begin
  select @rows = count(distinct s.RowId), @written = count(*)
    from rowlease.Staging as s with (forceseek (staging_run (RunNumber)))
   where s.RunNumber = @p_run_number and s.LoadId = @p_load_id;
  exec rowlease_internal.take_lock @writers;
  set @in_lane = (select coalesce(sum(p.NumRows), 0)
                    from rowlease.LanePart as p with (forceseek (lane_part_pkey (RunNumber)))
                   where p.RunNumber = @p_run_number);
  if @rows + @in_lane <> @p_expected_rows or @p_expected_rows is null
  begin
    set @says = concat(N'load "', @p_load_id, N'" has the wrong number of staged rows (', @rows + @in_lane,
                       N'; expected: ', @p_expected_rows, N'); write it again');
    throw 51008, @says, 1;
  end;
  exec rowlease_internal.take_stream @p_load_id, @now;
  if @written > @rows
    exec rowlease_internal.check_copies @p_load_id, @p_run_number;
  exec rowlease_internal.check_capacity @queue, @p_expected_rows, 0, @now, @admitted output;
  exec rowlease_internal.take_batch @p_load_id, @now;
  exec rowlease_internal.check_staged @p_load_id, @p_run_number, @p_kind;
  exec rowlease_internal.add_staged @queue, @now, @p_load_id, @p_run_number, @p_kind, @rows, @enqueued output;
  if @in_lane > 0
  begin
    exec rowlease_internal.count_lane @queue, @p_load_id, @p_run_number, @high output;
    set @enqueued = @enqueued + @in_lane;
    select @place = next value for rowlease.RequestIds;
  end;
  set @rows = @p_expected_rows;
  set @duplicates = @rows - @enqueued;
  select @clamped = @p_num_clamped + @high + count(distinct s.RowId)
    from rowlease.Staging as s with (forceseek (staging_run (RunNumber)))
   where s.RunNumber = @p_run_number and s.LoadId = @p_load_id
     and s.Priority > (select q.MaxPriority from rowlease.QueueSettings as q
                        where q.QueueName = @queue);
  update rowlease.[Load]
     set Status = 'Promoted', PromotedTime = @now, NumRows = @rows, NumEnqueued = @enqueued,
         NumDuplicates = @duplicates, NumClamped = @clamped,
         InLane = case when @in_lane > 0 then 1 else 0 end, Place = @place,
         MaxAttempts = (select q.MaxAttempts from rowlease.QueueSettings as q where q.QueueName = @queue)
   where LoadId = @p_load_id;
  if (select count(*) from rowlease.Staging as s with (forceseek (staging_run (RunNumber)))
       where s.RunNumber = @p_run_number and s.LoadId = @p_load_id) <> @written
  begin
    set @says = concat(N'rows of load "', @p_load_id, N'" were written while it was promoted; nothing ',
                       N'was enqueued, promote it again');
    throw 51012, @says, 1;
  end;
end;
commit transaction;
exec rowlease_internal.drop_staged @p_load_id, @p_run_number;
select @outcome as outcome, @rows as num_rows, @enqueued as num_enqueued, @duplicates as num_duplicates,
       @clamped as num_clamped;
