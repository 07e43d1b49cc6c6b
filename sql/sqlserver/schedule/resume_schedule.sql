-- resume_schedule: let a paused schedule fire again, starting now.
-- params:   p_schedule_name nvarchar(400), p_actor nvarchar(max) (the operator's name)
create or alter procedure rowlease.resume_schedule
  @p_schedule_name nvarchar(400), @p_actor nvarchar(max) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @outcome varchar(10) = 'ok';
begin transaction;
update rowlease.Schedule
   set Paused = 0, NextTime = null, ChangedTime = rowlease.now(), LockedBy = null,
       LockExpiresTime = null, LockToken = LockToken + 1
 where ScheduleName = @p_schedule_name and Paused <> 0;
if @@rowcount = 0
  set @outcome = case when exists (select 1 from rowlease.Schedule as s
                                    where s.ScheduleName = @p_schedule_name)
                      then 'repeat' else 'not_found' end;
if @outcome = 'ok'
  exec rowlease_internal.note_change N'resume_schedule', N'schedule', @p_schedule_name, null, @p_actor;
commit transaction;
select @outcome as outcome;
