-- decline: give up leases of requests of unknown kinds; no attempt is counted.
-- params:   p_request_ids nvarchar(max), p_lock_tokens nvarchar(max), p_errors nvarchar(max)
-- returns:  request_id bigint, outcome text -- 'ok' | 'repeat' | 'lease_lost' | 'not_found', and
--           dead bit (it is a dead letter now), in the order given
-- errors:   RL001 arrays of different lengths; 51012 as take_lock
-- locks:    the lock of unknown kinds; the requests' groups, then rows of queue, exclusive; then rows of
--           unknown_kind; held to the caller's commit
create or alter procedure rowlease.decline
  @p_request_ids nvarchar(max), @p_lock_tokens nvarchar(max), @p_errors nvarchar(max)
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6) = rowlease.now(), @done nvarchar(max), @groups nvarchar(max), @taken xml, @cancelled nvarchar(max);
declare @held table (RequestId bigint not null primary key);
declare @judged table (RequestId bigint not null primary key, IsDead bit not null,
                       CancelRequested bit not null, DelayMs bigint, Error nvarchar(max));
declare @kinds table (QueueName nvarchar(100) collate Latin1_General_100_BIN2 not null,
                      Kind nvarchar(200) collate Latin1_General_100_BIN2 not null,
                      UnknownSince datetime2(6) not null, DelayMs bigint not null,
                      Verdict nvarchar(1000), primary key (QueueName, Kind));
declare @answer table (Place int not null primary key, RequestId bigint, Outcome varchar(20) not null,
                       Dead bit not null);
exec rowlease_internal.check_arrays @p_request_ids, @p_lock_tokens, @p_errors;
begin transaction;
exec rowlease_internal.take_lock N'rowlease:kinds';
exec rowlease_internal.take_held @p_request_ids, @p_lock_tokens, @taken output;
set @done = cast(@taken as nvarchar(max));
insert into @held (RequestId) select cast(i.value as bigint) from openjson(@done) as i;
set @groups = (select g.queue_name as q, g.group_key as g
                 from rowlease_internal.groups_of(@p_request_ids) as g for json path);
insert into @kinds (QueueName, Kind, UnknownSince, DelayMs, Verdict)
select k.queue_name, k.kind, k.unknown_since, k.delay_ms, k.verdict
  from rowlease_internal.unknown_kinds(@done, @now) as k;
update u set UnknownSince = k.UnknownSince, DeclinedTime = @now
  from @kinds as k
 inner join rowlease.UnknownKind as u with (index (unknown_kind_pkey), forceseek, rowlock)
         on u.QueueName = k.QueueName and u.Kind = k.Kind
option (loop join, force order, maxdop 1);
insert into rowlease.UnknownKind (QueueName, Kind, UnknownSince, DeclinedTime)
select k.QueueName, k.Kind, k.UnknownSince, @now
  from @kinds as k
 where not exists (select 1 from rowlease.UnknownKind as u
                     with (forceseek (unknown_kind_pkey (QueueName, Kind)))
                    where u.QueueName = k.QueueName and u.Kind = k.Kind);
insert into @judged (RequestId, IsDead, CancelRequested, DelayMs, Error)
select q.RequestId, case when k.Verdict is not null and q.CancelRequested = 0 then 1 else 0 end,
       q.CancelRequested, k.DelayMs, coalesce(k.Verdict, left(e.value, 8000))
  from rowlease_internal.held_pairs(@p_request_ids, @p_lock_tokens) as g
  join @held as h on h.RequestId = g.request_id
  join rowlease.Queue as q with (forceseek (queue_pkey (RequestId)))
    on q.RequestId = g.request_id and q.LockToken = g.lock_token
  join @kinds as k on k.QueueName = q.QueueName and k.Kind = q.Kind
  left join openjson(@p_errors) as e on cast(e.[key] as int) = g.place
 where not exists (select 1 from rowlease_internal.held_pairs(@p_request_ids, @p_lock_tokens) as o
                    where o.request_id = g.request_id and o.lock_token = g.lock_token
                      and o.place < g.place);
insert into rowlease.QueueDepth (QueueName, Priority, LoadId, Processing, Scheduled, Failed,
                                 NumFailures)
select q.QueueName, q.Priority, q.LoadId, -count(*), sum(1 - j.IsDead), sum(0 + j.IsDead),
       sum(0 + j.IsDead)
  from @judged as j
  join rowlease.Queue as q with (forceseek (queue_pkey (RequestId))) on q.RequestId = j.RequestId
 group by q.QueueName, q.Priority, q.LoadId;
update q
   set Status = case when j.IsDead = 1 then 'Failed' else 'Scheduled' end,
       DueTime = case when j.IsDead = 1 or j.CancelRequested = 1 then q.DueTime
                      else rowlease_internal.add_ms(@now, j.DelayMs) end,
       LockedTime = q.DueTime, Returned = 1 - j.IsDead,
       CompletionTime = case when j.IsDead = 1 then @now end, LastError = j.Error,
       NumAttempts = q.NumAttempts - 1, LockedBy = null, LockExpiresTime = null,
       StartedTime = null, CancelRequested = 0
  from @judged as j
  join rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock)
    on q.RequestId = j.RequestId
option (loop join, force order, maxdop 1);
set @cancelled = (select N'[' + string_agg(cast(j.RequestId as nvarchar(max)), N',') + N']'
                    from @judged as j where j.CancelRequested = 1);
exec rowlease_internal.take_out @cancelled, null, @now;
exec rowlease_internal.unblock_groups @groups;
exec rowlease_internal.report_dead_letters @done, @now;
insert into @answer (Place, RequestId, Outcome, Dead)
select o.place, o.request_id, o.outcome, o.dead
  from rowlease_internal.settled_outcomes(@p_request_ids, @p_lock_tokens, @done) as o;
commit transaction;
select a.RequestId as request_id, a.Outcome as outcome, a.Dead as dead
  from @answer as a order by a.Place;
