-- requested_us: when a request was enqueued.
-- params:   p_request_id bigint
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
