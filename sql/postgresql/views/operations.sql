-- operations: a view of the operations of operators, with their logins and addresses.
-- params:   none
-- returns:  the columns of operation, and status (Finished, or Open: it can be resumed)
-- errors:   none
-- locks:    none
-- why:      an operation is kept for 90 days after its last step.
create or replace view rowlease.operations as
select operation_id, verb, filter, arguments, actor, login, client_address, application, started_time,
       last_time, num_requests, after, finished_time,
       case when finished_time is null then 'Open' else 'Finished' end as status
  from rowlease.operation;
