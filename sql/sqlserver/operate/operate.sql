-- operate: apply a verb to the requests that match a filter, in steps; each step is a transaction.
-- params:   p_verb nvarchar(max) (docs/operations.md lists the verbs), p_filter nvarchar(max) (JSON,
--           as of find_requests), p_arguments nvarchar(max) (JSON: those of the verb, by name), p_actor
--           nvarchar(max) (the operator's name), p_dry_run bit (1: change nothing), p_after bigint
--           (dry run: start below this id), p_operation_id bigint (do the next step of this
--           operation), p_limit int (how many requests in this step)
-- errors:   as do_verb and check_filter; RL001 a wrong verb, filter or argument, or an operation
--           that cannot be continued; 51012 as take_lock
-- locks:    the operation's row; as do_verb; held to the end of the step
create or alter procedure rowlease.operate
  @p_verb nvarchar(max), @p_filter nvarchar(max) = N'{}', @p_arguments nvarchar(max) = N'{}',
  @p_actor nvarchar(max) = null, @p_dry_run bit = 0, @p_after bigint = null,
  @p_operation_id bigint = null, @p_limit int = 1000
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6) = rowlease.now(), @started datetime2(6), @next bigint, @says nvarchar(2048);
declare @filter nvarchar(max), @arguments nvarchar(max) = coalesce(@p_arguments, N'{}'), @verb nvarchar(max);
declare @finished datetime2(6), @found xml, @ids nvarchar(max), @done xml, @count bigint, @num bigint;
declare @touched table (RequestId bigint not null primary key, Outcome varchar(20) not null,
                        NewRequestId bigint);
begin transaction;
if @p_operation_id is not null
begin
  update o set NumRequests = o.NumRequests
    from rowlease.Operation as o with (index (operation_pkey), forceseek, rowlock)
   where o.OperationId = @p_operation_id
  option (maxdop 1);
  select @verb = o.Verb, @finished = o.FinishedTime, @filter = o.Filter, @arguments = o.Arguments,
         @started = o.StartedTime, @p_after = o.After
    from rowlease.Operation as o where o.OperationId = @p_operation_id;
  if @verb is null or @verb <> @p_verb or @finished is not null
  begin
    set @says = concat(N'there is no unfinished operation ', @p_operation_id, N' with the verb ',
                       left(@p_verb, 100), N'; list the operations to see which can be resumed');
    throw 51001, @says, 1;
  end;
end;
else
begin
  set @filter = coalesce(@p_filter, N'{}');
  exec rowlease_internal.check_filter @filter;
  exec rowlease_internal.check_operation @p_verb, @filter, @arguments;
  set @filter = rowlease_internal.filter_of_operation(@p_verb, @filter);
  set @started = @now;
  if @p_dry_run = 0
    exec rowlease_internal.note_operation @p_verb, @filter, @arguments, @p_actor, @now, 0, @p_operation_id output;
end;
exec rowlease_internal.find_ids @filter, @started, @p_after, @p_limit, 10000, @found output, @next output;
set @ids = cast(@found as nvarchar(max));
insert into @touched (RequestId, Outcome)
select l.request_id, 'waits' from rowlease_internal.left_to_batches(@p_verb, @filter, @ids) as l;
set @ids = (select N'[' + string_agg(i.value, N',') + N']' from openjson(@ids) as i
             where cast(i.value as bigint) not in (select t.RequestId from @touched as t));
if @p_dry_run = 1
  insert into @touched (RequestId, Outcome)
  select w.request_id, w.outcome from rowlease_internal.would_be(@p_verb, @ids) as w
  option (recompile);
else
begin
  exec rowlease_internal.do_verb @p_verb, @ids, @filter, @arguments, @p_operation_id, @started, @now, @done output;
  insert into @touched (RequestId, Outcome, NewRequestId)
  select d.request_id, d.outcome, d.new_request_id
    from openjson(cast(@done as nvarchar(max)))
         with (request_id bigint, outcome varchar(20), new_request_id bigint) as d;
  set @count = (select count(*) from @touched as t where t.Outcome in ('ok', 'cancel_requested'));
  update o
     set NumRequests = o.NumRequests + @count, LastTime = @now, After = @next,
         FinishedTime = case when @next is null then @now end
    from rowlease.Operation as o with (index (operation_pkey), forceseek, rowlock)
   where o.OperationId = @p_operation_id
  option (maxdop 1);
  set @num = (select o.NumRequests from rowlease.Operation as o where o.OperationId = @p_operation_id);
end;
commit transaction;
select r.request_id, r.outcome, r.new_request_id, r.operation_id, r.after, r.num_requests
  from (select t.RequestId as request_id, t.Outcome as outcome, t.NewRequestId as new_request_id,
               cast(null as bigint) as operation_id, cast(null as bigint) as after,
               cast(null as bigint) as num_requests, 0 as is_last
          from @touched as t
         union all
        select null, null, null, case when @p_dry_run = 0 then @p_operation_id end, @next, @num, 1) as r
 order by r.is_last, r.request_id desc;
