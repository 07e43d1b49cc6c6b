-- next_step: find the next step of maintain for which there is something to do.
-- params:   p_step int, p_queue_name nvarchar(400) (the last step and its queue; -1 and empty: none),
--           p_now datetime2(6)
-- returns:  step int, queue_name nvarchar(100) (empty: the step is for all queues), what nvarchar(30)
--           -- no row: none is left
-- errors:   none
-- locks:    none; rows that others have locked are skipped
-- why:      where nothing happens, maintain is this query and one transaction: counts are compared with
--           rows in each call, because rows may have been changed by hand. A step that has failed is due
--           until it succeeds, because its success removes the failure. Steps 0 and 1 are for each queue.
create or alter function rowlease_internal.next_step(
  @p_step int, @p_queue_name nvarchar(400), @p_now datetime2(6)
) returns table
as
return
  select top (1) n.step, d.queue_name, n.what
    from (values
      (0, N'leases broken'), (1, N'scheduled requests due'), (2, N'receipts dropped'),
      (3, N'workers removed'), (4, N'progress dropped'), (5, N'attempts dropped'),
      (6, N'staged rows dropped'), (7, N'waiters expired'), (8, N'history dropped'),
      (9, N'counts corrected'), (10, N'counts folded'), (11, N'starts forgotten'),
      (12, N'operations dropped'), (13, N'batches finished'), (14, N'batches dropped'),
      (15, N'times set back'), (16, N'days begun')) as n (step, what)
   inner join (
     select s.step, cast(null as nvarchar(30)) as failed, s.queue_name
       from rowlease_internal.due_steps(@p_now) as s
      union all select 9, null, N''
      union all
     select null, f.What, f.QueueName
       from rowlease.MaintainFailure as f with (readpast, readcommittedlock)) as d
           on d.step = n.step or d.failed = n.what collate Latin1_General_100_BIN2
   where n.step > @p_step
      or n.step = @p_step and d.queue_name > @p_queue_name collate Latin1_General_100_BIN2
   order by n.step, d.queue_name;
