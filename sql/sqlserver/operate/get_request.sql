-- get_request: show one request.
-- params:   p_request_id bigint
-- returns:  request_id bigint, queue_name text, kind text, status text, priority integer,
--           due_time timestamptz, dedup_key text, group_key text, num_attempts integer, payload text,
--           last_error text, result text -- no row if there is no such request
-- errors:   none
-- locks:    none
-- why:      it reads by key, so a program may call it repeatedly until a request is finished.
create or alter procedure rowlease.get_request @p_request_id bigint
as
set nocount on;
set xact_abort on;
select r.RequestId as request_id, r.QueueName as queue_name, r.Kind as kind, r.Status as status,
       cast(r.Priority as int) as priority, r.DueTime as due_time, r.DedupKey as dedup_key,
       r.GroupKey as group_key, r.NumAttempts as num_attempts, r.Payload as payload,
       r.LastError as last_error, r.Result as result
  from rowlease.Requests as r
 where r.RequestId = @p_request_id;
