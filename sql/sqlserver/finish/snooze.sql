-- snooze: make leased requests wait until later, because their tasks ask for it; no attempt is counted.
-- params:   p_request_ids nvarchar(max), p_lock_tokens nvarchar(max),
--           p_delays_ms nvarchar(max) (at least 1 s), p_reasons nvarchar(max)
-- locks:    the requests' groups, then rows of queue, exclusive; held to the caller's commit
create or alter procedure rowlease.snooze
  @p_request_ids nvarchar(max), @p_lock_tokens nvarchar(max), @p_delays_ms nvarchar(max),
  @p_reasons nvarchar(max) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6) = rowlease.now();
declare @lengths nvarchar(max) = coalesce(@p_delays_ms, N'[]');
declare @taken xml, @done nvarchar(max), @groups nvarchar(max), @cancelled nvarchar(max);
declare @held table (RequestId bigint not null primary key);
declare @judged table (RequestId bigint not null primary key, DelayMs bigint not null,
                       Reason nvarchar(max), CancelRequested bit not null);
declare @answer table (Place int not null primary key, RequestId bigint, Outcome varchar(20) not null);
exec rowlease_internal.check_arrays @p_request_ids, @p_lock_tokens, @lengths, @p_reasons;
begin transaction;
exec rowlease_internal.take_held @p_request_ids, @p_lock_tokens, @taken output;
set @done = cast(@taken as nvarchar(max));
insert into @held (RequestId) select cast(i.value as bigint) from openjson(@done) as i;
insert into @judged (RequestId, DelayMs, Reason, CancelRequested)
select q.RequestId,
       case when cast(m.value as bigint) > 315360000000 then 315360000000  -- ten years
            when cast(m.value as bigint) > 1000 then cast(m.value as bigint) else 1000 end,
       left(r.value, 2000), q.CancelRequested
  from (select p.*, row_number() over (partition by p.request_id order by p.place) as turn
          from rowlease_internal.held_pairs(@p_request_ids, @p_lock_tokens) as p
          join rowlease.Queue as h with (forceseek (queue_pkey (RequestId)))
            on h.RequestId = p.request_id and h.LockToken = p.lock_token) as g
  join @held as i on i.RequestId = g.request_id
  join rowlease.Queue as q with (forceseek (queue_pkey (RequestId))) on q.RequestId = g.request_id
  left join openjson(@p_delays_ms) as m on cast(m.[key] as int) = g.place
  left join openjson(@p_reasons) as r on cast(r.[key] as int) = g.place
 where g.turn = 1;
insert into rowlease.QueueDepth (QueueName, Priority, Processing, Scheduled)
select q.QueueName, q.Priority, -count(*), count(*)
  from @judged as j
  join rowlease.Queue as q with (forceseek (queue_pkey (RequestId))) on q.RequestId = j.RequestId
 group by q.QueueName, q.Priority;
delete a
  from @judged as j
 inner join rowlease.Attempt as a with (index (attempt_pkey), forceseek, rowlock)
         on a.RequestId = j.RequestId
 where a.Outcome = 'snoozed'
option (loop join, force order, maxdop 1);
insert into rowlease.Attempt (RequestId, LockToken, AttemptNumber, WorkerId, StartedTime, EndedTime,
                              Outcome, Error, ExpiresTime)
select q.RequestId, q.LockToken, q.NumAttempts, q.LockedBy, coalesce(q.StartedTime, q.LockedTime),
       @now, 'snoozed', j.Reason, dateadd(day, 1, @now)
  from @judged as j
  join rowlease.Queue as q with (forceseek (queue_pkey (RequestId))) on q.RequestId = j.RequestId;
exec rowlease_internal.trim_attempts @p_request_ids;
update q
   set Status = 'Scheduled',
       DueTime = case when j.CancelRequested = 1 then q.DueTime
                      else rowlease_internal.add_ms(@now, j.DelayMs) end,
       NumAttempts = q.NumAttempts - 1, NumAbandons = 0, LockedBy = null, LockExpiresTime = null,
       StartedTime = null, CancelRequested = 0
  from @judged as j
  join rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock)
    on q.RequestId = j.RequestId
option (loop join, force order, maxdop 1);
set @cancelled = (select N'[' + string_agg(cast(j.RequestId as nvarchar(max)), N',') + N']'
                    from @judged as j where j.CancelRequested = 1);
set @groups = (select g.queue_name as q, g.group_key as g
                 from rowlease_internal.groups_of(@cancelled) as g for json path);
exec rowlease_internal.take_out @cancelled, @groups, @now;
insert into @answer (Place, RequestId, Outcome)
select o.place, o.request_id, o.outcome
  from rowlease_internal.lease_outcomes(@p_request_ids, @p_lock_tokens, @done) as o;
commit transaction;
select a.RequestId as request_id, a.Outcome as outcome from @answer as a order by a.Place;
