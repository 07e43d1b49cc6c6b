-- begin_day: note the totals of queues that have none of this day, and drop those of long ago.
-- params:   p_now datetime2(6), p_rows bigint output
-- returns:  p_rows -- how many rows were added or dropped; 0 if another session folds counts
-- locks:    the caller holds the lock of maintain; the counts' lock, without waiting; rows of QueueDay
create or alter procedure rowlease_internal.begin_day @p_now datetime2(6), @p_rows bigint output
as
set nocount on;
set xact_abort on;
declare @granted bit, @today date = cast(@p_now as date);
declare @days int = (select max(s.RetentionDays) from rowlease.QueueSettings as s);
declare @new table (QueueName nvarchar(100) collate Latin1_General_100_BIN2 not null primary key,
                    IsFirst bit not null);
set @p_rows = 0;
insert into @new (QueueName, IsFirst)
select s.QueueName, case when exists (select 1 from rowlease.QueueDay as d
                                       where d.QueueName = s.QueueName) then 0 else 1 end
  from rowlease.QueueSettings as s
 where not exists (select 1 from rowlease.QueueDay as d
                    where d.QueueName = s.QueueName and d.Day = @today);
if @@rowcount = 0
  return;
exec rowlease_internal.try_lock N'rowlease:depth', @granted output;
if @granted = 0
  return;
insert into rowlease.QueueDay (QueueName, Day, NumFinished, NumFailures, NumFailed)
select n.QueueName, @today, coalesce(sum(d.NumFinished), 0), coalesce(sum(d.NumFailures), 0),
       coalesce(sum(d.Failed), 0)
  from @new as n
  left join rowlease.QueueDepth as d with (readpast, readcommittedlock)
         on d.QueueName = n.QueueName and n.IsFirst = 0
 group by n.QueueName;
set @p_rows = @@rowcount;
if @days is null or @days < 90
  set @days = 90;
delete from rowlease.QueueDay where Day < dateadd(day, -@days, @today);
set @p_rows = @p_rows + @@rowcount;
