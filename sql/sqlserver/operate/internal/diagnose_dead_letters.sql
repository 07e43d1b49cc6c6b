-- diagnose_dead_letters: find queues with more dead letters than when the day began; a part of diagnose.
-- params:   p_now datetime2(6), p_findings xml output
-- returns:  p_findings -- a JSON array of objects: finding, subject, message, action; null: none
-- errors:   51012 as take_lock
-- locks:    the counts' lock, shared, while they are read
create or alter procedure rowlease_internal.diagnose_dead_letters
  @p_now datetime2(6), @p_findings xml output
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @failed table (QueueName nvarchar(100) collate Latin1_General_100_BIN2 not null primary key,
                       NumFailed bigint not null);
begin transaction;
exec rowlease_internal.take_lock N'rowlease:depth', 'Shared';
insert into @failed (QueueName, NumFailed)
select c.QueueName, sum(c.Failed) from rowlease.QueueDepth as c with (readpast, readcommittedlock)
 group by c.QueueName;
commit transaction;
set @p_findings = rowlease_internal.as_xml((
  select 'dead_letters' as finding, t.QueueName as subject,
         concat(N'the queue "', t.QueueName, N'" has ', t.NumFailed, N' dead letters, ',
                t.NumFailed - d.NumFailed, N' more than when the day began (UTC)') as message,
         concat(N'see their errors: rowlease requests errors; mend the cause, then: ',
                N'rowlease requests requeue queue:', t.QueueName) as action
    from @failed as t
    join rowlease.QueueDay as d on d.QueueName = t.QueueName and d.Day = cast(@p_now as date)
   where t.NumFailed > d.NumFailed
   order by t.QueueName
     for json path));
