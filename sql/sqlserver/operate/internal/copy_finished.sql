-- copy_finished: enqueue the finished ones of the found requests again, as new requests.
-- params:   p_request_ids nvarchar(max), p_operation_id bigint, p_now datetime2(6), p_copied xml output
-- returns:  p_copied -- a JSON array with an object for each of them that is finished: request_id,
--           new_request_id, outcome -- 'ok' | 'duplicate' | 'not_found' (its payload was not kept,
--           or its queue was deleted)
-- why:      a new request has a place, a capacity and a dedup key like any other, so it is admitted and
--           added as enqueue_many does.
create or alter procedure rowlease_internal.copy_finished
  @p_request_ids nvarchar(max), @p_operation_id bigint, @p_now datetime2(6), @p_copied xml output
as
set nocount on;
set xact_abort on;
declare @queue nvarchar(100) = N'', @count int, @priority int, @admitted bit;
declare @kinds nvarchar(max), @payloads nvarchar(max), @priorities nvarchar(max), @dedups nvarchar(max);
declare @groups nvarchar(max), @attempts nvarchar(max), @bases nvarchar(max), @headers nvarchar(max);
declare @added xml;
declare @ids table (RequestId bigint not null primary key);
declare @copied table (RequestId bigint not null primary key, Outcome varchar(20) not null,
                       NewRequestId bigint);
declare @old table (Place int not null primary key, RequestId bigint not null);
declare @answers table (Place int not null primary key, RequestId bigint, Outcome varchar(10) not null);
insert into @ids (RequestId)
select cast(i.value as bigint) from openjson(@p_request_ids) as i;
insert into @copied (RequestId, Outcome)
select h.RequestId, 'not_found' from @ids as i
  join rowlease.QueueHistory as h on h.RequestId = i.RequestId
 where h.Payload is null
    or not exists (select 1 from rowlease.QueueSettings as s where s.QueueName = h.QueueName);
while @queue is not null
begin
  set @queue = (select min(h.QueueName) from @ids as i
                  join rowlease.QueueHistory as h on h.RequestId = i.RequestId
                  join rowlease.QueueSettings as s on s.QueueName = h.QueueName
                 where h.Payload is not null and h.QueueName > @queue);
  if @queue is null
    break;
  delete from @old;
  delete from @answers;
  insert into @old (Place, RequestId)
  select row_number() over (order by h.RequestId) - 1, h.RequestId
    from @ids as i join rowlease.QueueHistory as h on h.RequestId = i.RequestId
   where h.Payload is not null and h.QueueName = @queue;
  select @count = count(*), @priority = max(h.Priority),
         @kinds = N'[' + string_agg(N'"' + string_escape(cast(h.Kind as nvarchar(max)), 'json') + N'"', N',')
                           within group (order by o.Place) + N']',
         @payloads = N'[' + string_agg(N'"' + string_escape(h.Payload, 'json') + N'"', N',')
                              within group (order by o.Place) + N']',
         @priorities = N'[' + string_agg(cast(h.Priority as nvarchar(max)), N',')
                                within group (order by o.Place) + N']',
         @dedups = N'[' + string_agg(coalesce(N'"' + string_escape(cast(h.DedupKey as nvarchar(max)), 'json')
                                              + N'"', N'null'), N',')
                            within group (order by o.Place) + N']',
         @groups = N'[' + string_agg(coalesce(N'"' + string_escape(cast(h.GroupKey as nvarchar(max)), 'json')
                                              + N'"', N'null'), N',')
                            within group (order by o.Place) + N']',
         @attempts = N'[' + string_agg(cast(h.MaxAttempts as nvarchar(max)), N',')
                              within group (order by o.Place) + N']',
         @headers = N'[' + string_agg(coalesce(N'"' + string_escape(h.Headers, 'json') + N'"', N'null'), N',')
                             within group (order by o.Place) + N']',
         @bases = N'[' + string_agg(coalesce(cast(h.RetryBaseMs as nvarchar(max)), N'null'), N',')
                           within group (order by o.Place) + N']'
    from @old as o join rowlease.QueueHistory as h on h.RequestId = o.RequestId;
  exec rowlease_internal.check_capacity @queue, @count, @priority, @p_now, @admitted output;
  exec rowlease_internal.add_requests
    @queue, @p_now, @kinds, @payloads, @priorities, null, null, @dedups, @groups, @attempts, @bases,
    @added output, @headers;
  insert into @answers (Place, RequestId, Outcome)
  select a.place, a.request_id, a.outcome
    from openjson(cast(@added as nvarchar(max)))
         with (place int, request_id bigint, outcome varchar(10)) as a;
  insert into rowlease.Requeued (RequestId, RequeuedFrom, OperationId)
  select a.RequestId, o.RequestId, @p_operation_id
    from @answers as a join @old as o on o.Place = a.Place where a.Outcome = 'ok';
  insert into @copied (RequestId, Outcome, NewRequestId)
  select o.RequestId, a.Outcome, case when a.Outcome = 'ok' then a.RequestId end
    from @answers as a join @old as o on o.Place = a.Place;
end;
set @p_copied = rowlease_internal.as_xml((
  select c.RequestId as request_id, c.Outcome as outcome, c.NewRequestId as new_request_id
    from @copied as c for json path));
