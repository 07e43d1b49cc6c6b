-- settled_outcomes: compute the outcome of each failed request of a batch, and whether it is a dead letter.
-- params:   p_request_ids nvarchar(max), p_lock_tokens nvarchar(max), p_done_ids nvarchar(max)
-- returns:  place int, request_id bigint, outcome varchar(20), dead bit (it is a dead letter)
create or alter function rowlease_internal.settled_outcomes(
  @p_request_ids nvarchar(max), @p_lock_tokens nvarchar(max), @p_done_ids nvarchar(max)
) returns table
as
return
  select o.place, o.request_id, o.outcome,
         cast(case when o.outcome in ('ok', 'repeat') and q.Status = 'Failed' then 1 else 0 end as bit)
           as dead
    from rowlease_internal.lease_outcomes(@p_request_ids, @p_lock_tokens, @p_done_ids) as o
    left join rowlease.Queue as q with (forceseek (queue_pkey (RequestId)))
           on q.RequestId = o.request_id;
