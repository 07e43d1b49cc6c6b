-- first_in_lane: find the first requests of a queue in the lane, in claim order.
-- params:   p_queue_name nvarchar(400), p_priority int (null: all), p_limit int, p_met nvarchar(max) (ids
--           to leave out)
-- returns:  place int, request_id bigint, run_number bigint, priority smallint, part bigint,
--           due_time datetime2(6), line bigint (the load's place among requests that are due at once)
-- errors:   none
-- locks:    none; rows of Lane and Load that others have locked are skipped, and a locked row of
--           LanePart is error 1222
-- why:      what a load has of one priority is a block; its order is part, then id. Each block and each
--           part is one seek, and the parts that claims have used up are removed by maintain.
create or alter function rowlease_internal.first_in_lane(
  @p_queue_name nvarchar(400), @p_priority int, @p_limit int, @p_met nvarchar(max)
) returns @found table (
  place int identity primary key, request_id bigint not null, run_number bigint not null,
  priority smallint not null, part bigint not null, due_time datetime2(6) not null, line bigint not null)
as
begin
  declare @left int = @p_limit, @priority smallint = 256, @due datetime2(6) = '0001-01-01', @line bigint = 0;
  declare @run bigint = 0, @part bigint, @first bigint, @level smallint, @time datetime2(6), @load bigint;
  declare @met table (RequestId bigint not null primary key);
  insert into @met (RequestId) select distinct cast(m.value as bigint) from openjson(@p_met) as m;
  while @left > 0 and @run is not null
  begin
    set @run = null;
    select top (1) @run = l.RunNumber, @time = l.PromotedTime, @load = l.Place, @level = b.Priority
      from rowlease.[Load] as l
        with (forceseek (load_in_lane (QueueName)), readpast, readcommittedlock)
     cross apply (
       select top (1) p.Priority
         from rowlease.LanePart as p with (forceseek (lane_part_pkey (RunNumber)), nowait)
        where p.RunNumber = l.RunNumber and (p.Priority = @p_priority or @p_priority is null)
          and (p.Priority < @priority or p.Priority = @priority and (l.PromotedTime > @due
                 or l.PromotedTime = @due and l.Place > @line))
        order by p.Priority desc) as b
     where l.QueueName = @p_queue_name and l.InLane = 1
     order by b.Priority desc, l.PromotedTime, l.Place;
    select @priority = @level, @due = @time, @line = @load, @part = -9223372036854775808;
    while @left > 0 and @run is not null and @part is not null
    begin
      set @part = (
        select min(p.Part)
          from rowlease.LanePart as p with (forceseek (lane_part_pkey (RunNumber, Priority, Part)), nowait)
         where p.RunNumber = @run and p.Priority = @priority and p.Part > @part);
      set @first = (
        select p.FirstId
          from rowlease.LanePart as p with (forceseek (lane_part_pkey (RunNumber, Priority, Part)), nowait)
         where p.RunNumber = @run and p.Priority = @priority and p.Part = @part);
      insert into @found (request_id, run_number, priority, part, due_time, line)
      select top (@left) r.RequestId, r.RunNumber, r.Priority, r.Part, @due, @line
        from rowlease.Lane as r
          with (forceseek (lane_pkey (RunNumber, Priority, Part, RequestId)), readpast, readcommittedlock)
       where r.RunNumber = @run and r.Priority = @priority and r.Part = @part and r.RequestId >= @first
         and r.RequestId not in (select m.RequestId from @met as m)
       order by r.RequestId;
      set @left = @p_limit - (select count(*) from @found);
    end;
  end;
  return;
end;
