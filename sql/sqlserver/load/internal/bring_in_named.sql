-- bring_in_named: move the requests with these ids into Queue, if they are in the lane.
-- params:   p_request_ids nvarchar(max)
-- returns:  nothing
-- locks:    as bring_in
create or alter procedure rowlease_internal.bring_in_named @p_request_ids nvarchar(max)
as
set nocount on;
set xact_abort on;
declare @rows nvarchar(max);
declare @ids table (RequestId bigint not null primary key);
if not exists (select 1 from rowlease.[Load] as l with (forceseek (load_in_lane (QueueName)))
                where l.QueueName > N'' and l.InLane = 1)
  return;
insert into @ids (RequestId)
select distinct cast(i.value as bigint) from openjson(@p_request_ids) as i where i.value is not null;
set @rows = (
  select r.RequestId as i, r.RunNumber as r, r.Priority as p, r.Part as t
    from rowlease.[Load] as l with (forceseek (load_in_lane (QueueName)))
   inner join rowlease.LanePart as p with (forceseek (lane_part_pkey (RunNumber))) on p.RunNumber = l.RunNumber
   inner join @ids as d on d.RequestId between p.FirstId and p.LastId
   inner join rowlease.Lane as r with (forceseek (lane_pkey (RunNumber, Priority, Part, RequestId)))
           on r.RunNumber = p.RunNumber and r.Priority = p.Priority and r.Part = p.Part
          and r.RequestId = d.RequestId
   where l.QueueName > N'' and l.InLane = 1
     for json path);
if @rows is not null
  exec rowlease_internal.bring_in @rows;
