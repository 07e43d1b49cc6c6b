-- remove_schedule: delete a schedule; requests that it has enqueued stay.
-- params:   p_schedule_name nvarchar(400), p_actor nvarchar(max) (the operator's name)
create or alter procedure rowlease.remove_schedule
  @p_schedule_name nvarchar(400), @p_actor nvarchar(max) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @removed int;
begin transaction;
delete from rowlease.Schedule where ScheduleName = @p_schedule_name;
set @removed = @@rowcount;
if @removed > 0
  exec rowlease_internal.note_change N'remove_schedule', N'schedule', @p_schedule_name, null, @p_actor;
commit transaction;
select case when @removed > 0 then 'ok' else 'not_found' end as outcome;
