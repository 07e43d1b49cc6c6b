-- correct_counts: set the counts of queues to the counts of their rows.
-- params:   p_queue_name nvarchar(400) (null: every queue), p_corrected xml output
-- returns:  p_corrected -- the wrong counts, as a JSON array of objects: queue_name, priority, counter,
--           was, actual; null: none
-- errors:   51012 as take_lock
-- locks:    the caller holds the lock of maintain; the counts' lock, shared. If
--           READ_COMMITTED_SNAPSHOT is off: first the whole queue and the loads, against writers, to the
--           end of the transaction
-- why:      one statement counts the rows and adds up the counts, so it sees both as of one
--           moment. Each transaction commits its rows and its counts together, so the statement
--           sees either both or neither, and the difference stays correct whatever is committed
--           meanwhile. Without row versions, a statement does not see the data as of one moment;
--           in that case, writers wait until it has finished.
create or alter procedure rowlease_internal.correct_counts @p_queue_name nvarchar(400), @p_corrected xml output
as
set nocount on;
set xact_abort on;
declare @rows int;
declare @compared table (
  QueueName nvarchar(100) collate Latin1_General_100_BIN2 not null, Priority smallint not null,
  WasScheduled bigint not null, WasPending bigint not null, WasProcessing bigint not null,
  WasFailed bigint not null, Scheduled bigint not null, Pending bigint not null,
  Processing bigint not null, Failed bigint not null, primary key (QueueName, Priority));
if exists (select 1 from sys.databases as d
            where d.database_id = db_id() and d.is_read_committed_snapshot_on = 0)
  set @rows = (select count(*)
                 from (select top (1) q.RequestId
                         from rowlease.Queue as q with (tablock, holdlock)
                       union all
                       select top (1) l.RunNumber from rowlease.[Load] as l with (tablock, holdlock)) as t);
exec rowlease_internal.take_lock N'rowlease:depth', 'Shared';
insert into @compared (QueueName, Priority, WasScheduled, WasPending, WasProcessing, WasFailed,
                       Scheduled, Pending, Processing, Failed)
select c.QueueName, c.Priority, sum(c.WasScheduled), sum(c.WasPending), sum(c.WasProcessing),
       sum(c.WasFailed), sum(c.Scheduled), sum(c.Pending), sum(c.Processing), sum(c.Failed)
  from (select d.QueueName, d.Priority, d.Scheduled as WasScheduled, d.Pending as WasPending,
               d.Processing as WasProcessing, d.Failed as WasFailed, cast(0 as bigint) as Scheduled,
               cast(0 as bigint) as Pending, cast(0 as bigint) as Processing,
               cast(0 as bigint) as Failed
          from rowlease.QueueDepth as d
         where @p_queue_name is null or d.QueueName = @p_queue_name
        union all
        select q.QueueName, q.Priority, 0, 0, 0, 0,
               case when q.Status = 'Scheduled' then 1 else 0 end,
               case when q.Status = 'Pending' then 1 else 0 end,
               case when q.Status = 'Processing' then 1 else 0 end,
               case when q.Status = 'Failed' then 1 else 0 end
          from rowlease.Queue as q
         where @p_queue_name is null or q.QueueName = @p_queue_name
        union all
        select l.QueueName, r.Priority, 0, 0, 0, 0, 0, 1, 0, 0
          from rowlease.[Load] as l join rowlease.Lane as r on r.RunNumber = l.RunNumber
         where l.InLane = 1 and (@p_queue_name is null or l.QueueName = @p_queue_name)) as c
 group by c.QueueName, c.Priority;
delete from @compared
 where Scheduled = WasScheduled and Pending = WasPending and Processing = WasProcessing
   and Failed = WasFailed;
insert into rowlease.QueueDepth (QueueName, Priority, Scheduled, Pending, Processing, Failed)
select c.QueueName, c.Priority, c.Scheduled - c.WasScheduled, c.Pending - c.WasPending,
       c.Processing - c.WasProcessing, c.Failed - c.WasFailed
  from @compared as c;
set @p_corrected = rowlease_internal.as_xml((
  select c.QueueName as queue_name, c.Priority as priority, n.Counter as counter, n.Was as was, n.Actual as actual
    from @compared as c
   cross apply (values (1, 'scheduled', c.WasScheduled, c.Scheduled),
                       (2, 'pending', c.WasPending, c.Pending),
                       (3, 'processing', c.WasProcessing, c.Processing),
                       (4, 'failed', c.WasFailed, c.Failed)) as n (Place, Counter, Was, Actual)
   where n.Was <> n.Actual
   order by c.QueueName, c.Priority desc, n.Place
     for json path));
