-- would_be: find the outcome that an operation would have for each request; the dry run of operate.
-- params:   p_verb nvarchar(max), p_request_ids nvarchar(max)
-- returns:  request_id bigint, outcome varchar(20) -- as of operate
create or alter function rowlease_internal.would_be(@p_verb nvarchar(max), @p_request_ids nvarchar(max))
returns table
as
return
  select r.RequestId as request_id,
         case when @p_verb = N'cancel' and r.Status = 'Processing' then 'cancel_requested'
              when @p_verb = N'requeue'
                   and (r.Payload is null or not exists (
                          select 1 from rowlease.QueueSettings as s where s.QueueName = r.QueueName))
              then 'not_found'
              when @p_verb = N'requeue' and r.DedupKey is not null
                   and (exists (select 1 from rowlease.Queue as q
                                 where q.QueueName = r.QueueName and q.DedupKey = r.DedupKey
                                   and q.DedupKey is not null and q.Status <> 'Failed')
                        or row_number() over (partition by r.QueueName, r.DedupKey order by r.RequestId) > 1)
              then 'duplicate' else 'ok' end as outcome
    from openjson(@p_request_ids) as i
    join rowlease.Requests as r on r.RequestId = cast(i.value as bigint);
