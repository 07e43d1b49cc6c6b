-- pause: stop claims from a queue; running requests and producers continue.
-- params:   p_queue_name nvarchar(400), p_actor nvarchar(max) (the operator's name)
create or alter procedure rowlease.pause @p_queue_name nvarchar(400), @p_actor nvarchar(max) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
begin transaction;
exec rowlease_internal.check_queue @p_queue_name;
update rowlease.QueueSettings set Paused = 1 where QueueName = @p_queue_name;
exec rowlease_internal.note_change N'pause', N'queue', @p_queue_name, null, @p_actor;
commit transaction;
