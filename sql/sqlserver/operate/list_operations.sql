-- list_operations: list the operations of operators, the latest first.
-- params:   p_limit int
create or alter procedure rowlease.list_operations @p_limit int = 100
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
select top (@p_limit)
       o.OperationId as operation_id, o.Verb as verb, o.Filter as filter, o.Arguments as arguments,
       o.Actor as actor, o.Login as login, o.ClientAddress as client_address,
       o.Application as application, o.StartedTime as started_time, o.LastTime as last_time,
       o.NumRequests as num_requests, o.Status as status
  from rowlease.Operations as o
 order by o.LastTime desc, o.OperationId desc;
