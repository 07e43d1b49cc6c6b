-- resume: allow claims from a paused queue again.
-- params:   p_queue_name nvarchar(400), p_actor nvarchar(max) (the operator's name)
-- why:      workers poll, so they notice this at their next claim.
create or alter procedure rowlease.resume @p_queue_name nvarchar(400), @p_actor nvarchar(max) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
begin transaction;
exec rowlease_internal.check_queue @p_queue_name;
update rowlease.QueueSettings set Paused = 0 where QueueName = @p_queue_name;
exec rowlease_internal.note_change N'resume', N'queue', @p_queue_name, null, @p_actor;
commit transaction;
