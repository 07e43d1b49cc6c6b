-- take_load: lock a load, whose row is made if it is not there.
-- params:   p_load_id nvarchar(400), p_queue_name nvarchar(400), p_now datetime2(6) output (the
--           clock, read behind the lock)
-- returns:  nothing; it needs a transaction
-- errors:   RL009 the load id was used for another queue; 51012 as take_lock
-- locks:    the load's lock and row
-- why:      begin_load and promote start with it: calls for one load come one after the other.
create or alter procedure rowlease.take_load
  @p_load_id nvarchar(400), @p_queue_name nvarchar(400), @p_now datetime2(6) output
as
set nocount on;
set xact_abort on;
declare @lock nvarchar(255) = rowlease.lock_name(N'load', N'', @p_load_id), @says nvarchar(2048);
declare @queue nvarchar(100);
exec rowlease.take_lock @lock;
set @p_now = rowlease.now();
insert into rowlease.[Load] (LoadId, QueueName, Status, NumRows, StartedTime, ReportedTime)
select @p_load_id, @p_queue_name, 'Staging', 0, @p_now, @p_now
 where not exists (select 1 from rowlease.[Load] as l with (updlock, holdlock)
                    where l.LoadId = @p_load_id);
set @queue = (select l.QueueName from rowlease.[Load] as l where l.LoadId = @p_load_id);
if @queue <> @p_queue_name collate Latin1_General_100_BIN2
begin
  set @says = concat(N'load "', @p_load_id, N'" belongs to queue "', @queue, N'", not to "',
                     @p_queue_name, N'"; take another load id');
  throw 51009, @says, 1;
end;
