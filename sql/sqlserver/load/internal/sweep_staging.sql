-- sweep_staging: delete staged rows that will never be promoted, and old loads of streams.
-- params:   p_now datetime2(6), p_limit int, p_dropped bigint output -- p_limit: how many loads, and
--           rows of each run
-- returns:  p_dropped -- how many rows were dropped
-- locks:    the locks of loads, without waiting; rows of load; rows of staging of those loads,
--           skipping locked ones
-- why:      a run is in the ledger before its rows are staged. So staged rows without a run there
--           belong to a load that is promoted, that another run has taken over, or that had no report
--           for a day (then its id is free again). A batch of a stream is a load, which is deleted
--           after the retention of the history, because the table stream keeps what the stream has
--           enqueued. Other loads are kept for ever: a driver may run again at any time.
create or alter procedure rowlease_internal.sweep_staging
  @p_now datetime2(6), @p_limit int, @p_dropped bigint output
as
set nocount on;
set xact_abort on;
declare @old datetime2(6) = dateadd(day, -1, @p_now), @id nvarchar(100) = N'', @run bigint = -1;
declare @lock nvarchar(255), @granted bit;
declare @kept datetime2(6) = dateadd(
  day, -(select max(s.RetentionDays) from rowlease.QueueSettings as s), @p_now);
set @p_dropped = 0;
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
while 1 = 1
begin
  set @run = (select min(s.RunNumber)
                from rowlease.Staging as s
                  with (forceseek (staging_run (RunNumber)), readpast, readcommittedlock)
               where s.RunNumber > @run);
  if @run is null
    break;
  set @id = (select min(s.LoadId)
               from rowlease.Staging as s
                 with (forceseek (staging_run (RunNumber)), readpast, readcommittedlock)
              where s.RunNumber = @run);
  set @lock = rowlease_internal.lock_name(N'load', N'', @id);
  exec rowlease_internal.try_lock @lock, @granted output;
  if @granted = 1
  begin
    delete top (@p_limit) s
      from rowlease.Staging as s with (index (staging_run), forceseek, readpast, rowlock)
     where s.RunNumber = @run and s.LoadId = @id
       and not exists (select 1 from rowlease.[Load] as l
                        where l.LoadId = @id and l.RunNumber = @run and l.Status = 'Staging')
    option (maxdop 1);
    set @p_dropped = @p_dropped + rowcount_big();
  end;
end;
