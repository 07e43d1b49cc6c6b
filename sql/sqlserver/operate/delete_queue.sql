-- delete_queue: delete a queue that nothing uses.
-- params:   p_queue_name nvarchar(400), p_purge bit (1: also purge its requests, as a step of operate
--           does, at most 10,000), p_dry_run bit (1: delete nothing; only raise errors and count),
--           p_actor nvarchar(max) (the operator's name)
-- errors:   RL002 unknown queue, RL015 the queue has requests, a live worker, a schedule or a load;
--           51012 as take_lock
-- locks:    the queue's settings row; as do_verb; the counts' lock; rows of batch; no lock in a dry run
-- why:      on SQL Server, readers of settings hold no lock. An enqueue that has found the queue
--           but commits after the deletion leaves its requests without a queue: depth counts them,
--           and they run when the queue is created again. Counts of batches that are not folded yet
--           are in the rows that are deleted here, so they are folded first. The history of the queue
--           stays until it expires.
create or alter procedure rowlease.delete_queue
  @p_queue_name nvarchar(400), @p_purge bit = 0, @p_dry_run bit = 0,
  @p_actor nvarchar(max) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @used nvarchar(2000), @says nvarchar(2048), @arguments nvarchar(max), @filter nvarchar(max);
declare @now datetime2(6) = rowlease.now(), @next bigint, @id bigint, @count bigint = 0;
declare @found xml, @ids nvarchar(max), @done xml, @folded bigint;
begin transaction;
if @p_dry_run = 0
  update rowlease.QueueSettings set QueueName = QueueName where QueueName = @p_queue_name;
exec rowlease_internal.check_queue @p_queue_name;
if @p_purge = 1
begin
  set @filter = concat(
    N'{"queue": "', string_escape(@p_queue_name, 'json'),
    N'", "status": ["Scheduled", "Pending", "Failed"], "ids": [',
    (select string_agg(cast(r.request_id as nvarchar(max)), N',')
       from (select top (10000) i.request_id
               from rowlease_internal.sample_requests(@p_queue_name, 10000) as i) as r), N']}');
  exec rowlease_internal.find_ids @filter, @now, null, 10000, 10000, @found output, @next output;
  set @ids = cast(@found as nvarchar(max));
  set @count = (select count(*) from openjson(@ids));
  if @p_dry_run = 0
  begin
    exec rowlease_internal.note_operation N'purge', @filter, N'{}', @p_actor, @now, 1, @id output;
    exec rowlease_internal.do_verb N'purge', @ids, @filter, N'{}', @id, @now, @now, @done output;
    set @count = (select count(*) from openjson(cast(@done as nvarchar(max))));
    update o set NumRequests = @count
      from rowlease.Operation as o with (index (operation_pkey), forceseek, rowlock)
     where o.OperationId = @id
    option (maxdop 1);
  end;
end;
if exists (select 1 from rowlease_internal.sample_requests(@p_queue_name, 1) as r
            where r.status = 'Processing' or @p_purge = 0 or @p_dry_run = 0)
  select @used = concat(N'it has requests (', coalesce(sum(d.Scheduled + d.Pending), 0), N' waiting, ',
                        coalesce(sum(d.Processing), 0), N' running, ', coalesce(sum(d.Failed), 0),
                        N' failed): purge or cancel them')
    from rowlease.QueueDepth as d where d.QueueName = @p_queue_name;
if @used is null
  select @used = N'the worker "' + min(w.WorkerId) + N'" claims from it: stop the worker'
    from rowlease.Workers as w
   where w.Alive = 1
     and @p_queue_name in (select n.value collate Latin1_General_100_BIN2
                             from openjson(w.QueueNames) as n);
if @used is null
  select @used = N'the schedule "' + min(s.ScheduleName) + N'" enqueues into it: remove the schedule'
    from rowlease.Schedule as s where s.QueueName = @p_queue_name;
if @used is null
  select @used = N'the load "' + min(l.LoadId) + N'" is staged for it: promote or discard the load'
    from rowlease.[Load] as l where l.QueueName = @p_queue_name and l.Status = 'Staging';
if @used is not null
begin
  set @says = concat(N'queue "', @p_queue_name, N'" cannot be deleted, because ', @used, N' first');
  throw 51015, @says, 1;
end;
if @p_dry_run = 0
begin
  set @arguments = case when @p_purge = 1 then N'{"purge": true}' else N'{"purge": false}' end;
  exec rowlease_internal.note_change N'delete_queue', N'queue', @p_queue_name, @arguments, @p_actor;
  exec rowlease_internal.take_lock N'rowlease:depth';
  exec rowlease_internal.fold_depth 2147483647, @folded output;
  delete from rowlease.QueueSettings where QueueName = @p_queue_name;
  delete from rowlease.QueueDepth where QueueName = @p_queue_name;
  delete from rowlease.QueueDay where QueueName = @p_queue_name;
  delete from rowlease.QueueWaiter where QueueName = @p_queue_name;
  delete from rowlease.UnknownKind with (rowlock) where QueueName = @p_queue_name;
  delete from rowlease.DeadLetterTask with (rowlock) where QueueName = @p_queue_name;
end;
commit transaction;
select @count as delete_queue;
