-- check_queue: refuse a queue that does not exist.
-- params:   p_queue_name nvarchar(400)
-- returns:  nothing
-- why:      queues are created explicitly, so a misspelt name is an error everywhere. In a
--           comparison SQL Server ignores blanks at the end.
create or alter procedure rowlease_internal.check_queue @p_queue_name nvarchar(400)
as
set nocount on;
set xact_abort on;
if exists (select 1 from rowlease.QueueSettings as s where s.QueueName = @p_queue_name
              and datalength(rtrim(@p_queue_name)) = datalength(@p_queue_name))
  return;
declare @says nvarchar(2048) = concat(
  N'queue "', @p_queue_name, N'" does not exist; create it with `rowlease queue create ',
  @p_queue_name, N'`, or in SQL with rowlease.configure_queue');
throw 51002, @says, 1;
