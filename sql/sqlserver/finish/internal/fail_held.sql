-- fail_held: report failed attempts; shared by fail and exchange.
-- params:   p_request_ids nvarchar(max), p_lock_tokens nvarchar(max), p_errors nvarchar(max),
--           p_retries_ms nvarchar(max), p_dead nvarchar(max), p_error_types nvarchar(max),
--           p_tracebacks nvarchar(max), p_held xml output
-- returns:  p_held -- the ids that this call has changed, as take_held
-- errors:   RL001 arrays of different lengths
-- locks:    as take_held
-- why:      see fail. A task may choose any delay; a date after the end of the calendar must not
--           fail the batch, so ten years (315360000000 ms) is the longest delay.
create or alter procedure rowlease_internal.fail_held
  @p_request_ids nvarchar(max), @p_lock_tokens nvarchar(max), @p_errors nvarchar(max),
  @p_retries_ms nvarchar(max), @p_dead nvarchar(max), @p_error_types nvarchar(max),
  @p_tracebacks nvarchar(max), @p_held xml output
as
set nocount on;
set xact_abort on;
declare @now datetime2(6) = rowlease.now(), @groups nvarchar(max), @cancelled nvarchar(max);
declare @held table (RequestId bigint not null primary key);
declare @judged table (
  RequestId bigint not null primary key, IsDead bit not null, CancelRequested bit not null,
  DelayMs bigint not null, Error nvarchar(max) not null, ErrorType nvarchar(max),
  Traceback nvarchar(max));
exec rowlease_internal.check_arrays @p_request_ids, @p_lock_tokens, @p_errors, @p_retries_ms, @p_dead,
                                    @p_error_types, @p_tracebacks;
exec rowlease_internal.take_held @p_request_ids, @p_lock_tokens, @p_held output;
insert into @held (RequestId)
select cast(i.value as bigint) from openjson(cast(@p_held as nvarchar(max))) as i;
set @groups = (select g.queue_name as q, g.group_key as g
                 from rowlease_internal.groups_of(@p_request_ids) as g for json path);
insert into @judged (RequestId, IsDead, CancelRequested, DelayMs, Error, ErrorType, Traceback)
select q.RequestId,
       case when (d.value = 'true' or q.NumAttempts >= q.MaxAttempts) and q.CancelRequested = 0
            then 1 else 0 end,
       q.CancelRequested,
       case when m.value is null
            then rowlease_internal.backoff_ms(coalesce(q.RetryBaseMs, s.RetryBaseMs, 1000),
                                     coalesce(s.RetryCapMs, 3600000), q.NumAttempts,
                                     rand(checksum(newid())))
            when cast(m.value as bigint) < 0 then 0
            when cast(m.value as bigint) > 315360000000 then 315360000000
            else cast(m.value as bigint) end,
       left(coalesce(e.value, N'no reason given'), 8000), t.value, b.value
  from (select p.*, row_number() over (partition by p.request_id order by p.place) as turn
          from rowlease_internal.held_pairs(@p_request_ids, @p_lock_tokens) as p
          join rowlease.Queue as h with (forceseek (queue_pkey (RequestId)))
            on h.RequestId = p.request_id and h.LockToken = p.lock_token) as g
  join @held as i on i.RequestId = g.request_id
  join rowlease.Queue as q with (forceseek (queue_pkey (RequestId))) on q.RequestId = g.request_id
  left join rowlease.QueueSettings as s on s.QueueName = q.QueueName
  left join openjson(@p_errors) as e on cast(e.[key] as int) = g.place
  left join openjson(@p_retries_ms) as m on cast(m.[key] as int) = g.place
  left join openjson(@p_dead) as d on cast(d.[key] as int) = g.place
  left join openjson(@p_error_types) as t on cast(t.[key] as int) = g.place
  left join openjson(@p_tracebacks) as b on cast(b.[key] as int) = g.place
 where g.turn = 1;
insert into rowlease.QueueDepth (QueueName, Priority, LoadId, Processing, Scheduled, Pending,
                                 Failed, NumFailures)
select q.QueueName, q.Priority, q.LoadId, -count(*),
       sum(case when j.IsDead = 0 and j.DelayMs > 0 then 1 else 0 end),
       sum(case when j.IsDead = 0 and j.DelayMs = 0 then 1 else 0 end),
       sum(cast(j.IsDead as int)), count(*)
  from @judged as j
  join rowlease.Queue as q with (forceseek (queue_pkey (RequestId))) on q.RequestId = j.RequestId
 group by q.QueueName, q.Priority, q.LoadId;
insert into rowlease.Attempt (RequestId, LockToken, AttemptNumber, WorkerId, StartedTime, EndedTime,
                              Outcome, Error, ErrorType, Traceback, ExpiresTime)
select q.RequestId, q.LockToken, q.NumAttempts, q.LockedBy, coalesce(q.StartedTime, q.LockedTime),
       @now, 'failed', left(j.Error, 2000), left(j.ErrorType, 200), right(j.Traceback, 6000),
       dateadd(day, 1, @now)
  from @judged as j
  join rowlease.Queue as q with (forceseek (queue_pkey (RequestId))) on q.RequestId = j.RequestId;
exec rowlease_internal.trim_attempts @p_request_ids;
update q
   set Status = case when j.IsDead = 1 then 'Failed' when j.DelayMs > 0 then 'Scheduled'
                     else 'Pending' end,
       DueTime = case when j.IsDead = 1 or j.CancelRequested = 1 then q.DueTime
                      else rowlease_internal.add_ms(@now, j.DelayMs) end,
       CompletionTime = case when j.IsDead = 1 then @now end,
       LastError = j.Error, NumAbandons = 0, LockedBy = null, LockExpiresTime = null,
       StartedTime = null, CancelRequested = 0
  from @judged as j
  join rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock)
    on q.RequestId = j.RequestId
option (loop join, force order, maxdop 1);
set @cancelled = (select N'[' + string_agg(cast(j.RequestId as nvarchar(max)), N',') + N']'
                    from @judged as j where j.CancelRequested = 1);
exec rowlease_internal.take_out @cancelled, null, @now;
exec rowlease_internal.unblock_groups @groups;
exec rowlease_internal.report_dead_letters @p_request_ids, @now;
