-- sweep_attempts: drop attempts whose request is gone.
-- params:   p_now datetime2(6), p_limit int, p_dropped bigint output
-- returns:  p_dropped -- how many were dropped
create or alter procedure rowlease_internal.sweep_attempts
  @p_now datetime2(6), @p_limit int, @p_dropped bigint output
as
set nocount on;
set xact_abort on;
declare @days int = (select max(s.RetentionDays) from rowlease.QueueSettings as s);
declare @due table (RequestId bigint not null, LockToken bigint not null, Needed datetime2(6),
                    primary key (RequestId, LockToken));
insert into @due (RequestId, LockToken, Needed)
select top (@p_limit) a.RequestId, a.LockToken,
       case when exists (
         select 1 from rowlease.Queue as q with (forceseek (queue_pkey (RequestId)))
          where q.RequestId = a.RequestId) then @p_now
            else (select dateadd(day, @days, max(h.CompletionTime))
                    from rowlease.QueueHistory as h with (forceseek (queue_history_request (RequestId)))
                   where h.RequestId = a.RequestId) end
  from rowlease.Attempt as a
    with (forceseek (attempt_expiring (ExpiresTime)), readpast, readcommittedlock)
 where a.ExpiresTime <= @p_now order by a.ExpiresTime;
update a set ExpiresTime = dateadd(day, 1, case when d.Needed > @p_now then d.Needed else @p_now end)
  from @due as d
 inner join rowlease.Attempt as a with (index (attempt_pkey), forceseek, rowlock, readpast)
         on a.RequestId = d.RequestId and a.LockToken = d.LockToken
 where d.Needed is not null
option (loop join, force order, maxdop 1);
delete a
  from @due as d
 inner join rowlease.Attempt as a with (index (attempt_pkey), forceseek, rowlock, readpast)
         on a.RequestId = d.RequestId and a.LockToken = d.LockToken
 where d.Needed is null
option (loop join, force order, maxdop 1);
set @p_dropped = @@rowcount;
