-- left_to_batches: find the requests that an operation leaves alone because they wait for a batch.
-- params:   p_verb nvarchar(max), p_filter nvarchar(max), p_request_ids nvarchar(max)
-- returns:  request_id bigint
create or alter function rowlease_internal.left_to_batches(
  @p_verb nvarchar(max), @p_filter nvarchar(max), @p_request_ids nvarchar(max))
returns table
as
return
  select w.RequestId as request_id
    from openjson(@p_request_ids) as i
    join rowlease.BatchWait as w on w.RequestId = cast(i.value as bigint)
    join rowlease.Queue as q on q.RequestId = w.RequestId
   where @p_verb = N'reschedule' and json_query(@p_filter, '$.ids') is null
     and q.Status = 'Scheduled' and q.DueTime = '9999-12-31';
