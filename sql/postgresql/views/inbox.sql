-- inbox: a view into which any program may INSERT requests.
-- params:   queue_name, kind, priority, due_time, dedup_key, group_key, payload, headers
-- returns:  no rows: the view can be written to, but not read; producers may select from it, so
--           that a JDBC writer can inspect its columns
-- errors:   as fill_request; 23505 a live request has the dedup key
-- locks:    as enqueue_many
-- why:      a client may describe a request, but not its lease or its progress. The trigger
--           fill_request fills defaults and clamps the priority.
create or replace view rowlease.inbox as
select q.queue_name, q.kind, q.priority, q.due_time, q.dedup_key, q.group_key, q.payload,
       q.headers
  from rowlease.queue q
 where false;
