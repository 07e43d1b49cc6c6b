-- recount_queues: correct the counts of queues and unblock groups, at a bounded cost.
-- params:   p_limit int, p_corrected bigint output -- p_limit: a queue with more requests than
--           this is not counted
-- returns:  p_corrected -- how many counts were wrong and how many requests were blocked by
--           mistake
-- errors:   51012 as take_lock
-- why:      rows may have been changed by hand. If the counts of a queue show few requests, its
--           rows are counted. In a larger queue, this routine notices a count below 0, a count
--           without a request and a request without a count; other mistakes are found when the
--           queue has become small, or by recount. Without READ_COMMITTED_SNAPSHOT the routine
--           would wait for writers, and would not see the rows as of one moment; in that case it
--           does nothing, and only recount corrects the counts.
create or alter procedure rowlease_internal.recount_queues @p_limit int, @p_corrected bigint output
as
set nocount on;
set xact_abort on;
declare @queue nvarchar(100) = N'', @total bigint, @least bigint, @wrong bit, @many int = @p_limit + 1;
declare @counts xml, @groups xml;
set @p_corrected = 0;
if exists (select 1 from sys.databases as d
            where d.database_id = db_id() and d.is_read_committed_snapshot_on = 1)
  set @queue = (select min(s.QueueName) from rowlease.QueueSettings as s);
else
  set @queue = null;
while @queue is not null
begin
  select @total = coalesce(sum(c.Total), 0), @least = coalesce(min(c.Least), 0)
    from (select sum(n.Number) as Total, min(n.Number) as Least
            from (select d.Priority, sum(d.Scheduled) as Scheduled, sum(d.Pending) as Pending,
                         sum(d.Processing) as Processing, sum(d.Failed) as Failed
                    from rowlease.QueueDepth as d where d.QueueName = @queue
                   group by d.Priority) as p
           cross apply (values (p.Scheduled), (p.Pending), (p.Processing), (p.Failed)) as n (Number)
         ) as c;
  select @counts = null, @groups = null;
  set @wrong = case when @least < 0 then 1 else 0 end;
  if @total > @p_limit and exists (
    select 1
      from (select n.Status collate Latin1_General_100_BIN2 as Status, n.Number, 0 as Found
              from rowlease.QueueDepth as d
             cross apply (values ('Scheduled', d.Scheduled), ('Pending', d.Pending),
                                 ('Processing', d.Processing), ('Failed', d.Failed)
                         ) as n (Status, Number)
             where d.QueueName = @queue
            union all
            select r.status, 0, 1 from rowlease_internal.sample_requests(@queue, 1) as r) as e
     group by e.Status
    having case when sum(e.Number) > 0 then 1 else 0 end <> max(e.Found))
    set @wrong = 1;
  if @total <= @p_limit
  begin
    if exists (
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
      set @wrong = 1;
    exec rowlease_internal.free_groups @queue, @groups output;
  end;
  if @wrong = 1
    exec rowlease_internal.correct_counts @queue, @counts output;
  set @p_corrected = @p_corrected + (select count(*) from openjson(cast(@groups as nvarchar(max))))
                     + (select count(*) from openjson(cast(@counts as nvarchar(max))));
  set @queue = (select min(s.QueueName) from rowlease.QueueSettings as s where s.QueueName > @queue);
end;
