-- renew: renew leases, all leases of a worker in one statement.
-- params:   p_request_ids nvarchar(max), p_lock_tokens nvarchar(max), p_lease_ms bigint (null: the
--           queue's setting), p_started nvarchar(max) (whether the request has begun to run)
-- locks:    rows of queue, exclusive, skipping locked ones
-- why:      a claim can only assume that a request starts at once, so a renewal that denies it takes
--           the start back: if the lease runs out then, this is no crash. A locked row is being
--           finished, perhaps in a long transaction; the other leases must not wait for that row
--           (busy). The read after the commit does not wait for it, either. A lease counts from the
--           write of its row, so that a delayed call does not make it shorter than a later call has
--           made it. A lease that has run out but has not been broken yet is renewed, because no
--           other worker has the request.
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
                        LockExpiresTime datetime2(6) not null, CancelRequested bit not null,
                        Kills bit not null);
declare @place int = -1;
declare @answer table (Place int not null primary key, RequestId bigint, Outcome varchar(20) not null,
                       LockExpiresTime datetime2(6), Kills bit);
exec rowlease_internal.check_arrays @p_request_ids, @p_lock_tokens, @p_started;
insert into @given (RequestId, LockToken, Started)
select g.request_id, g.lock_token, max(case when s.value = 'false' then 0 else 1 end)
  from rowlease_internal.held_pairs(@p_request_ids, @p_lock_tokens) as g
  left join openjson(@p_started) as s on cast(s.[key] as int) = g.place
 where g.request_id is not null and g.lock_token is not null
 group by g.request_id, g.lock_token;
begin transaction;
update rowlease.Queue
   set LockExpiresTime = rowlease_internal.add_ms(rowlease.now(), coalesce(@p_lease_ms, 1000 * (
         select s.LeaseSeconds from rowlease.QueueSettings as s where s.QueueName = Queue.QueueName))),
       StartedTime = (
         select coalesce(Queue.StartedTime, @now) from @given as n where n.RequestId = Queue.RequestId
            and n.LockToken = Queue.LockToken and n.Started = 1)
output inserted.RequestId, inserted.LockToken, inserted.LockExpiresTime, 0, 0
  into @renewed (RequestId, LockToken, LockExpiresTime, CancelRequested, Kills)
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
update r set Kills = 1 from @renewed as r
  join rowlease.Cancellation as c with (forceseek (cancellation_pkey (RequestId)), readpast, readcommittedlock)
    on c.RequestId = r.RequestId
 where r.CancelRequested = 1 and c.Kills = 1;
commit transaction;
insert into @answer (Place, RequestId, Outcome, LockExpiresTime, Kills)
select g.place, g.request_id, case when r.CancelRequested = 1 then 'cancel_requested' else 'ok' end,
       r.LockExpiresTime, r.Kills
  from rowlease_internal.held_pairs(@p_request_ids, @p_lock_tokens) as g
  join @renewed as r on r.RequestId = g.request_id and r.LockToken = g.lock_token;
-- Without READ_COMMITTED_SNAPSHOT a read of a row that is being finished would wait.
set lock_timeout 0;
while 1 = 1
begin
  set @place = (select min(g.place) from rowlease_internal.held_pairs(@p_request_ids, @p_lock_tokens) as g
                 where g.place > @place and g.place not in (select a.Place from @answer as a));
  if @place is null
    break;
  begin try
    insert into @answer (Place, RequestId, Outcome)
    select o.place, o.request_id,
           case when o.outcome = 'lease_lost' and q.RequestId is not null then 'busy'
                else o.outcome end
      from rowlease_internal.lease_outcomes(@p_request_ids, @p_lock_tokens, null) as o
      left join rowlease.Queue as q with (forceseek (queue_pkey (RequestId)))
             on q.RequestId = o.request_id and q.LockedBy is not null
            and q.LockToken = o.lock_token
     where o.place = @place;
  end try
  begin catch
    if error_number() <> 1222
      throw;
    insert into @answer (Place, RequestId, Outcome)
    select g.place, g.request_id, 'busy'
      from rowlease_internal.held_pairs(@p_request_ids, @p_lock_tokens) as g where g.place = @place;
  end catch;
end;
select a.RequestId as request_id, a.Outcome as outcome, a.LockExpiresTime as lock_expires_time,
       a.Kills as kills from @answer as a order by a.Place;
