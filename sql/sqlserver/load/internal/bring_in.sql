-- bring_in: move requests from the lane into Queue, where they wait as before.
-- params:   p_rows nvarchar(max) -- [{"i": request id, "r": run, "p": priority, "t": part}, ...]
-- returns:  nothing
-- locks:    the requests' own locks, without waiting; rows of Lane, exclusive, skipping locked ones; rows
--           of Queue, its own
-- why:      operate and a lowered maximum work on Queue alone, and move what they need there first. A
--           claim takes the same locks, so nobody else moves these rows. Their depth stays as it is.
--           Only rows of promoted loads are requests.
create or alter procedure rowlease_internal.bring_in @p_rows nvarchar(max)
as
set nocount on;
set xact_abort on;
declare @id bigint, @name nvarchar(255), @granted bit;
declare @rows table (RequestId bigint not null primary key, RunNumber bigint not null,
                     Priority smallint not null, Part bigint not null, Held bit not null);
declare @moved table (RequestId bigint not null primary key);
insert into @rows (RequestId, RunNumber, Priority, Part, Held)
select j.i, j.r, j.p, j.t, 0
  from openjson(@p_rows) with (i bigint, r bigint, p smallint, t bigint) as j;
while exists (select 1 from @rows as r where r.Held = 0)
begin
  set @id = (select min(r.RequestId) from @rows as r where r.Held = 0);
  set @name = concat(N'rowlease:r:', @id);
  exec rowlease_internal.try_lock @name, @granted output;
  if @granted = 1
    update @rows set Held = 1 where RequestId = @id;
  else
    delete from @rows where RequestId = @id;
end;
insert into rowlease.Queue (RequestId, QueueName, Kind, Status, Priority, RequestedTime, DueTime,
                            MaxAttempts, Returned, LoadId, Payload, Headers)
output inserted.RequestId into @moved (RequestId)
select r.RequestId, l.QueueName, r.Kind, 'Pending', r.Priority, l.PromotedTime, l.PromotedTime,
       l.MaxAttempts, 1, l.LoadId, r.Payload, r.Headers
  from @rows as m
 inner join rowlease.Lane as r with (index (lane_pkey), forceseek, updlock, rowlock, readpast)
         on r.RunNumber = m.RunNumber and r.Priority = m.Priority and r.Part = m.Part
        and r.RequestId = m.RequestId
 inner join rowlease.[Load] as l with (forceseek (load_run (RunNumber)))
         on l.RunNumber = m.RunNumber and l.RunNumber > 0 and l.InLane = 1
option (loop join, force order, maxdop 1);
delete r
  from @rows as m
 inner join rowlease.Lane as r with (index (lane_pkey), forceseek, rowlock, readpast)
         on r.RunNumber = m.RunNumber and r.Priority = m.Priority and r.Part = m.Part
        and r.RequestId = m.RequestId
 where m.RequestId in (select d.RequestId from @moved as d)
option (loop join, force order, maxdop 1);
