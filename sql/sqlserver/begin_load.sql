-- begin_load: open the ledger of a load before its rows are staged.
-- params:   p_load_id nvarchar(400), p_queue_name nvarchar(400), p_columns nvarchar(max) (what its
--           rows are made of; null: not said)
-- returns:  outcome text -- 'ok' | 'repeat' (it is promoted: stage nothing), num_rows bigint,
--           num_enqueued bigint, num_duplicates bigint
-- errors:   RL001 bad argument, RL002 unknown queue, RL009 the load id was used for another queue or
--           for other columns
-- locks:    the load's lock and row; rows of staging of this load
-- why:      what a run that died has staged is dropped, so a load is always of one run, whatever has
--           changed since. A promoted load that comes again with other columns is another load, and
--           saying so is better than to enqueue nothing of it.
create or alter procedure rowlease.begin_load
  @p_load_id nvarchar(400), @p_queue_name nvarchar(400), @p_columns nvarchar(max) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6), @says nvarchar(2048), @outcome varchar(10) = 'ok';
declare @status varchar(10), @columns nvarchar(max);
declare @rows bigint, @enqueued bigint, @duplicates bigint;
if @p_load_id is null or len(@p_load_id) not between 1 and 100
  throw 51001, N'a load id has 1 to 100 characters', 1;
exec rowlease.check_queue @p_queue_name;
begin transaction;
exec rowlease.take_load @p_load_id, @p_queue_name, @now output;
select @status = l.Status, @columns = l.[Columns], @rows = l.NumRows, @enqueued = l.NumEnqueued,
       @duplicates = l.NumDuplicates
  from rowlease.[Load] as l where l.LoadId = @p_load_id;
if @status = 'Promoted'
begin
  if @columns <> @p_columns collate Latin1_General_100_BIN2
  begin
    set @says = concat(N'load "', @p_load_id, N'" was enqueued from other columns: ', @columns,
                       N', not ', @p_columns, N'; take another load id');
    throw 51009, @says, 1;
  end;
  set @outcome = 'repeat';
end;
else
begin
  delete from rowlease.Staging where LoadId = @p_load_id;
  update rowlease.[Load]
     set QueueName = @p_queue_name, [Columns] = @p_columns, NumStaged = 0, StartedTime = @now,
         ReportedTime = @now
   where LoadId = @p_load_id;
  select @rows = null, @enqueued = null, @duplicates = null;
end;
commit transaction;
select @outcome as outcome, @rows as num_rows, @enqueued as num_enqueued, @duplicates as num_duplicates;
