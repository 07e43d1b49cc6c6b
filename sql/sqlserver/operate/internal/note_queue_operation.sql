-- note_queue_operation: record an operation of an operator on a queue.
-- params:   p_verb nvarchar(max), p_queue_name nvarchar(400), p_arguments nvarchar(max),
--           p_actor nvarchar(max)
-- returns:  nothing
-- errors:   none
-- locks:    none
-- why:      as note_operation; the filter names the queue.
create or alter procedure rowlease_internal.note_queue_operation
  @p_verb nvarchar(max), @p_queue_name nvarchar(400), @p_arguments nvarchar(max),
  @p_actor nvarchar(max) = null
as
set nocount on;
set xact_abort on;
declare @id bigint, @now datetime2(6) = rowlease.now();
declare @filter nvarchar(max) = json_modify(N'{}', '$.queue', @p_queue_name);
exec rowlease_internal.note_operation @p_verb, @filter, @p_arguments, @p_actor, @now, 1, @id output;
