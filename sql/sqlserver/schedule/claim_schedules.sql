-- claim_schedules: lease the schedules that are due, so that one worker fires each.
-- params:   p_worker_id nvarchar(400), p_lease_ms bigint, p_limit int, p_kinds nvarchar(max) (the
--           kinds that the worker knows; null: all)
create or alter procedure rowlease.claim_schedules
  @p_worker_id nvarchar(400), @p_lease_ms bigint = 10000, @p_limit int = 100,
  @p_kinds nvarchar(max) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6), @expires datetime2(6), @next datetime2(6), @us bigint, @wait_ms bigint;
declare @known table (Kind nvarchar(200) collate Latin1_General_100_BIN2 not null primary key);
declare @due table (
  ScheduleName nvarchar(200) collate Latin1_General_100_BIN2 not null primary key,
  Cron nvarchar(200) not null, TimeZone nvarchar(100) not null, CatchUp int not null,
  NextTime datetime2(6), ChangedTime datetime2(6) not null, LockToken bigint not null);
if coalesce(@p_worker_id, N'') = N'' or coalesce(@p_lease_ms, 0) not between 100 and 86400000
   or coalesce(@p_limit, 0) not between 1 and 10000
  throw 51001,
    N'claim_schedules needs a worker id, a lease of 100 to 86400000 ms and a limit of 1 to 10000', 1;
insert into @known (Kind)
select distinct k.value from openjson(@p_kinds) as k where k.value is not null;
set @now = rowlease.now();
set @expires = rowlease_internal.add_ms(@now, @p_lease_ms);
begin transaction;
update rowlease.Schedule with (rowlock, readpast)
   set LockedBy = @p_worker_id, LockExpiresTime = @expires,
       LockToken = LockToken + cast(2147483649 as bigint) + checksum(newid())
output inserted.ScheduleName, inserted.Cron, inserted.TimeZone, inserted.CatchUp,
       inserted.NextTime, inserted.ChangedTime, inserted.LockToken
  into @due (ScheduleName, Cron, TimeZone, CatchUp, NextTime, ChangedTime, LockToken)
 where ScheduleName in (
         select top (@p_limit) s.ScheduleName
           from rowlease.Schedule as s with (updlock, readpast, rowlock)
          where s.Paused = 0 and (s.NextTime is null or s.NextTime <= @now)
            and (@p_kinds is null or s.Kind in (select k.Kind from @known as k))
            and (s.LockExpiresTime is null or s.LockExpiresTime <= @now)
          order by s.NextTime, s.ScheduleName)
   and Paused = 0 and (NextTime is null or NextTime <= @now)
   and (LockExpiresTime is null or LockExpiresTime <= @now);
commit transaction;
set @next = (
  select min(e.Time)
    from (select min(s.NextTime) as Time from rowlease.Schedule as s with (readpast, readcommittedlock)
           where s.Paused = 0 and (@p_kinds is null or s.Kind in (select k.Kind from @known as k))
             and s.NextTime > @now
           union all
          select min(s.LockExpiresTime) from rowlease.Schedule as s with (readpast, readcommittedlock)
           where s.Paused = 0 and (@p_kinds is null or s.Kind in (select k.Kind from @known as k))
             and s.NextTime <= @now
           union all
          select min(s.LockExpiresTime) from rowlease.Schedule as s with (readpast, readcommittedlock)
           where s.Paused = 0 and (@p_kinds is null or s.Kind in (select k.Kind from @known as k))
             and s.NextTime is null) as e);
set @us = datediff_big(microsecond, @now, @next);
set @wait_ms = case when @us > 0 then (@us + 999) / 1000 when @us <= 0 then 0 end;
select d.ScheduleName as schedule_name, d.Cron as cron, d.TimeZone as time_zone,
       d.CatchUp as catch_up, d.NextTime as next_time, d.ChangedTime as changed_time,
       d.LockToken as lock_token, @now as claimed_time, e.wait_ms as wait_ms
  from (select 0 as is_end, cast(null as bigint) as wait_ms union all select 1, @wait_ms) as e
  left join @due as d on e.is_end = 0
 where e.is_end = 1 or d.ScheduleName is not null
 order by e.is_end, d.NextTime, d.ScheduleName;
