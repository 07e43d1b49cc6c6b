-- list_dead_letters: list the dead letters, grouped by their error, the largest group first.
-- params:   p_limit int (how many groups)
create or alter procedure rowlease.list_dead_letters @p_limit int = 100
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
select top (@p_limit)
       d.QueueName as queue_name, d.Kind as kind, d.ErrorPattern as error_pattern,
       d.NumRequests as num_requests, d.FirstTime as first_time, d.LastTime as last_time,
       d.LastRequestId as last_request_id
  from rowlease.DeadLetters as d
 order by d.NumRequests desc, d.LastRequestId desc;
