-- depth: count the requests that are waiting, running or failed, per queue and priority.
-- params:   p_queue_name nvarchar(400) (null: every queue)
-- locks:    the counts' lock, shared, while they are read
-- why:      it adds up the counts that the routines have appended, and never counts rows of the
--           queue. Uncommitted counts are skipped; see sum_depth.
create or alter procedure rowlease.depth @p_queue_name nvarchar(400) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @found table (
  QueueName nvarchar(100) collate Latin1_General_100_BIN2 not null, Priority int not null,
  Scheduled bigint not null, Pending bigint not null, Processing bigint not null,
  Failed bigint not null);
if @p_queue_name is not null
  exec rowlease_internal.check_queue @p_queue_name;
begin transaction;
exec rowlease_internal.take_lock N'rowlease:depth', 'Shared';
insert into @found (QueueName, Priority, Scheduled, Pending, Processing, Failed)
select d.QueueName, d.Priority, sum(d.Scheduled), sum(d.Pending), sum(d.Processing), sum(d.Failed)
  from rowlease.QueueDepth as d with (readpast, readcommittedlock)
 where @p_queue_name is null or d.QueueName = @p_queue_name
 group by d.QueueName, d.Priority;
commit transaction;
select f.QueueName as queue_name, f.Priority as priority, f.Scheduled as scheduled,
       f.Pending as pending, f.Processing as processing, f.Failed as failed
  from @found as f
 where f.Scheduled <> 0 or f.Pending <> 0 or f.Processing <> 0 or f.Failed <> 0
 order by f.QueueName, f.Priority desc;
