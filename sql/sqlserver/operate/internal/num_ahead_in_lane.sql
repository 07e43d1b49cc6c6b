-- num_ahead_in_lane: count the requests of a queue's lane that go before a waiting request.
-- params:   p_request_id bigint, p_load_id nvarchar(400), p_queue_name nvarchar(400), p_priority int,
--           p_due_time datetime2(6), p_most int (count no more)
-- why:      each part of a load that goes first is a range of the lane's key. The range of the part
--           that the request itself is in ends there.
create or alter function rowlease_internal.num_ahead_in_lane(
  @p_request_id bigint, @p_load_id nvarchar(400), @p_queue_name nvarchar(400), @p_priority int,
  @p_due_time datetime2(6), @p_most int
) returns bigint
as
begin
  declare @place bigint, @part bigint;  -- of a request that is in the lane itself
  if not exists (select 1 from rowlease.[Load] as l where l.QueueName = @p_queue_name and l.InLane = 1)
    return 0;
  select @place = l.Place, @part = p.Part
    from rowlease.[Load] as l
    join rowlease.LanePart as p on p.RunNumber = l.RunNumber
    join rowlease.Lane as r on r.RunNumber = p.RunNumber and r.Priority = p.Priority
                           and r.Part = p.Part and r.RequestId = @p_request_id
   where l.LoadId = @p_load_id and @p_request_id between p.FirstId and p.LastId;
  return (
    select count(*)
      from (select top (@p_most) r.RequestId
              from rowlease.[Load] as l
              join rowlease.LanePart as p on p.RunNumber = l.RunNumber
             cross apply (
               select top (@p_most) a.RequestId from rowlease.Lane as a
                where a.RunNumber = p.RunNumber and a.Priority = p.Priority and a.Part = p.Part
                  and a.RequestId >= p.FirstId
                  and a.RequestId < case when l.Place = @place and p.Priority = @p_priority and p.Part = @part
                                         then @p_request_id else 9223372036854775807 end
                order by a.RequestId) as r
             where l.QueueName = @p_queue_name and l.InLane = 1
               and (p.Priority > @p_priority
                    or p.Priority = @p_priority
                       and (l.PromotedTime < @p_due_time
                            or l.PromotedTime = @p_due_time and l.Place < coalesce(@place, @p_request_id)
                            or l.Place = @place and p.Part <= @part))) as ahead);
end;
