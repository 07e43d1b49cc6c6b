-- note_change: record a change of a queue, a schedule, a load or a stream, which has only one step.
-- params:   p_verb nvarchar(max), p_subject nvarchar(20) (queue, schedule, load_id or
--           stream), p_name nvarchar(400) (null: all), p_arguments nvarchar(max), p_actor
--           nvarchar(max)
-- returns:  nothing
-- errors:   none
-- locks:    none
-- why:      as note_operation; the filter names what was changed.
create or alter procedure rowlease_internal.note_change
  @p_verb nvarchar(max), @p_subject nvarchar(20), @p_name nvarchar(400), @p_arguments nvarchar(max),
  @p_actor nvarchar(max)
as
set nocount on;
set xact_abort on;
declare @id bigint, @now datetime2(6) = rowlease.now();
declare @filter nvarchar(max) = coalesce(
  N'{"' + @p_subject + N'": "' + string_escape(@p_name, 'json') + N'"}', N'{}');
exec rowlease_internal.note_operation @p_verb, @filter, @p_arguments, @p_actor, @now, 1, @id output;
