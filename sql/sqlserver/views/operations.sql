-- operations: a view of the operations of operators, with their logins and addresses.
-- params:   none
create or alter view rowlease.Operations as
select OperationId, Verb, Filter, Arguments, Actor, Login, ClientAddress, Application, StartedTime,
       LastTime, NumRequests, After, FinishedTime,
       case when FinishedTime is null then 'Open' else 'Finished' end as Status
  from rowlease.Operation;
