-- requested_us: when a request was enqueued.
-- params:   p_request_id bigint
-- returns:  bigint -- microseconds since 1970; null if there is no such request
-- errors:   none
-- locks:    none
-- why:      an enqueue that finds an earlier request answers with the time of that one.
create or alter function rowlease_internal.requested_us(@p_request_id bigint) returns bigint
as
begin
  return coalesce(
    (select datediff_big(microsecond, '1970-01-01', q.RequestedTime)
       from rowlease.Queue as q with (forceseek (queue_pkey (RequestId)))
      where q.RequestId = @p_request_id),
    (select top (1) datediff_big(microsecond, '1970-01-01', h.RequestedTime)
       from rowlease.QueueHistory as h with (forceseek (queue_history_request (RequestId)))
      where h.RequestId = @p_request_id));
end;
