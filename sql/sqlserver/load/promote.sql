-- promote: make the rows of a load requests, all of them or none.
-- params:   p_load_id nvarchar(400), p_run_number bigint, p_expected_rows bigint, p_parts nvarchar(max)
--           (the parts that count; null: all), p_num_clamped bigint (how many rows had their priority
--           lowered by the writer)
-- errors:   RL002 unknown queue, RL005 queue is full, RL008 the rows of the parts are not as many as
--           expected, RL001, RL009 as take_stream, RL014 another run has taken the load over, RL016,
--           RL017 as take_batch; 51012 as take_lock
-- locks:    the load's lock; the lock of the run's writers; as take_stream; the queue's admission
--           lock if it has a capacity; as take_batch; the lock of all dedup keys of the queue if the load
--           has any; as add_staged
-- why:      the load's row makes a second call return the counts of the first. A transaction that has
--           written rows of the run and is still open is waited for, at most 10 s. Several attempts of a
--           Spark task may each have written a part; the driver knows which one counts. If no row has
--           a key or a group and all are due, the rows stay where they are; else all move into Queue, in
--           the order of their parts. sweep_lane deletes what is left behind, in steps: the transaction locks each
--           request that it inserts, and should not lock each row that it leaves, too.
create or alter procedure rowlease.promote
  @p_load_id nvarchar(400), @p_run_number bigint, @p_expected_rows bigint, @p_parts nvarchar(max) = null,
  @p_num_clamped bigint = 0
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6), @queue nvarchar(100), @status varchar(10), @rows bigint;
declare @enqueued bigint, @duplicates bigint, @clamped bigint, @to_queue int, @place bigint;
declare @outcome varchar(10) = 'ok', @admitted bit, @says nvarchar(2048);
declare @writers nvarchar(255) = concat(N'rowlease:write:', @p_run_number);
declare @kept table (Part bigint not null primary key);
insert into @kept (Part) select distinct cast(k.value as bigint) from openjson(@p_parts) as k;
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
  exec rowlease_internal.take_lock @writers;
  if @p_parts is not null
  begin
    delete r
      from rowlease.LanePart as p with (index (lane_part_pkey), forceseek, rowlock)
     inner join rowlease.Lane as r with (index (lane_pkey), forceseek, rowlock)
             on r.RunNumber = p.RunNumber and r.Priority = p.Priority and r.Part = p.Part
     where p.RunNumber = @p_run_number and p.Part not in (select k.Part from @kept as k)
    option (loop join, force order, maxdop 1);
    delete p
      from rowlease.LanePart as p with (index (lane_part_of_run), forceseek, rowlock)
     where p.RunNumber = @p_run_number and p.Part not in (select k.Part from @kept as k)
    option (loop join, force order, maxdop 1);
  end;
  select @rows = coalesce(sum(p.NumRows), 0), @to_queue = coalesce(max(cast(p.ToQueue as int)), 0)
    from rowlease.LanePart as p with (forceseek (lane_part_pkey (RunNumber)))
   where p.RunNumber = @p_run_number;
  if @rows <> @p_expected_rows or @p_expected_rows is null
  begin
    set @says = concat(N'load "', @p_load_id, N'" has the wrong number of staged rows (', @rows,
                       N'; expected: ', @p_expected_rows, N'); write it again');
    throw 51008, @says, 1;
  end;
  exec rowlease_internal.take_stream @p_load_id, @now;
  exec rowlease_internal.check_capacity @queue, @rows, 0, @now, @admitted output;
  exec rowlease_internal.take_batch @p_load_id, @now;
  select @clamped = @p_num_clamped + coalesce(sum(p.NumRows), 0)
    from rowlease.LanePart as p with (forceseek (lane_part_pkey (RunNumber, Priority)))
   where p.RunNumber = @p_run_number
     and p.Priority > (select q.MaxPriority from rowlease.QueueSettings as q where q.QueueName = @queue);
  if @to_queue = 1
  begin
    exec rowlease_internal.add_staged @queue, @now, @p_load_id, @p_run_number, @enqueued output;
    delete p
      from rowlease.LanePart as p with (index (lane_part_pkey), forceseek, rowlock)
     where p.RunNumber = @p_run_number
    option (maxdop 1);
  end;
  else
  begin
    exec rowlease_internal.count_lane @queue, @p_load_id, @p_run_number;
    set @enqueued = @rows;
    if @rows > 0
      select @place = next value for rowlease.RequestIds;
  end;
  set @duplicates = @rows - @enqueued;
  update rowlease.[Load]
     set Status = 'Promoted', PromotedTime = @now, NumRows = @rows, NumEnqueued = @enqueued,
         NumDuplicates = @duplicates, NumClamped = @clamped,
         InLane = case when @place is null then 0 else 1 end, Place = @place,
         MaxAttempts = (select q.MaxAttempts from rowlease.QueueSettings as q where q.QueueName = @queue)
   where LoadId = @p_load_id;
end;
commit transaction;
select @outcome as outcome, @rows as num_rows, @enqueued as num_enqueued, @duplicates as num_duplicates,
       @clamped as num_clamped;
