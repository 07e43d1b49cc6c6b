-- lease_from_lane: move requests that a claim has found in the lane into Queue, with a lease on each.
-- params:   p_rows nvarchar(max), p_worker_id nvarchar(400), p_leased xml output --
--           p_rows: [{"i": request id, "r": run, "p": priority, "t": part, "m": lease in
--           milliseconds, "s": 1 if it starts at once}, ...]
-- returns:  p_leased -- the ids as a JSON array; null: none
-- locks:    rows of Lane, exclusive, skipping locked ones; rows of Queue, its own -- the caller has the
--           requests' own locks
-- why:      that costs less than an update of a row with so many columns and indexes. A row that is gone
--           was taken by another claim before this one got the request's lock. A token begins at a random
--           number up to 2^32: see claim_carefully.
create or alter procedure rowlease_internal.lease_from_lane
  @p_rows nvarchar(max), @p_worker_id nvarchar(400), @p_leased xml output
as
set nocount on;
set xact_abort on;
declare @now datetime2(6);
declare @rows table (RequestId bigint not null primary key, RunNumber bigint not null,
                     Priority smallint not null, Part bigint not null, LeaseMs int not null,
                     Starts bit not null);
declare @moved table (RequestId bigint not null primary key, Priority smallint not null,
                      QueueName nvarchar(100) collate Latin1_General_100_BIN2 not null);
insert into @rows (RequestId, RunNumber, Priority, Part, LeaseMs, Starts)
select j.i, j.r, j.p, j.t, j.m, j.s
  from openjson(@p_rows) with (i bigint, r bigint, p smallint, t bigint, m int, s bit) as j;
set @now = rowlease.now();
insert into rowlease.Queue (
  RequestId, QueueName, Kind, Status, Priority, RequestedTime, DueTime, LockedBy, LockedTime,
  LockExpiresTime, StartedTime, LockToken, NumAttempts, MaxAttempts, LoadId, Payload, Headers)
output inserted.RequestId, inserted.Priority, inserted.QueueName into @moved (RequestId, Priority, QueueName)
select r.RequestId, l.QueueName, r.Kind, 'Processing', r.Priority, l.PromotedTime, l.PromotedTime,
       @p_worker_id, @now, dateadd(millisecond, m.LeaseMs, @now),
       case when m.Starts = 1 then @now end, cast(2147483649 as bigint) + checksum(newid()), 1,
       l.MaxAttempts, l.LoadId, r.Payload, r.Headers
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
insert into rowlease.QueueDepth (QueueName, Priority, Pending, Processing)
select d.QueueName, d.Priority, -count(*), count(*) from @moved as d group by d.QueueName, d.Priority;
set @p_leased = (select N'[' + string_agg(cast(d.RequestId as nvarchar(max)), N',') + N']' from @moved as d);
