-- do_verb: apply the verb of an operation to these requests.
-- params:   p_verb nvarchar(max), p_request_ids nvarchar(max), p_filter nvarchar(max), p_arguments
--           nvarchar(max), p_operation_id bigint, p_started datetime2(6) (when the operation began),
--           p_now datetime2(6), p_done xml output
-- returns:  p_done -- a JSON array of objects: request_id, outcome, new_request_id
-- errors:   as enqueue_many; 51012 as take_lock
-- locks:    requeue: as revive_found and copy_finished; else the requests' own locks, in request order, then
--           their groups'; as bring_in_named; rows of queue, exclusive, in request order; as the verb
-- why:      each verb has its own routine; this routine locks the rows, and passes the arguments. A
--           request that no longer matches is left alone.
create or alter procedure rowlease_internal.do_verb
  @p_verb nvarchar(max), @p_request_ids nvarchar(max), @p_filter nvarchar(max),
  @p_arguments nvarchar(max), @p_operation_id bigint, @p_started datetime2(6), @p_now datetime2(6),
  @p_done xml output
as
set nocount on;
set xact_abort on;
declare @ids nvarchar(max), @groups nvarchar(max), @id bigint = -1, @edge bigint, @filter nvarchar(max);
declare @found xml, @revived xml, @copied xml;
declare @priority int = cast(json_value(@p_arguments, '$.priority') as int);
declare @due datetime2(6) = coalesce(
  cast(json_value(@p_arguments, '$.due_time') as datetime2(6)),
  rowlease_internal.add_ms(@p_started, cast(json_value(@p_arguments, '$.delay_ms') as bigint)), @p_now);
declare @given table (RequestId bigint not null primary key);
if @p_request_ids is null
  return;
if @p_verb = N'requeue'
begin
  exec rowlease_internal.revive_found @p_request_ids, @p_now, @revived output;
  -- A dead letter that was cancelled meanwhile is in the history now.
  set @ids = (select N'[' + string_agg(i.value, N',') + N']' from openjson(@p_request_ids) as i
               where cast(i.value as bigint) not in (
                 select r.request_id from openjson(cast(@revived as nvarchar(max))) with (request_id bigint) as r));
  exec rowlease_internal.copy_finished @ids, @p_operation_id, @p_now, @copied output;
  set @p_done = rowlease_internal.as_xml((
    select d.request_id, d.outcome, d.new_request_id
      from (values (cast(@revived as nvarchar(max))), (cast(@copied as nvarchar(max)))) as p (part)
     cross apply openjson(p.part) with (request_id bigint, outcome varchar(20), new_request_id bigint) as d
       for json path));
  return;
end;
insert into @given (RequestId) select cast(i.value as bigint) from openjson(@p_request_ids) as i;
exec rowlease_internal.lock_requests @p_request_ids;
set @groups = (select g.queue_name as q, g.group_key as g
                 from rowlease_internal.groups_of(@p_request_ids) as g for json path);
exec rowlease_internal.lock_groups @groups;
if @p_verb = N'reprioritise'
  update rowlease.QueueSettings set QueueName = QueueName
   where QueueName in (select r.QueueName from @given as g
                         join rowlease.Requests as r on r.RequestId = g.RequestId);
exec rowlease_internal.bring_in_named @p_request_ids;
while @id is not null
begin
  set @id = (select min(g.RequestId) from @given as g where g.RequestId > @id);
  update q set LockToken = q.LockToken
    from rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock)
   where q.RequestId = @id
  option (maxdop 1);
end;
set @filter = json_modify(@p_filter, '$.ids', json_query(@p_request_ids));
exec rowlease_internal.find_ids @filter, @p_started, null, 10000, 10000, @found output, @edge output;
set @ids = cast(@found as nvarchar(max));
set @p_done = rowlease_internal.as_xml((
  select cast(i.value as bigint) as request_id,
         case when @p_verb = N'cancel' and exists (
                select 1 from rowlease.Queue as q
                 where q.RequestId = cast(i.value as bigint) and q.LockedBy is not null)
              then 'cancel_requested' else 'ok' end as outcome
    from openjson(@ids) as i for json path));
if @p_verb = N'cancel'
begin
  update q set CancelRequested = 1
    from openjson(@ids) as i
   inner join rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock)
           on q.RequestId = cast(i.value as bigint)
   where q.LockedBy is not null
  option (loop join, force order, maxdop 1);
  exec rowlease_internal.note_cancellation @ids, @p_operation_id, @p_now;
  exec rowlease_internal.take_out @ids, @groups, @p_now;
end;
else if @p_verb = N'reprioritise'
  exec rowlease_internal.change_priority @ids, @priority;
else if @p_verb = N'reschedule'
  exec rowlease_internal.change_due_time @ids, @p_now, @due;
else if @p_verb = N'break'
  exec rowlease_internal.end_leases @ids, @groups, @p_now;
else
  exec rowlease_internal.purge_found @ids, @groups;
