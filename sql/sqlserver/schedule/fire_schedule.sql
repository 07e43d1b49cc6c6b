-- fire_schedule: enqueue the firings of a schedule that are due, and plan the next one.
-- params:   p_schedule_name nvarchar(400), p_lock_token bigint (null: an operator fires it once,
--           now, and its plan does not change), p_due_times nvarchar(max) (empty: only plan the
--           next firing), p_next_time datetime2(6), p_actor nvarchar(max) (the operator's name)
-- locks:    the schedule's row; the queue's admission lock if it has a capacity; as add_requests
create or alter procedure rowlease.fire_schedule
  @p_schedule_name nvarchar(400), @p_lock_token bigint = null, @p_due_times nvarchar(max) = null,
  @p_next_time datetime2(6) = null, @p_actor nvarchar(max) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6), @queue nvarchar(100), @kind nvarchar(200), @payload nvarchar(max);
declare @priority int, @token bigint, @by nvarchar(200), @last bigint, @outcome varchar(10) = 'ok';
declare @count int, @admitted bit, @kinds nvarchar(max), @payloads nvarchar(max), @keys nvarchar(max);
declare @priorities nvarchar(max), @headers nvarchar(max), @says nvarchar(2048), @added xml;
declare @times table (Place int not null primary key, Time datetime2(6) not null,
                      Said nvarchar(40) not null);
declare @answers table (Place int not null primary key, RequestId bigint, Outcome varchar(10) not null);
begin transaction;
update rowlease.Schedule with (rowlock) set LockToken = LockToken
 where ScheduleName = @p_schedule_name;
set @now = rowlease.now();
select @queue = s.QueueName, @kind = s.Kind, @payload = s.Payload, @headers = s.Headers, @priority = s.Priority,
       @token = s.LockToken, @by = s.LockedBy, @last = s.LastRequestId
  from rowlease.Schedule as s where s.ScheduleName = @p_schedule_name;
if @token is null
  set @outcome = 'not_found';
else if @token <> @p_lock_token
  set @outcome = 'lease_lost';
else if @p_lock_token is not null and @by is null
  set @outcome = 'repeat';
if @outcome <> 'ok'
begin
  commit transaction;
  select case when @outcome = 'repeat' then @last end as request_id, @outcome as outcome;
  return;
end;
insert into @times (Place, Time, Said)
select t.Place, t.Time,
       replace(replace(rowlease_internal.time_text(t.Time), N' ', N'T'), N'+00', N'') + N'Z'
  from (select 0 as Place, @now as Time where @p_lock_token is null union all
        select cast(j.[key] as int), cast(j.value as datetime2(6)) from openjson(@p_due_times) as j
         where @p_lock_token is not null) as t;
set @count = @@rowcount;
if @p_lock_token is not null
   and (@p_due_times is null or @p_next_time is null
        or exists (select 1 from @times as t where t.Time > @now or t.Time >= @p_next_time))
begin
  set @says = concat(N'a firing of "', @p_schedule_name, N'" is not due yet, or is not before p_next_time');
  throw 51001, @says, 1;
end;
if @count > 0
begin
  select @kinds = N'[' + string_agg(cast(N'"' + string_escape(@kind, 'json') + N'"' as nvarchar(max)), N',') + N']',
         @priorities = N'[' + string_agg(cast(@priority as nvarchar(max)), N',') + N']',
         @payloads = N'[' + string_agg(N'"' + string_escape(replace(@payload, N'{scheduled_time}', t.Said),
                       'json') + N'"', N',') within group (order by t.Place) + N']',
         @keys = N'[' + string_agg(cast(N'"' + string_escape(concat(@p_schedule_name, N'@', t.Said), 'json')
                   + N'"' as nvarchar(max)), N',') within group (order by t.Place) + N']'
    from @times as t;
  if @headers is not null
    select @headers = N'[' + string_agg(N'"' + string_escape(@headers, 'json') + N'"', N',') + N']'
      from @times as t;
  exec rowlease_internal.check_capacity @queue, @count, @priority, @now, @admitted output;
  exec rowlease_internal.add_requests @queue, @now, @kinds, @payloads, @priorities, null, null, @keys, null,
                             null, null, @added output, @headers;
  insert into @answers (Place, RequestId, Outcome)
  select a.place, a.request_id, a.outcome from openjson(cast(@added as nvarchar(max)))
         with (place int, request_id bigint, outcome varchar(10)) as a;
end;
update rowlease.Schedule
   set LastTime = coalesce((select max(t.Time) from @times as t), LastTime),
       LastRequestId = coalesce((select top (1) a.RequestId from @answers as a order by a.Place desc),
                                LastRequestId),
       NextTime = case when @p_lock_token is null then NextTime else @p_next_time end,
       LockedBy = case when @p_lock_token is null then LockedBy end,
       LockExpiresTime = case when @p_lock_token is null then LockExpiresTime end
 where ScheduleName = @p_schedule_name;
if @p_lock_token is null
  exec rowlease_internal.note_change N'fire_schedule', N'schedule', @p_schedule_name, null, @p_actor;
if @count = 0
  insert into @answers (Place, RequestId, Outcome) values (0, null, 'ok');
commit transaction;
select a.RequestId as request_id, a.Outcome as outcome from @answers as a order by a.Place;
