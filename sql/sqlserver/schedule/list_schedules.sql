-- list_schedules: list every schedule, by name.
-- params:   none
create or alter procedure rowlease.list_schedules
as
set nocount on;
set xact_abort on;
select s.ScheduleName as schedule_name, s.Cron as cron, s.TimeZone as time_zone,
       s.QueueName as queue_name, s.Kind as kind, s.Payload as payload,
       cast(s.Priority as int) as priority, s.CatchUp as catch_up, s.Paused as paused,
       s.NextTime as next_time, s.LastTime as last_time, s.LastRequestId as last_request_id,
       s.ChangedTime as changed_time, s.Headers as headers
  from rowlease.Schedule as s order by s.ScheduleName;
