-- list_ready: list the requests of a queue that claims take next.
-- params:   p_queue_name nvarchar(400), p_limit int (at most 1,000 are returned)
create or alter procedure rowlease.list_ready @p_queue_name nvarchar(400), @p_limit int = 20
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
select top (@p_limit)
       r.Place as place, r.RequestId as request_id, r.Kind as kind, r.Priority as priority,
       r.DueTime as due_time, r.WaitingSeconds as waiting_seconds
  from rowlease.Ready as r
 where r.QueueName = @p_queue_name
 order by r.Place;
