-- count_lane: count the rows of a load in the lane as waiting requests of its queue.
-- params:   p_queue_name nvarchar(400), p_load_id nvarchar(400), p_run_number bigint
-- returns:  nothing
-- locks:    rows of Lane and LanePart above the maximum -- promote has locked the load and its writers
-- why:      promote knows the numbers from LanePart. Rows are written only if the queue's maximum is
--           below their priority, which writers avoid by clamping.
create or alter procedure rowlease_internal.count_lane
  @p_queue_name nvarchar(400), @p_load_id nvarchar(400), @p_run_number bigint
as
set nocount on;
set xact_abort on;
declare @top smallint = (select s.MaxPriority from rowlease.QueueSettings as s
                          where s.QueueName = @p_queue_name);
declare @high table (Priority smallint not null, Part bigint not null, NumRows bigint not null,
                     FirstId bigint not null, LastId bigint not null, primary key (Priority, Part));
declare @lowered table (Part bigint not null primary key, NumRows bigint not null, FirstId bigint not null,
                        LastId bigint not null);
insert into @high (Priority, Part, NumRows, FirstId, LastId)
select p.Priority, p.Part, p.NumRows, p.FirstId, p.LastId
  from rowlease.LanePart as p with (forceseek (lane_part_pkey (RunNumber, Priority)))
 where p.RunNumber = @p_run_number and p.Priority > @top;
if exists (select 1 from @high as h)
begin
  insert into @lowered (Part, NumRows, FirstId, LastId)
  select p.Part, sum(p.NumRows), min(p.FirstId), max(p.LastId)
    from rowlease.LanePart as p with (forceseek (lane_part_of_run (RunNumber)))
   where p.RunNumber = @p_run_number and p.Priority >= @top
     and p.Part in (select h.Part from @high as h)
   group by p.Part;
  update r set Priority = @top
    from @high as h
   inner join rowlease.Lane as r with (index (lane_pkey), forceseek, rowlock)
           on r.RunNumber = @p_run_number and r.Priority = h.Priority and r.Part = h.Part
  option (loop join, force order, maxdop 1);
  delete p
    from @lowered as l
   inner join rowlease.LanePart as p with (index (lane_part_of_run), forceseek, rowlock)
           on p.RunNumber = @p_run_number and p.Part = l.Part
   where p.Priority >= @top
  option (loop join, force order, maxdop 1);
  insert into rowlease.LanePart (RunNumber, Priority, Part, NumRows, FirstId, LastId)
  select @p_run_number, @top, l.Part, l.NumRows, l.FirstId, l.LastId from @lowered as l;
end;
insert into rowlease.QueueDepth (QueueName, Priority, LoadId, Pending)
select @p_queue_name, p.Priority, @p_load_id, sum(p.NumRows)
  from rowlease.LanePart as p with (forceseek (lane_part_pkey (RunNumber)))
 where p.RunNumber = @p_run_number group by p.Priority;
