-- enqueue_by_operator: put one request into a queue, and record who did.
-- params:   p_queue_name nvarchar(400), p_kind nvarchar(max), p_payload nvarchar(max), p_priority int,
--           p_delay_ms bigint, p_due_time datetime2(6), p_actor nvarchar(max) (the operator's name)
-- locks:    the queue's admission lock if it has a capacity; as add_requests
create or alter procedure rowlease.enqueue_by_operator
  @p_queue_name nvarchar(400), @p_kind nvarchar(max), @p_payload nvarchar(max) = N'{}',
  @p_priority int = 0, @p_delay_ms bigint = null, @p_due_time datetime2(6) = null,
  @p_actor nvarchar(max) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @kinds nvarchar(max) = rowlease_internal.array_of(@p_kind);
declare @payloads nvarchar(max) = rowlease_internal.array_of(@p_payload);
declare @priorities nvarchar(max) = concat(N'[', coalesce(@p_priority, 0), N']');
declare @delays nvarchar(max) = N'[' + cast(@p_delay_ms as nvarchar(20)) + N']';
declare @dues nvarchar(max) = rowlease_internal.array_of(convert(nvarchar(30), @p_due_time, 126));
declare @now datetime2(6), @admitted bit, @added xml, @id bigint, @arguments nvarchar(max);
begin transaction;
set @now = rowlease.now();
exec rowlease_internal.check_capacity @p_queue_name, 1, @p_priority, @now, @admitted output;
exec rowlease_internal.add_requests @p_queue_name, @now, @kinds, @payloads, @priorities, @delays, @dues,
  null, null, null, null, @added output;
select @id = a.request_id
  from openjson(cast(@added as nvarchar(max))) with (request_id bigint) as a;
set @arguments = concat(N'{"kind": "', string_escape(@p_kind, 'json'), N'", "request_id": ', @id, N'}');
exec rowlease_internal.note_change N'enqueue', N'queue', @p_queue_name, @arguments, @p_actor;
commit transaction;
select @id as request_id, 'ok' as outcome;
