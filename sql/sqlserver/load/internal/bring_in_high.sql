-- bring_in_high: move requests with a priority above a queue's maximum from the lane into Queue.
-- params:   p_queue_name nvarchar(400), p_max_priority int, p_limit int
-- returns:  nothing
-- locks:    as bring_in; other rows that are locked are skipped
-- why:      the callers then lower their priorities there. Usually there is none, and that costs one probe
--           of an index for each load in the lane.
create or alter procedure rowlease_internal.bring_in_high
  @p_queue_name nvarchar(400), @p_max_priority int, @p_limit int
as
set nocount on;
set xact_abort on;
declare @rows nvarchar(max) = (
  select top (@p_limit) r.RequestId as i, r.RunNumber as r, r.Priority as p, r.Part as t
    from rowlease.[Load] as l
      with (forceseek (load_in_lane (QueueName)), readpast, readcommittedlock)
   inner join rowlease.LanePart as p
     with (forceseek (lane_part_pkey (RunNumber, Priority)), readpast, readcommittedlock)
           on p.RunNumber = l.RunNumber and p.Priority > @p_max_priority
   inner join rowlease.Lane as r
     with (forceseek (lane_pkey (RunNumber, Priority, Part)), readpast, readcommittedlock)
           on r.RunNumber = p.RunNumber and r.Priority = p.Priority and r.Part = p.Part
   where l.QueueName = @p_queue_name and l.InLane = 1
     for json path);
if @rows is not null
  exec rowlease_internal.bring_in @rows;
