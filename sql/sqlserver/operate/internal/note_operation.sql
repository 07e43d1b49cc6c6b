-- note_operation: record an operation of an operator, for the view operations.
-- params:   p_verb nvarchar(max), p_filter nvarchar(max), p_arguments nvarchar(max), p_actor
--           nvarchar(max), p_now datetime2(6), p_finished bit (1: it has only one step),
--           p_operation_id bigint output
-- returns:  p_operation_id -- the operation's id
create or alter procedure rowlease_internal.note_operation
  @p_verb nvarchar(max), @p_filter nvarchar(max), @p_arguments nvarchar(max), @p_actor nvarchar(max),
  @p_now datetime2(6), @p_finished bit, @p_operation_id bigint output
as
set nocount on;
set xact_abort on;
declare @noted table (OperationId bigint not null);
insert into rowlease.Operation (Verb, Filter, Arguments, Actor, Login, ClientAddress, Application,
                                StartedTime, LastTime, FinishedTime)
output inserted.OperationId into @noted (OperationId)
values (left(@p_verb, 20), @p_filter, coalesce(@p_arguments, N'{}'), left(@p_actor, 200),
        left(original_login(), 200), cast(connectionproperty('client_net_address') as nvarchar(200)),
        left(coalesce(app_name(), N''), 200), @p_now, @p_now, case when @p_finished = 1 then @p_now end);
set @p_operation_id = (select n.OperationId from @noted as n);
