-- renew: renew leases, all leases of a worker in one statement.
-- params:   p_request_ids nvarchar(max), p_lock_tokens nvarchar(max), p_lease_ms bigint (null: the
--           queue's setting), p_started nvarchar(max) (the request has begun to run)
-- returns:  request_id bigint, outcome text -- 'ok' | 'cancel_requested' | 'busy' | 'repeat' |
--           'lease_lost' | 'not_found', lock_expires_time timestamptz (for ok and
--           cancel_requested)
-- errors:   RL001 arrays of different lengths
-- locks:    rows of queue, exclusive, skipping locked ones
-- why:      a locked row is being finished, perhaps in a long transaction; the other leases must
--           not wait for that row (busy). A lease that has run out but has not been broken yet is
--           renewed, because no other worker has the request.
create or alter procedure rowlease.renew
  @p_request_ids nvarchar(max), @p_lock_tokens nvarchar(max), @p_lease_ms bigint = null,
  @p_started nvarchar(max) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6) = rowlease.now(), @done nvarchar(max);
declare @given table (RequestId bigint not null, LockToken bigint not null, Started bit not null,
                      primary key (RequestId, LockToken));
declare @renewed table (RequestId bigint not null primary key, LockToken bigint not null,
                        LockExpiresTime datetime2(6) not null, CancelRequested bit not null);
exec rowlease_internal.check_arrays @p_request_ids, @p_lock_tokens, @p_started;
insert into @given (RequestId, LockToken, Started)
select g.request_id, g.lock_token, max(case when s.value = 'false' then 0 else 1 end)
  from rowlease_internal.held_pairs(@p_request_ids, @p_lock_tokens) as g
  left join openjson(@p_started) as s on cast(s.[key] as int) = g.place
 where g.request_id is not null and g.lock_token is not null
 group by g.request_id, g.lock_token;
begin transaction;
update rowlease.Queue
   set LockExpiresTime = rowlease_internal.add_ms(@now, coalesce(@p_lease_ms, 1000 * (
         select s.LeaseSeconds from rowlease.QueueSettings as s where s.QueueName = Queue.QueueName))),
       StartedTime = coalesce(Queue.StartedTime, (
         select @now from @given as n where n.RequestId = Queue.RequestId
            and n.LockToken = Queue.LockToken and n.Started = 1))
output inserted.RequestId, inserted.LockToken, inserted.LockExpiresTime, 0
  into @renewed (RequestId, LockToken, LockExpiresTime, CancelRequested)
  from @given as g
 inner join rowlease.Queue with (index (queue_pkey), forceseek, rowlock, readpast)
         on Queue.RequestId = g.RequestId and Queue.LockToken = g.LockToken
 where Queue.LockedBy is not null
   and Queue.QueueName in (select s.QueueName from rowlease.QueueSettings as s)
option (loop join, force order, maxdop 1);
update r set CancelRequested = 1
  from @renewed as r
  join rowlease.Queue as q with (forceseek (queue_pkey (RequestId))) on q.RequestId = r.RequestId
 where q.CancelRequested = 1;
commit transaction;
select o.request_id,
       case when r.CancelRequested = 1 then 'cancel_requested'
            when r.RequestId is not null then 'ok'
            when o.outcome = 'lease_lost' and q.RequestId is not null then 'busy'
            else o.outcome end as outcome,
       r.LockExpiresTime as lock_expires_time
  from rowlease_internal.lease_outcomes(@p_request_ids, @p_lock_tokens, null) as o
  left join @renewed as r on r.RequestId = o.request_id and r.LockToken = o.lock_token
  left join rowlease.Queue as q with (forceseek (queue_pkey (RequestId)))
         on r.RequestId is null and q.RequestId = o.request_id
                               and q.LockedBy is not null and q.LockToken = o.lock_token
 order by o.place;
