-- put_schedule: create a schedule, or change the schedule of this name.
-- params:   p_schedule_name nvarchar(max), p_cron nvarchar(max) (minute hour day month weekday; six
--           fields begin with seconds),
--           p_kind nvarchar(max), p_queue_name nvarchar(400), p_time_zone nvarchar(max), p_payload
--           nvarchar(max) ({scheduled_time} in it becomes the time of each firing), p_priority
--           int, p_catch_up int (how many missed firings are enqueued late; the latest are),
--           p_headers nvarchar(max) (of each firing), p_actor nvarchar(max) (the operator's name)
-- locks:    the schedule's name; then its row
create or alter procedure rowlease.put_schedule
  @p_schedule_name nvarchar(max), @p_cron nvarchar(max), @p_kind nvarchar(max),
  @p_queue_name nvarchar(400) = N'default', @p_time_zone nvarchar(max) = N'UTC',
  @p_payload nvarchar(max) = N'{}', @p_priority int = 0, @p_catch_up int = 1, @p_headers nvarchar(max) = null,
  @p_actor nvarchar(max) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6), @changed datetime2(6), @outcome varchar(10) = 'ok';
declare @lock nvarchar(255), @priority smallint, @is_new bit, @says nvarchar(2048), @arguments nvarchar(max);
declare @cron nvarchar(max) = ltrim(rtrim(replace(@p_cron, nchar(9), N' ')));
while charindex(N'  ', @cron) > 0
  set @cron = replace(@cron, N'  ', N' ');
exec rowlease_internal.check_queue @p_queue_name;
exec rowlease_internal.check_request @p_kind, @p_priority, @p_payload, null;
exec rowlease_internal.check_names @p_payload;
if rowlease_internal.are_headers(@p_headers) = 0
  throw 51016, N'headers must be a JSON object of strings, of at most 8192 bytes', 1;
if coalesce(@p_schedule_name, N'') = N'' or datalength(@p_schedule_name) > datalength(rtrim(@p_schedule_name))
   or len(@p_schedule_name) > 200 or @cron is null
   or len(@cron) - len(replace(@cron, N' ', N'')) not in (4, 5) or len(@cron) > 200
   or coalesce(@p_time_zone, N'') = N'' or len(@p_time_zone) > 100 or @p_catch_up is null
   or @p_catch_up not between 1 and 1000
begin
  set @says = N'a schedule needs a name without a blank at its end, a cron expression of five fields '
              + N'(minute hour day month '
              + N'weekday) or six (the first for seconds), a time zone and a catch-up of 1 to 1000 firings';
  throw 51013, @says, 1;
end;
set @priority = case when @p_priority < 255 then coalesce(@p_priority, 0) else 255 end;
begin transaction;
set @lock = rowlease_internal.lock_name(N'schedule', N'', @p_schedule_name);
exec rowlease_internal.take_lock @lock;
update rowlease.Schedule set LockToken = LockToken where ScheduleName = @p_schedule_name;
set @now = rowlease.now();
select @changed = s.ChangedTime,
       @is_new = case when s.Cron = @cron and s.TimeZone = @p_time_zone then 0 else 1 end,
       @outcome = case when s.Cron = @cron and s.TimeZone = @p_time_zone
                            and s.QueueName = @p_queue_name and s.Kind = @p_kind
                            and s.Payload = @p_payload collate Latin1_General_100_BIN2
                            and coalesce(s.Headers, N'')
                                = coalesce(@p_headers, N'') collate Latin1_General_100_BIN2
                            and s.Priority = @priority and s.CatchUp = @p_catch_up
                       then 'repeat' else 'ok' end
  from rowlease.Schedule as s where s.ScheduleName = @p_schedule_name;
if @is_new is null
  insert into rowlease.Schedule (ScheduleName, Cron, TimeZone, QueueName, Kind, Payload, Headers, Priority,
                                 CatchUp, ChangedTime)
  values (@p_schedule_name, @cron, @p_time_zone, @p_queue_name, @p_kind, @p_payload, @p_headers, @priority,
          @p_catch_up, @now);
if @is_new is null or @is_new = 1
  set @changed = @now;
if @outcome = 'ok'
begin
  set @arguments = (select @cron as cron, @p_time_zone as time_zone, @p_kind as kind, @p_queue_name as queue
                       for json path, without_array_wrapper);
  exec rowlease_internal.note_change N'put_schedule', N'schedule', @p_schedule_name, @arguments, @p_actor;
  update rowlease.Schedule
     set Cron = @cron, TimeZone = @p_time_zone, QueueName = @p_queue_name, Kind = @p_kind,
         Payload = @p_payload, Headers = @p_headers, Priority = @priority, CatchUp = @p_catch_up, ChangedTime = @changed,
         NextTime = case when @is_new = 0 then NextTime end, LockedBy = null,
         LockExpiresTime = null,
         LockToken = case when @is_new is null then LockToken else LockToken + 1 end
   where ScheduleName = @p_schedule_name;
end;
commit transaction;
select @outcome as outcome, @changed as changed_time;
