-- take_load: lock a load, if it still belongs to this run.
-- params:   p_load_id nvarchar(400), p_run_number bigint (of begin_load; null belongs to no run)
-- returns:  nothing; it needs a transaction
-- errors:   RL014 another run has taken the load over, or its run was ended, or it does not exist; 51012
--           as take_lock
-- locks:    the load's lock
create or alter procedure rowlease_internal.take_load @p_load_id nvarchar(400), @p_run_number bigint
as
set nocount on;
set xact_abort on;
declare @lock nvarchar(255) = rowlease_internal.lock_name(N'load', N'', @p_load_id), @says nvarchar(2048);
declare @run bigint, @run_by nvarchar(500), @started datetime2(6), @status varchar(10);
exec rowlease_internal.take_lock @lock;
select @run = l.RunNumber, @run_by = l.RunBy, @started = l.StartedTime, @status = l.Status
  from rowlease.[Load] as l where l.LoadId = @p_load_id;
if @run = @p_run_number and @status <> 'Ended'
  return;
if @run is null
  set @says = concat(N'load "', @p_load_id, N'" does not exist: it was not begun, or had no report ',
                     N'for a day; begin it');
else if @status = 'Ended'
  set @says = concat(N'the run of load "', @p_load_id, N'" was ended, because its job failed or was ',
                     N'cancelled; rows of this run do not count: run it again');
else
  set @says = concat(N'load "', @p_load_id, N'" was taken over by ', @run_by, N' at ',
                     rowlease_internal.time_text(@started), N'; rows of this run do not count: let that run end, ',
                     N'or run this one again');
throw 51014, @says, 1;
