-- list_operations: list the operations of operators, the latest first.
-- params:   p_limit int
-- returns:  operation_id bigint, verb text, filter text (JSON), arguments text (JSON), actor text,
--           login text, client_address text, application text, started_time timestamptz,
--           last_time timestamptz, num_requests bigint, status text ('Open' | 'Finished')
-- errors:   none
-- locks:    none
-- why:      it returns the rows of the view operations.
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
