-- found_in_lane: list the requests in the lane whose ids are in a range.
-- params:   p_from bigint, p_below bigint
-- returns:  request_id bigint, queue_name, kind, requested_time, load_id, priority
-- errors:   none
-- locks:    none
-- why:      the parts whose ids are outside of the range are not read. Only rows of promoted loads are
--           requests.
create or alter function rowlease_internal.found_in_lane(@p_from bigint, @p_below bigint) returns table
as
return
  select r.RequestId as request_id, l.QueueName as queue_name, r.Kind as kind,
         l.PromotedTime as requested_time, l.LoadId as load_id, r.Priority as priority
    from rowlease.[Load] as l
    join rowlease.LanePart as p on p.RunNumber = l.RunNumber
    join rowlease.Lane as r on r.RunNumber = p.RunNumber and r.Priority = p.Priority and r.Part = p.Part
   where l.InLane = 1 and p.LastId >= @p_from and p.FirstId < @p_below
     and r.RequestId >= @p_from and r.RequestId < @p_below;
