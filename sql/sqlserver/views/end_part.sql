-- end_part: count the rows that a statement has added to parts of loads in the lane.
-- params:   none -- a trigger on rowlease.Lane
-- returns:  trigger
-- errors:   RL003 bad priority, RL004 bad payload, RL006 no kind, RL014 another run has taken the load
--           over, or the load is promoted, RL016 bad headers; 51012 as
--           take_part, 51019 a kind or key ends in a blank
-- locks:    as take_part; rows of LanePart; rows of Lane, its own
-- why:      this is the fence of the lane. SQL Server has no triggers at a commit, so each statement
--           is counted, and its locks are held to the commit: promote waits for them. A writer needs
--           nothing but INSERT. All attempts of a Spark task write the same part: the first one that
--           commits counts, and the rows of any other are deleted.
create or alter trigger rowlease.end_part on rowlease.Lane after insert
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6) = rowlease.now();
declare @run bigint, @part bigint, @counts bit, @kind nvarchar(max), @payload nvarchar(max), @priority int;
declare @parts table (
  RunNumber bigint not null, Part bigint not null, Priority smallint not null, NumRows bigint not null,
  FirstId bigint not null, LastId bigint not null, ToQueue bit not null,
  primary key (RunNumber, Part, Priority));
insert into @parts (RunNumber, Part, Priority, NumRows, FirstId, LastId, ToQueue)
select i.RunNumber, i.Part, i.Priority, count_big(*), min(i.RequestId), max(i.RequestId),
       max(case when i.DedupKey is not null or i.GroupKey is not null or i.DueTime > @now then 1 else 0 end)
  from inserted as i group by i.RunNumber, i.Part, i.Priority;
if exists (select 1 from inserted as i where datalength(i.Kind) > datalength(rtrim(i.Kind))
              or datalength(i.DedupKey) > datalength(rtrim(i.DedupKey))
              or datalength(i.GroupKey) > datalength(rtrim(i.GroupKey)))
  throw 51019, N'a name or key ends in a blank; leave the blank out', 1;
if exists (select 1 from @parts as p where p.Priority > 255)
  throw 51003, N'a priority is above 255', 1;
select top (1) @kind = i.Kind, @priority = i.Priority, @payload = i.Payload
  from inserted as i
 where i.Kind = N'' or i.Priority < 0 or rowlease_internal.num_bytes(i.Payload) > 1048576
    or rowlease_internal.are_arguments(i.Payload) = 0;
if @kind is not null
  exec rowlease_internal.check_request @kind, @priority, @payload, null;
select top (1) @payload = i.Payload from inserted as i;
exec rowlease_internal.check_names @payload;
if exists (select 1 from inserted as i
            where i.Headers is not null and rowlease_internal.are_headers(i.Headers) = 0)
  throw 51016, N'headers must be a JSON object of strings, of at most 8192 bytes', 1;
while exists (select 1 from @parts as p)
begin
  select top (1) @run = p.RunNumber, @part = p.Part from @parts as p order by p.RunNumber, p.Part;
  exec rowlease_internal.take_part @run, @part, @counts output;
  if @counts = 0
    delete r
      from inserted as i
     inner join rowlease.Lane as r with (index (lane_pkey), forceseek, rowlock)
             on r.RunNumber = i.RunNumber and r.Priority = i.Priority and r.Part = i.Part
            and r.RequestId = i.RequestId
     where i.RunNumber = @run and i.Part = @part
    option (loop join, force order, maxdop 1);
  else
  begin
    update l
       set NumRows = l.NumRows + p.NumRows,
           FirstId = case when p.FirstId < l.FirstId then p.FirstId else l.FirstId end,
           LastId = case when p.LastId > l.LastId then p.LastId else l.LastId end,
           ToQueue = case when p.ToQueue = 1 then 1 else l.ToQueue end
      from @parts as p
     inner join rowlease.LanePart as l with (index (lane_part_pkey), forceseek, rowlock)
             on l.RunNumber = p.RunNumber and l.Priority = p.Priority and l.Part = p.Part
     where p.RunNumber = @run and p.Part = @part
    option (loop join, force order, maxdop 1);
    insert into rowlease.LanePart (RunNumber, Priority, Part, NumRows, FirstId, LastId, ToQueue)
    select p.RunNumber, p.Priority, p.Part, p.NumRows, p.FirstId, p.LastId, p.ToQueue
      from @parts as p
     where p.RunNumber = @run and p.Part = @part
       and not exists (select 1 from rowlease.LanePart as l
                         with (forceseek (lane_part_pkey (RunNumber, Priority, Part)))
                        where l.RunNumber = p.RunNumber and l.Priority = p.Priority
                          and l.Part = p.Part);
  end;
  delete from @parts where RunNumber = @run and Part = @part;
end;
