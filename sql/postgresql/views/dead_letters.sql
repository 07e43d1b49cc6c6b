-- dead_letters: a view of the dead letters, grouped by the first line of their error without digits.
-- params:   none
-- returns:  queue_name, kind, error_pattern (the first 250 characters of the first line of last_error,
--           with # for each run of digits, cut to 200), num_requests (how many there are), first_time (when the
--           first of them failed for good), last_time (when the last did), last_request_id (one of
--           them: the one that was enqueued last)
-- errors:   none
-- locks:    none
-- why:      it reads the newest 10,000, in the order of an index: an equal number of each queue that
--           has any, but at least 100. This bounds its cost, and also num_requests;
--           depth_by_priority counts all. 250 characters, because masking takes most of the time. The row comparisons keep the planner from the primary key,
--           by which it would read all that was enqueued later. find_ids has the same pattern: no role
--           may call a helper of this view.
create or replace view rowlease.dead_letters as
select f.queue_name, f.kind, f.error_pattern, count(*) as num_requests,
       min(f.completion_time) as first_time, max(f.completion_time) as last_time,
       max(f.request_id) as last_request_id
  from (
    select s.queue_name, l.kind, l.completion_time, l.request_id, left(regexp_replace(
             split_part(left(l.last_error, 250), e'\n', 1), '[0-9]+', '#', 'g'), 200) as error_pattern
      from (
        select s.queue_name, greatest(10000 / count(*) over (), 100) as look
          from rowlease.queue_settings s
         cross join lateral (
           select from rowlease.queue q
            where q.status = 'Failed' and (q.queue_name, q.request_id) >= (s.queue_name, 0)
              and (q.queue_name, q.request_id) <= (s.queue_name, 9223372036854775807) limit 1) f) s
     cross join lateral (
       select q.request_id, q.kind, q.last_error, q.completion_time from rowlease.queue q
        where q.status = 'Failed' and (q.queue_name, q.request_id) >= (s.queue_name, 0)
          and (q.queue_name, q.request_id) <= (s.queue_name, 9223372036854775807)
        order by q.queue_name desc, q.request_id desc limit s.look) l) f
 group by f.queue_name, f.kind, f.error_pattern;
