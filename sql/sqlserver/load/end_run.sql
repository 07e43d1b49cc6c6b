-- end_run: end the run of a load whose job has failed or was cancelled.
-- params:   p_load_id nvarchar(400), p_run_number bigint
-- errors:   RL014 the run is over, as take_load; 51012 as take_lock
-- locks:    the load's lock
create or alter procedure rowlease.end_run @p_load_id nvarchar(400), @p_run_number bigint
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
begin transaction;
exec rowlease_internal.take_load @p_load_id, @p_run_number;
update rowlease.[Load] set Status = 'Ended', NumStaged = 0
 where LoadId = @p_load_id and Status = 'Staging';
commit transaction;
