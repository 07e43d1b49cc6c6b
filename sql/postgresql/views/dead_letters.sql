-- dead_letters: a view of the dead letters, grouped by the first line of their error.
-- params:   none
-- returns:  queue_name, kind, error_line (the first line of last_error), num_requests (how many there
--           are), first_time (when the first of them failed for good), last_time (when the last did),
--           last_request_id (one of them: the one that was enqueued last)
-- errors:   none
-- locks:    none
-- why:      from each queue, it reads the newest 2,000, in the order of an index. This bounds its
--           cost, and also num_requests; depth_by_priority counts all.
create or replace view rowlease.dead_letters as
select s.queue_name, f.kind, split_part(f.last_error, e'\n', 1) as error_line,
       count(*) as num_requests, min(f.completion_time) as first_time,
       max(f.completion_time) as last_time, max(f.request_id) as last_request_id
  from rowlease.queue_settings s
 cross join lateral (
   select q.request_id, q.kind, q.last_error, q.completion_time from rowlease.queue q
    where q.queue_name = s.queue_name and q.status = 'Failed'
    order by q.request_id desc limit 2000) f
 group by s.queue_name, f.kind, split_part(f.last_error, e'\n', 1);
