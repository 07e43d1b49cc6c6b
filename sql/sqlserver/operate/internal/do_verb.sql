-- do_verb: apply the verb of an operation to the requests in the caller's table #found.
-- params:   p_verb nvarchar(max), p_filter nvarchar(max), p_arguments nvarchar(max), p_operation_id
--           bigint, p_started datetime2(6) (when the operation began), p_now datetime2(6)
-- returns:  rows in the caller's table #touched
-- errors:   as enqueue_many; 51012 as take_lock
-- locks:    requeue: as revive_found and copy_finished; else the requests' own locks, in request order, then
--           their groups'; as bring_in_named; rows of queue, exclusive, in request order; as the verb
-- why:      each verb has its own routine; this routine locks the rows, and passes the arguments. A
--           request that no longer matches is left alone.
create or alter procedure rowlease_internal.do_verb
  @p_verb nvarchar(max), @p_filter nvarchar(max), @p_arguments nvarchar(max), @p_operation_id bigint,
  @p_started datetime2(6), @p_now datetime2(6)
as
set nocount on;
set xact_abort on;
declare @ids nvarchar(max), @groups nvarchar(max), @id bigint = -1, @edge bigint, @filter nvarchar(max);
declare @priority int, @due datetime2(6);
set @ids = (select N'[' + string_agg(cast(f.RequestId as nvarchar(max)), N',') + N']' from #found as f);
if @ids is null
  return;
if @p_verb = N'requeue'
begin
  insert into #touched (RequestId, Outcome, NewRequestId)
  select f.RequestId, 'ok', null from #found as f
    join rowlease.Queue as q on q.RequestId = f.RequestId;
  exec rowlease_internal.revive_found @p_now;
  -- A dead letter that was cancelled meanwhile is in the history now.
  delete from #found where RequestId in (select t.RequestId from #touched as t);
  exec rowlease_internal.copy_finished @p_operation_id, @p_now;
  return;
end;
exec rowlease_internal.lock_requests @ids;
set @groups = (select g.queue_name as q, g.group_key as g
                 from rowlease_internal.groups_of(@ids) as g for json path);
exec rowlease_internal.lock_groups @groups;
if @p_verb = N'reprioritise'
  update rowlease.QueueSettings set QueueName = QueueName
   where QueueName in (select r.QueueName from #found as f
                         join rowlease.Requests as r on r.RequestId = f.RequestId);
exec rowlease_internal.bring_in_named @ids;
while @id is not null
begin
  set @id = (select min(f.RequestId) from #found as f where f.RequestId > @id);
  update q set LockToken = q.LockToken
    from rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock)
   where q.RequestId = @id
  option (maxdop 1);
end;
set @filter = json_modify(@p_filter, '$.ids', json_query(@ids));
delete from #found;
exec rowlease_internal.find_ids @filter, @p_started, null, 10000, 10000, @edge output;
set @ids = (select N'[' + string_agg(cast(f.RequestId as nvarchar(max)), N',') + N']' from #found as f);
insert into #touched (RequestId, Outcome)
select f.RequestId,
       case when @p_verb = N'cancel' and exists (
              select 1 from rowlease.Queue as q
               where q.RequestId = f.RequestId and q.LockedBy is not null)
            then 'cancel_requested' else 'ok' end
  from #found as f;
if @p_verb = N'cancel'
begin
  update q set CancelRequested = 1
    from #found as f
   inner join rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock)
           on q.RequestId = f.RequestId
   where q.LockedBy is not null
  option (loop join, force order, maxdop 1);
  exec rowlease_internal.take_out @ids, @groups, @p_now;
end;
else if @p_verb = N'reprioritise'
begin
  set @priority = cast(json_value(@p_arguments, '$.priority') as int);
  exec rowlease_internal.change_priority @priority;
end;
else if @p_verb = N'reschedule'
begin
  set @due = coalesce(cast(json_value(@p_arguments, '$.due_time') as datetime2(6)),
                      rowlease_internal.add_ms(@p_started, cast(json_value(@p_arguments, '$.delay_ms') as bigint)),
                      @p_now);
  exec rowlease_internal.change_due_time @p_now, @due;
end;
else if @p_verb = N'break'
  exec rowlease_internal.end_leases @groups, @p_now;
else
  exec rowlease_internal.purge_found @groups;
