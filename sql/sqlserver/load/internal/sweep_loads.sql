-- sweep_loads: delete loads that had no report for a day, and old loads of streams.
-- params:   p_now datetime2(6), p_limit int -- how many loads of streams
-- returns:  nothing
-- locks:    the locks of loads, without waiting; rows of load, skipping locked ones
create or alter procedure rowlease_internal.sweep_loads @p_now datetime2(6), @p_limit int
as
set nocount on;
set xact_abort on;
declare @old datetime2(6) = dateadd(day, -1, @p_now), @id nvarchar(100) = N'';
declare @lock nvarchar(255), @granted bit;
declare @kept datetime2(6) = dateadd(
  day, -(select max(s.RetentionDays) from rowlease.QueueSettings as s), @p_now);
while 1 = 1
begin
  set @id = (select min(l.LoadId)
               from rowlease.[Load] as l with (forceseek (load_staging (ReportedTime)))
              where l.Status in ('Staging', 'Ended') and l.ReportedTime < @old and l.LoadId > @id);
  if @id is null
    break;
  set @lock = rowlease_internal.lock_name(N'load', N'', @id);
  exec rowlease_internal.try_lock @lock, @granted output;
  if @granted = 1
    delete from rowlease.[Load]
     where LoadId = @id and Status in ('Staging', 'Ended') and ReportedTime < @old;
end;
delete top (@p_limit) l
  from rowlease.[Load] as l with (index (load_stream), forceseek, readpast, rowlock)
 where l.StreamName is not null and l.InLane = 0 and l.PromotedTime < @kept
option (maxdop 1);
