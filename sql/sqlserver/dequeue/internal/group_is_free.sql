-- group_is_free: test whether a request of a group may be claimed.
-- params:   p_queue_name nvarchar(400), p_group_key nvarchar(400), p_request_id bigint
-- returns:  bit
-- locks:    none; rows that others have locked are skipped
-- why:      requests of a group run in order, one at a time. The test is two index probes, because a
--           group may have many waiting requests. The caller has the group's lock, without which only
--           an enqueue that is not committed can have locked a row of the group: it is not waited for,
--           and does not count, as on PostgreSQL.
create or alter function rowlease_internal.group_is_free(
  @p_queue_name nvarchar(400), @p_group_key nvarchar(400), @p_request_id bigint
) returns bit
as
begin
  if exists (
    select 1
      from rowlease.Queue as q
        with (forceseek (queue_group (QueueName, GroupKey, RequestId)), readpast, readcommittedlock)
     where q.QueueName = @p_queue_name and q.GroupKey = @p_group_key and q.GroupKey is not null
       and q.Status <> 'Failed' and q.RequestId < @p_request_id)
    return 0;
  if exists (
    select 1
      from rowlease.Queue as q
        with (forceseek (queue_group_in_flight (QueueName, GroupKey)), readpast, readcommittedlock)
     where q.QueueName = @p_queue_name and q.GroupKey = @p_group_key and q.GroupKey is not null
       and q.Status = 'Processing')
    return 0;
  return 1;
end;
