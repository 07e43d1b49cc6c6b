-- report_load: report that more rows of a load are being written.
-- params:   p_load_id nvarchar(400), p_run_number bigint, p_num_rows bigint (how many since the last
--           time)
-- errors:   RL001 bad argument, RL014 another run has taken the load over; 51012 as take_lock
-- locks:    the load's lock and row
create or alter procedure rowlease.report_load
  @p_load_id nvarchar(400), @p_run_number bigint, @p_num_rows bigint
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @staged bigint;
if @p_num_rows is null or @p_num_rows < 0
  throw 51001, N'a number of rows must be 0 or more', 1;
begin transaction;
exec rowlease_internal.take_load @p_load_id, @p_run_number;
update rowlease.[Load]
   set NumStaged = NumStaged + @p_num_rows, ReportedTime = rowlease.now()
 where LoadId = @p_load_id and Status = 'Staging';
set @staged = (select l.NumStaged from rowlease.[Load] as l
                where l.LoadId = @p_load_id and l.Status = 'Staging');
commit transaction;
select @staged as num_staged;
