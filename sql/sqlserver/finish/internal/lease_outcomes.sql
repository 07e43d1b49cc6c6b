-- lease_outcomes: compute the outcome of each request of a batch.
-- params:   p_request_ids nvarchar(max), p_lock_tokens nvarchar(max), p_done_ids nvarchar(max)
-- returns:  place int, request_id bigint, lock_token bigint, outcome varchar(20) -- 'ok' | 'repeat' |
--           'lease_lost' | 'not_found'
create or alter function rowlease_internal.lease_outcomes(
  @p_request_ids nvarchar(max), @p_lock_tokens nvarchar(max), @p_done_ids nvarchar(max)
) returns table
as
return
  select g.place, g.request_id, g.lock_token,
         case when coalesce(q.Status, h.Status) is null then 'not_found'
              when g.lock_token = coalesce(q.LockToken, h.LockToken) and g.lock_token > 0 then
                case when d.id is not null then 'ok'
                     when h.Status = 'Complete' then 'repeat'
                     when q.Status <> 'Processing' and q.LockExpiresTime is null then 'repeat'
                     when h.Status = 'Cancelled' and h.LockExpiresTime is null then 'repeat'
                     else 'lease_lost' end
              else 'lease_lost' end as outcome
    from rowlease_internal.held_pairs(@p_request_ids, @p_lock_tokens) as g
    left join (select distinct cast(i.value as bigint) as id from openjson(@p_done_ids) as i) as d
           on d.id = g.request_id
    left join rowlease.Queue as q with (forceseek (queue_pkey (RequestId)))
           on q.RequestId = g.request_id
    left join rowlease.QueueHistory as h with (forceseek (queue_history_request (RequestId)))
           on q.RequestId is null and h.RequestId = g.request_id;
