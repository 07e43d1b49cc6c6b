-- sweep_progress: drop the progress of attempts that have ended.
-- params:   p_limit int, p_dropped bigint output
-- returns:  p_dropped -- how many rows were dropped
-- why:      the read looks at all rows, which are about as many as the running requests that report,
--           and keeps no locks. A later attempt that has reported meanwhile has another token.
create or alter procedure rowlease_internal.sweep_progress @p_limit int, @p_dropped bigint output
as
set nocount on;
set xact_abort on;
declare @ended table (RequestId bigint not null primary key, LockToken bigint not null);
insert into @ended (RequestId, LockToken)
select top (@p_limit) p.RequestId, p.LockToken
  from rowlease.Progress as p with (readpast, readcommittedlock)
 where not exists (select 1 from rowlease.Queue as q with (forceseek (queue_pkey (RequestId)))
                    where q.RequestId = p.RequestId and q.LockToken = p.LockToken
                      and q.LockedBy is not null);
delete p
  from @ended as e
 inner join rowlease.Progress as p with (index (progress_pkey), forceseek, rowlock, readpast)
         on p.RequestId = e.RequestId and p.LockToken = e.LockToken
option (loop join, force order, maxdop 1);
set @p_dropped = @@rowcount;
