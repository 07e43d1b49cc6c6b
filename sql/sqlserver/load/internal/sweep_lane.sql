-- sweep_lane: delete rows of the lane that will never be promoted, and close loads that are used up.
-- params:   p_limit int, p_dropped bigint output -- p_limit: how many rows of each run
-- returns:  p_dropped -- how many rows were dropped
-- locks:    rows of LanePart and Lane, skipping locked ones; rows of Load
-- why:      rows belong to a load that is staged or promoted, or to no load any more: its run was
--           superseded, or had no report for a day. A load gains no rows once it is promoted, so the
--           scans of its parts begin where rows are left, and a part without rows is removed. A row that
--           a claim is taking counts as left. A load without parts is used up. Parts come last, so that their
--           locks, at which claims give up, are held for a moment only.
create or alter procedure rowlease_internal.sweep_lane @p_limit int, @p_dropped bigint output
as
set nocount on;
set xact_abort on;
declare @run bigint = -1;
set @p_dropped = 0;
while 1 = 1
begin
  set @run = (select min(r.RunNumber)
                from rowlease.Lane as r
                  with (forceseek (lane_pkey (RunNumber)), readpast, readcommittedlock)
               where r.RunNumber > @run);
  if @run is null
    break;
  if exists (select 1 from rowlease.[Load] as l with (forceseek (load_run (RunNumber)))
              where l.RunNumber = @run and l.RunNumber > 0 and (l.Status = 'Staging' or l.InLane = 1))
    continue;
  delete top (@p_limit) r
    from rowlease.Lane as r with (index (lane_pkey), forceseek, readpast, rowlock)
   where r.RunNumber = @run
  option (maxdop 1);
  set @p_dropped = @p_dropped + rowcount_big();
end;
update p set FirstId = f.RequestId
  from rowlease.[Load] as l with (forceseek (load_in_lane (QueueName)))
 inner join rowlease.LanePart as p with (index (lane_part_pkey), forceseek, rowlock, readpast)
         on p.RunNumber = l.RunNumber
 cross apply (
   select top (1) r.RequestId from rowlease.Lane as r with (forceseek (lane_pkey (RunNumber, Priority, Part, RequestId)))
    where r.RunNumber = p.RunNumber and r.Priority = p.Priority and r.Part = p.Part
      and r.RequestId >= p.FirstId
    order by r.RequestId) as f
 where l.QueueName > N'' and l.InLane = 1 and f.RequestId > p.FirstId
option (loop join, force order, maxdop 1);
delete p
  from rowlease.[Load] as l with (forceseek (load_in_lane (QueueName)))
 inner join rowlease.LanePart as p with (index (lane_part_pkey), forceseek, rowlock, readpast)
         on p.RunNumber = l.RunNumber
 where l.QueueName > N'' and l.InLane = 1
   and not exists (
     select 1 from rowlease.Lane as r with (forceseek (lane_pkey (RunNumber, Priority, Part, RequestId)))
      where r.RunNumber = p.RunNumber and r.Priority = p.Priority and r.Part = p.Part
        and r.RequestId >= p.FirstId)
option (loop join, force order, maxdop 1);
update l set InLane = 0
  from rowlease.[Load] as l with (index (load_in_lane), forceseek, rowlock)
 where l.QueueName > N'' and l.InLane = 1
   and not exists (select 1 from rowlease.LanePart as p with (forceseek (lane_part_pkey (RunNumber)))
                    where p.RunNumber = l.RunNumber)
option (maxdop 1);
delete p
  from rowlease.LanePart as p with (rowlock, readpast)
 where not exists (select 1 from rowlease.[Load] as l with (forceseek (load_run (RunNumber)))
                    where l.RunNumber = p.RunNumber and l.RunNumber > 0
                      and (l.Status = 'Staging' or l.InLane = 1));
