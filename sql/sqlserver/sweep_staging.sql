-- sweep_staging: drop staged rows that nobody will promote any more.
-- params:   p_now datetime2(6), p_limit int, p_dropped bigint output -- p_limit: how many rows of each
--           load
-- returns:  p_dropped -- how many rows were dropped
-- errors:   none
-- locks:    the locks of loads, without waiting; rows of load, and of staging of those loads
-- why:      a row says nothing of its age, so an unknown load gets a row in the ledger when it is
--           first seen. Rows that come after the promotion are those of a task that was not needed;
--           a load that was not reported on for a day is abandoned, and its id free again.
create or alter procedure rowlease.sweep_staging
  @p_now datetime2(6), @p_limit int, @p_dropped bigint output
as
set nocount on;
set xact_abort on;
declare @old datetime2(6) = dateadd(day, -1, @p_now), @id nvarchar(100) = N'';
declare @lock nvarchar(255), @granted bit;
set @p_dropped = 0;
while 1 = 1
begin
  set @id = (select min(s.LoadId) from rowlease.Staging as s where s.LoadId > @id);
  if @id is null
    break;
  set @lock = rowlease.lock_name(N'load', N'', @id);
  exec rowlease.try_lock @lock, @granted output;
  if @granted = 0
    continue;
  insert into rowlease.[Load] (LoadId, Status, NumRows, StartedTime, ReportedTime)
  select @id, 'Staging', 0, @p_now, @p_now
   where not exists (select 1 from rowlease.[Load] as l with (updlock, holdlock) where l.LoadId = @id);
  delete top (@p_limit) from rowlease.Staging
   where LoadId = @id
     and exists (select 1 from rowlease.[Load] as l
                  where l.LoadId = @id and (l.Status = 'Promoted' or l.ReportedTime < @old));
  set @p_dropped = @p_dropped + rowcount_big();
end;
delete from rowlease.[Load]
 where Status = 'Staging' and ReportedTime < @old
   and not exists (select 1 from rowlease.Staging as s where s.LoadId = [Load].LoadId);
