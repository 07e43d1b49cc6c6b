-- diagnose_counts: find queues whose counts differ from their rows; a part of diagnose.
-- params:   p_limit int, p_findings xml output -- p_limit: a queue with more requests than this is not counted
-- returns:  p_findings -- a JSON array of objects: finding, subject, message, action; null: none
-- why:      as recount_queues, it does nothing without READ_COMMITTED_SNAPSHOT, where it would not see
--           rows and counts of one moment. It changes nothing.
create or alter procedure rowlease_internal.diagnose_counts @p_limit int, @p_findings xml output
as
set nocount on;
set xact_abort on;
declare @queue nvarchar(100), @total bigint, @many int = @p_limit + 1;
declare @findings table (Place int identity primary key, Finding varchar(20) not null,
                         Subject nvarchar(200) not null, Message nvarchar(4000) not null,
                         Action nvarchar(4000) not null);
if exists (select 1 from sys.databases as d
            where d.database_id = db_id() and d.is_read_committed_snapshot_on = 1)
  set @queue = (select min(s.QueueName) from rowlease.QueueSettings as s);
while @queue is not null
begin
  set @total = (select coalesce(sum(d.Scheduled + d.Pending + d.Processing + d.Failed), 0)
                  from rowlease.QueueDepth as d where d.QueueName = @queue);
  if exists (
       select 1 from rowlease.QueueDepth as d where d.QueueName = @queue
        group by d.Priority
       having sum(d.Scheduled) < 0 or sum(d.Pending) < 0 or sum(d.Processing) < 0 or sum(d.Failed) < 0)
     or @total <= @p_limit and exists (
       select 1
         from (select d.Priority, d.Scheduled, d.Pending, d.Processing, d.Failed
                 from rowlease.QueueDepth as d where d.QueueName = @queue
               union all
               select r.priority, case when r.status = 'Scheduled' then -1 else 0 end,
                      case when r.status = 'Pending' then -1 else 0 end,
                      case when r.status = 'Processing' then -1 else 0 end,
                      case when r.status = 'Failed' then -1 else 0 end
                 from rowlease_internal.sample_requests(@queue, @many) as r) as e
        group by e.Priority
       having sum(e.Scheduled) <> 0 or sum(e.Pending) <> 0 or sum(e.Processing) <> 0
           or sum(e.Failed) <> 0)
    insert into @findings (Finding, Subject, Message, Action)
    values ('counts', @queue, concat(N'the counts of the queue "', @queue, N'" differ from its rows'),
            concat(N'correct them: exec rowlease.recount N''', @queue, N''''));
  set @queue = (select min(s.QueueName) from rowlease.QueueSettings as s where s.QueueName > @queue);
end;
set @p_findings = rowlease_internal.as_xml((
  select f.Finding as finding, f.Subject as subject, f.Message as message, f.Action as action
    from @findings as f order by f.Place for json path));
